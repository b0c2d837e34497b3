"""A conversation with planned changes, and a language model that answers as one would who knows the plan.

Every answer is a function of the prompt: what a prompt does not show cannot be cited, replaced or told.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta

from eunoe.schemas.base import Value
from eunoe.schemas.events import Ask, ConversationEvent
from eunoe.schemas.model_ports import Prompt
from eunoe.workers.models.questions.answer_forms import (
    InsightsForm,
    MemoriesForm,
    OperationsForm,
    QuestionForm,
    RelationsForm,
    ReplyForm,
    StartsForm,
    SummariesForm,
)
from tests.support.blend import speaker_number
from tests.support.in_memory import START, ended, utterance
from tests.support.written_days import without_days

SESSIONS: tuple[tuple[str, ...], ...] = (
    (
        "Mia: I live in Lyon, near the river.",
        "Nora: I live in Lyon too!",
        "Mia: I work at a bakery.",
        "Mia: I have a bad flu, sorry.",
        "Mia: Paul and I are engaged.",
        "Mia: We want to see Rome in June.",
        "Mia: My dog Rex is three years old.",
        "Mia: I drive an old Fiat.",
        "Mia: I am a vegetarian.",
        "Mia: I learn Spanish.",
        "Mia: My back hurts, and no doctor has seen it.",
    ),
    ("Mia: I moved to Oslo last week.", "Mia: The flu is over at last.", "Mia: I quit the bakery."),
    (
        "Mia: Paul and I married on Saturday.",
        "Mia: Rome is too hot, we will go to Lisbon instead.",
        "Mia: I told you that Rex is three. That was wrong, he is five.",
        "Mia: Of course I am still a vegetarian.",
        "Mia: Our flat in Oslo is by the harbour.",
    ),
    (
        "Mia: I work as a nurse now.",
        "Mia: I get physiotherapy for my back.",
        "Mia: I sold the Fiat and ride a bicycle.",
    ),
    ("Mia: The trip to Lisbon is off, we need the money.", "Nora: What a pity!", "Mia: We have moved to Bergen."),
)
"""Speaker and words; the ids are ``<session>.<place>``, both counted from 1."""

MEMORIES = {
    "I live in Lyon, near the river.": "Mia lives in Lyon.",
    "I live in Lyon too!": "Nora lives in Lyon.",
    "I work at a bakery.": "Mia works at a bakery.",
    "I have a bad flu, sorry.": "Mia has the flu.",
    "Paul and I are engaged.": "Mia is engaged to Paul.",
    "We want to see Rome in June.": "Mia plans to travel to Rome in June.",
    "My dog Rex is three years old.": "Mia's dog Rex is three years old.",
    "I drive an old Fiat.": "Mia drives an old Fiat.",
    "I am a vegetarian.": "Mia is a vegetarian.",
    "I learn Spanish.": "Mia learns Spanish.",
    "My back hurts, and no doctor has seen it.": "Mia's back hurts, and no doctor has seen it.",
    "I moved to Oslo last week.": "Mia lives in Oslo.",
    "The flu is over at last.": "Mia has recovered from the flu.",
    "I quit the bakery.": "Mia no longer works at the bakery.",
    "Paul and I married on Saturday.": "Mia is married to Paul.",
    "Rome is too hot, we will go to Lisbon instead.": "Mia plans to travel to Lisbon in June.",
    "I told you that Rex is three. That was wrong, he is five.": "Mia's dog Rex is five years old.",
    "Of course I am still a vegetarian.": "Mia is still a vegetarian.",
    "Our flat in Oslo is by the harbour.": "Mia's flat in Oslo is by the harbour.",
    "I work as a nurse now.": "Mia works as a nurse.",
    "I get physiotherapy for my back.": "Mia gets physiotherapy.",
    "I sold the Fiat and ride a bicycle.": "Mia rides a bicycle, for she sold her Fiat.",
    "The trip to Lisbon is off, we need the money.": "Mia has cancelled the trip to Lisbon.",
    "We have moved to Bergen.": "Mia moved to Bergen with Paul.",
}
"""What is said → what the summary makes of it."""

INSIGHTS = {
    "The trip to Lisbon is off, we need the money.": (
        "Mia has cancelled the trip to Lisbon.",
        "Mia plans to travel to Lisbon in June.",
    ),
    "We have moved to Bergen.": ("Mia lives in Bergen.", "Mia lives in Oslo."),
}
"""What is said → the insight, and the memory that it updates."""

OPERATIONS = {
    ("Mia lives in Lyon.", "Mia lives in Oslo."): "REPLACE",
    ("Mia has the flu.", "Mia has recovered from the flu."): "DELETE",
    ("Mia works at a bakery.", "Mia no longer works at the bakery."): "REPLACE",
    ("Mia is engaged to Paul.", "Mia is married to Paul."): "REPLACE",
    ("Mia plans to travel to Rome in June.", "Mia plans to travel to Lisbon in June."): "REPLACE",
    ("Mia's dog Rex is three years old.", "Mia's dog Rex is five years old."): "REPLACE",
    ("Mia is a vegetarian.", "Mia is still a vegetarian."): "PASS",
    ("Mia no longer works at the bakery.", "Mia works as a nurse."): "REPLACE",
    ("Mia's back hurts, and no doctor has seen it.", "Mia gets physiotherapy."): "FUSE",
    ("Mia drives an old Fiat.", "Mia rides a bicycle, for she sold her Fiat."): "REPLACE",
    ("Mia's flat in Oslo is by the harbour.", "Mia lives in Bergen."): "REPLACE",
    ("Mia lives in Bergen.", "Mia moved to Bergen with Paul."): "PASS",
}
"""(memory, new sentence) → operation; all others are APPEND."""
FUSED = "Mia gets physiotherapy for the back that hurts."

RELATIONS = {("Mia lives in Oslo.", "Mia's flat in Oslo is by the harbour."): "SameTopic"}
"""(older, newer) → relation; all others have none."""

_LINE = re.compile(r"^\[(m?\d+)\] (\w+) \((?:\w+ )?[\d-]+\): (.*)$", re.MULTILINE)
_PAIR = re.compile(r"^\[(\d+)\] about .*\n    m \([^)]*\): (.*)\n    s \([^)]*\): (.*)$", re.MULTILINE)
_RELATED = re.compile(r"^\[(\d+)\]\n    A \([^)]*\): (.*)\n(?:        .*\n)*    B \([^)]*\): (.*)$", re.MULTILINE)
_ROW = re.compile(r"^(\d+) (.*)$", re.MULTILINE)


def events(asks: bool = True) -> list[ConversationEvent]:
    """All sessions; the first line of the last one asks for a reply."""
    found: list[ConversationEvent] = []
    for session, lines in enumerate(SESSIONS, 1):
        for place, row in enumerate(lines, 1):
            speaker, _, text = row.partition(": ")
            at = START + timedelta(days=10 * session, minutes=place)
            ask = Ask(request_id="r5") if asks and (session, place) == (5, 1) else None
            id_ = f"{session}.{place}"
            found.append(utterance(0, text, utterance_id=id_, speaker=speaker, at=at, ask=ask))
        found.append(ended())
    return found


def probe(name: str, text: str, **more: object) -> ConversationEvent:
    """A question of Mia's after all sessions."""
    ask = Ask(request_id=name, record=False, speak_as="Nora", **more)
    return utterance(0, text, utterance_id=name, speaker="Mia", at=START + timedelta(days=60), ask=ask)


