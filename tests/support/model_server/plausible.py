"""Answers that pass their checks where a schema alone cannot say what may be answered. Functions of the question."""

import hashlib
import random
import re
from collections.abc import Mapping
from typing import Any

from eunoe.workers.models.questions.asking import CLOSING, OPENING

_ROW = re.compile(r"^\[(\d+)\] ([^\n(:]+?)(?: \((?:\w+ )?\d{4}-\d\d-\d\d\))?: ([^\n]*)$", re.MULTILINE)
_SEGMENTS = 4
"""Rows of a segment, about."""
_LINES = 4
"""Lines of a memory, about."""


def segments(user: str) -> Mapping[str, Any]:
    """Segments that tile the numbered rows."""
    last = max((int(number) for number, _, _ in _ROW.findall(user)), default=1)
    chance = _chance(user)
    starts = [1, *(row for row in range(2, last + 1) if chance.random() < 1 / _SEGMENTS)]
    return {"starts": [{"row": row, "topic": f"topic {row}"} for row in starts]}


def memories(user: str) -> Mapping[str, Any]:
    """Some of the lines, as memories of those who said them; at most forty."""
    rows = [row for row in _ROW.findall(user) if "proves nothing" not in row[2]]
    chance = _chance(user)
    kept = [row for row in rows if chance.random() < 1 / _LINES] or rows[:1]
    return {
        "memories": [
            {"speaker": 0, "text": f"{who}: {text[:200]}", "own": int(number), "lines": [int(number)]}
            for number, who, text in kept[:40]
        ]
    }


def tricky(user: str) -> Mapping[str, Any]:
    """TeaFarm: a question of each of the two, about nothing."""
    speakers = _marked(user, "The two:").split(" and ")
    return {
        "questions": [
            {"speaker": who, "question": f"Do you still know that, {other}?", "answer": "It never was so."}
            for who, other in zip(speakers, reversed(speakers), strict=True)
        ]
    }


def made_session(user: str) -> Mapping[str, Any]:
    """TeaFarm: small talk that ends with the given question."""
    asker = re.findall(r"^Last utterance, said by (.+):$", user, re.MULTILINE)[0]
    talk = [{"speaker": asker, "text": f"So it goes, {number}."} for number in range(1, 10)]
    return {"utterances": [*talk, {"speaker": asker, "text": _marked(user, f"Last utterance, said by {asker}:")}]}


def _marked(user: str, title: str) -> str:
    """What stands between the marks after a title."""
    return user.partition(title)[2].partition(OPENING)[2].partition(CLOSING)[0].strip()


def _chance(user: str) -> random.Random:
    return random.Random(hashlib.sha256(user.encode()).digest())
