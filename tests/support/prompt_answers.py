"""A model whose answers pass every check and depend on every character of the prompt: a wrong retrieval shows.

The first answer and the one after a correction are the same: whether one had to be corrected does not show. Some
questions (by the prompt's hash) are answered badly however often they are asked: there the offline rules decide.
"""

import hashlib
import random
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from eunoe.workers.models.questions.asking import CLOSING, OPENING, REFUSED_NOTE
from eunoe.workers.models.questions.prompt_lines import FROM_MEMORY
from tests.support.model_server.schema_answers import SchemaAnswers
from tests.support.model_server.server import ChatRequest

HOPELESS = 0.05
"""The share of questions that are answered badly twice."""

_LINE = re.compile(r"^\[m?(\d+)\] (.+?) \((?:\w+ )?\d{4}-\d\d-\d\d\): (.*)$", re.MULTILINE)
_ENTRY = re.compile(r"^\[e\d+\] (.*)$", re.MULTILINE)
_OK = "OK"
"""To the probe of an endpoint that did not answer, which asks for no form."""
_BAD = "Certainly! Here is what I found in the conversation."
_KINDS = ("state", "event", "preference", "plan", "")
_ENDS = ("", "", "2025-05-01", "2099-12-31", "soon")
_OPERATIONS = ("APPEND",) * 6 + ("PASS", "REPLACE", "DELETE", "FUSE")
_RELATIONS = ("None",) * 4 + ("Changed", "Cause", "Reason", "HinderedBy", "React", "Want", "SameTopic", "SameTopic")


@dataclass(frozen=True, slots=True)
class _Asked:
    """A question without its correction, and the chance that it gives."""

    user: str
    chance: random.Random
    tag: str
    """Eight hex digits that tell this prompt from every other."""

    def number(self, pattern: str) -> int:
        """The number that the prompt names."""
        found = re.search(pattern, self.user)
        assert found is not None, f"no {pattern!r} in the prompt: {self.user[:200]}"
        return int(found[1])

    def lines(self, title: str) -> list[tuple[int, str, str]]:
        """Number, speaker and text of the rows of the data block after ``title``."""
        block = self.user.partition(title)[2].partition(OPENING)[2].partition(CLOSING)[0]
        return [(int(number), speaker, text) for number, speaker, text in _LINE.findall(block)]

    def speaker(self, name: str) -> int:
        """The number of a speaker in the list."""
        found = re.search(rf"^(\d+) = {re.escape(name)}$", self.user, re.MULTILINE)
        return int(found[1]) if found else 0


@dataclass(frozen=True, slots=True)
class PromptAnswers:
    """A script for `ModelServer`; ``malformed``: the share of questions whose first answer is of no use."""

    malformed: float = 0.0

    def __call__(self, question: ChatRequest) -> Any:
        """The answer of the form that is asked for, or prose that is of no form."""
        if not question.form:
            return _OK
        user = question.user.partition(f"\n\n{REFUSED_NOTE}")[0]
        digest = hashlib.sha256(f"{question.form}\n{question.system}\n{user}".encode()).digest()
        drawn = int.from_bytes(digest[:8], "big") / 2**64
        if drawn < HOPELESS or (not question.correcting and drawn < HOPELESS + self.malformed):
            return _BAD
        if question.form not in _MAKERS:  # a form that only the schema tells
            return SchemaAnswers(question.schema or {}, user).make()
        return _MAKERS[question.form](_Asked(user, random.Random(digest), digest.hex()[:8]))


def _segments(asked: _Asked) -> Any:
    rows = asked.number(r"The dialogue has (\d+) rows")
    cuts = sorted(asked.chance.sample(range(1, rows), asked.chance.randint(0, min(2, rows - 1)))) if rows > 1 else []
    return {"starts": [{"row": row, "topic": asked.tag} for row in [1, *(cut + 1 for cut in cuts)]]}


def _memories(asked: _Asked) -> Any:
    lines = [line for line in asked.lines("The lines ") if FROM_MEMORY not in line[2]]
    chosen = asked.chance.sample(lines, min(len(lines), asked.chance.randint(1, 3)))
    draw = asked.chance.choice
    told = [
        {
            "kind": draw(_KINDS),
            "text": f"{speaker} said: {text[:120]} ({asked.tag})",
            "until": draw(_ENDS),
            "own": number,
            "lines": [number],
        }
        for number, speaker, text in sorted(chosen)
    ]
    return {"memories": told}


def _operations(asked: _Asked) -> Any:
    made = []
    for pair in range(1, asked.number(r"There are (\d+) pairs") + 1):
        operation = asked.chance.choice(_OPERATIONS)
        fused = f"Both hold, says {asked.tag}, pair {pair}." if operation == "FUSE" else ""
        made.append({"n": pair, "why": f"because of {asked.tag}", "op": operation, "merged": fused})
    return {"pairs": made}


def _relations(asked: _Asked) -> Any:
    pairs = asked.number(r"There are (\d+) pairs")
    draw = asked.chance.choice
    return {
        "pairs": [
            {"n": pair, "why": f"because of {asked.tag}", "relation": draw(_RELATIONS)} for pair in range(1, pairs + 1)
        ]
    }


def _summaries(asked: _Asked) -> Any:
    entries = _ENTRY.findall(asked.user) or ["nothing"]
    return {
        "nodes": [
            {"n": node, "text": f"{' '.join(asked.chance.choice(entries).split()[:12])} {asked.tag} {node}"}
            for node in range(1, asked.number(r"(\d+) nodes, numbered") + 1)
        ]
    }


def _question(asked: _Asked) -> Any:
    (_, speaker, text) = asked.lines("Its last line:")[-1]
    return {"question": f"What is known of {speaker} and {text[:100]}?"}


def _insights(asked: _Asked) -> Any:
    lines = [line for line in asked.lines("The lines 1 to")[-2:] if FROM_MEMORY not in line[2]]
    if not lines or asked.chance.random() < 0.3:
        return {"insights": []}
    number, speaker, text = asked.chance.choice(lines)
    old = [memory for memory, about, _ in asked.lines("The memories m1 to") if about == speaker]
    replaces = [f"m{asked.chance.choice(old)}"] if old and asked.chance.random() < 0.5 else []
    kind = asked.chance.choice(["Updated", "Redundant"]) if replaces else "New"
    told = f"{speaker} tells: {text[:100]} ({asked.tag})"
    row = {"kind": kind, "speaker": asked.speaker(speaker), "text": told, "lines": [number], "replaces": replaces}
    return {"insights": [row]}


def _reply(asked: _Asked) -> Any:
    return {"text": f"I remember {asked.tag}.", "cited": [], "notes": []}


_MAKERS: Mapping[str, Callable[[_Asked], Any]] = {
    "Starts": _segments,
    "Memories": _memories,
    "Operations": _operations,
    "Relations": _relations,
    "Summaries": _summaries,
    "Question": _question,
    "Insights": _insights,
    "Reply": _reply,
}