@dataclass
class Planned:
    """The model; ``asked`` counts the questions by the form of their answer."""

    name: str = "planned"
    asked: list[str] = field(default_factory=list)

    async def answer(self, prompt: Prompt, form: type[Value], *, urgent: bool = False) -> Value:
        self.asked.append(form.__name__)
        (told,) = (tell for kind, tell in TOLD if issubclass(form, kind))
        return form.model_validate(told(without_days(prompt.user)))


def _segments(user: str) -> object:
    del user
    return {"starts": [{"row": 1, "topic": "all"}]}


def _memories(user: str) -> object:
    lines = [(int(number), speaker, MEMORIES.get(text)) for number, speaker, text in _LINE.findall(user)]
    return {"memories": [{"text": text, "own": number, "lines": [number]} for number, _, text in lines if text]}


def _operations(user: str) -> object:
    return {"pairs": [_operation(int(number), m, s) for number, m, s in _PAIR.findall(user)]}


def _operation(number: int, old: str, new: str) -> object:
    operation = OPERATIONS.get((old, new), "APPEND")
    fused = FUSED if operation == "FUSE" else ""
    return {"n": number, "why": f"{old} {operation} {new}", "op": operation, "merged": fused}


def _relations(user: str) -> object:
    told = [(int(number), RELATIONS.get((a, b), "None")) for number, a, b in _RELATED.findall(user)]
    return {"pairs": [{"n": n, "why": "as it was planned", "relation": relation} for n, relation in told]}


def _summaries(user: str) -> object:
    nodes = int(user.split(maxsplit=1)[0])
    return {"nodes": [{"n": node, "text": "Mia told many things."} for node in range(1, nodes + 1)]}


def _question(user: str) -> object:
    _, _, text = _LINE.findall(user)[-1]
    return {"question": INSIGHTS[text][1] if text in INSIGHTS else text}


def _insights(user: str) -> object:
    rows = _LINE.findall(user)
    number, speaker, said = rows[-1]
    if said not in INSIGHTS:
        return {"insights": []}
    text, old = INSIGHTS[said]
    (replaced,) = (n for n, who, words in rows if (who, words) == (speaker, old))
    insight = {
        "kind": "Updated",
        "speaker": speaker_number(user, speaker),
        "text": text,
        "lines": [int(number)],
        "replaces": [replaced],
    }
    return {"insights": [insight]}


def _reply(user: str) -> object:
    """Cites where Mia lives; where the question asks for now, only what the prompt does not say to be over."""
    question = user.rstrip().splitlines()[-2]
    homes = [(int(n), text) for n, text in _ROW.findall(user) if "Mia lives in" in text or "Mia: We have moved" in text]
    chosen = [(n, text) for n, text in homes if "before" in question or "held until" not in text]
    return {"cited": [n for n, _ in chosen], "text": " ".join(text for _, text in chosen) or "I do not know."}


TOLD: tuple[tuple[type[Value], Callable[[str], object]], ...] = (
    (StartsForm, _segments),
    (MemoriesForm, _memories),
    (OperationsForm, _operations),
    (RelationsForm, _relations),
    (SummariesForm, _summaries),
    (QuestionForm, _question),
    (InsightsForm, _insights),
    (ReplyForm, _reply),
)
"""A form, or one narrowed to what a prompt offers, and what answers in it."""
