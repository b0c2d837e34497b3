"""Inputs and gold of cases, by stage, and the lines and memories that are made of them.

A line is written ``Ann: I moved to Lyon.``; a memory ``Ann: Ann lives in Lyon.``, with its day in brackets before it
where it is not `DAY`: ``[2026-01-05] Ann: …``.
"""

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from pydantic import Field

from eunoe.schemas.base import Value
from eunoe.schemas.errors import Refused
from eunoe.schemas.events import Line, Provenance
from eunoe.schemas.memory import Memory

DAY = "2026-03-14"
EARLIER = "2026-01-10"
_MARKED = re.compile(r"(?:\[(\d{4}-\d\d-\d\d)\] )?([^:]{1,60}): (.+)", re.DOTALL)
_CASE = Provenance(code="case", model="none")

Alternatives = tuple[str, ...]


class LinesInput(Value):
    """Input of segment, summarize, question: a dialogue."""

    lines: tuple[str, ...] = Field(min_length=1)
    day: str = DAY


class SegmentGold(Value):
    """First rows of the second and later segments."""

    starts: tuple[int, ...]
    """Rows, from 1, that must begin a segment; one row more or less counts too."""
    also: tuple[int, ...] = ()
    """Rows that may."""


class TextGold(Value):
    """Words of one text."""

    words: tuple[str, ...] = ()
    """Each must stand there; ``|`` parts alternatives."""
    banned: tuple[str, ...] = ()
    script: str | None = None
    most: int | None = None
    """Words and marks at most."""


class MemoryGold(Value):
    """One memory that must be there."""

    words: tuple[str, ...]
    speaker: str | None = None
    cites: tuple[int, ...] = ()
    """Lines, from 1, of which it must cite one."""


class SummaryGold(Value):
    """The memories of a session."""

    memories: tuple[MemoryGold, ...] = ()
    banned: tuple[str, ...] = ()
    most: int | None = None
    script: str | None = None


class PairsInput(Value):
    """Input of update and link: an earlier and a later memory each."""

    pairs: tuple[tuple[str, str], ...] = Field(min_length=1)


class OperationsGold(Value):
    """The allowed operations of each pair, and words of the sentences that fuse two."""

    operations: tuple[Alternatives, ...]
    fused: tuple[str, ...] = ()


class RelationsGold(Value):
    """The allowed relations of each pair; ``None`` is one."""

    relations: tuple[Alternatives, ...]


class NodeInput(Value):
    """A node of the tree: its text before, new entries, entries to drop."""

    before: str = ""
    new: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    entries: int = 2


class TreeInput(Value):
    """Input of tree."""

    nodes: tuple[NodeInput, ...] = Field(min_length=1)


class TreeGold(Value):
    """The texts of the nodes."""

    nodes: tuple[TextGold, ...]


class BlendCaseInput(Value):
    """Input of blend: a dialogue, and memories of earlier sessions."""

    lines: tuple[str, ...] = Field(min_length=1)
    memories: tuple[str, ...] = ()
    day: str = DAY


class InsightGold(Value):
    """One insight that must be there."""

    words: tuple[str, ...]
    kinds: Alternatives
    replaces: tuple[int, ...] = ()
    """Memories, from 1, that it must replace, and no other."""


class BlendGold(Value):
    """The insights of a turn."""

    insights: tuple[InsightGold, ...] = ()
    banned: tuple[str, ...] = ()
    most: int | None = None
    script: str | None = None


class ReplyInput(Value):
    """Input of respond: what is remembered, the session so far, the question."""

    question: str
    memory: tuple[str, ...] = ()
    """Lines of earlier sessions, marked with their days."""
    timeline: tuple[str, ...] = ()
    """Memories of one timeline, each but the last followed by its relation to the next after ``->``."""
    dialogue: tuple[str, ...] = ()
    speak_as: str = "assistant"
    day: str = DAY


class ReplyGold(TextGold):
    """The reply."""

    abstains: bool = False
    cites: tuple[int, ...] = ()
    """Rows, from 1, of which it must cite one."""


def line_of(text: str, number: int, day: str = DAY) -> Line:
    """The line of a written one; raises `Refused` for one without a speaker."""
    marked, speaker, said = _parts(text)
    at = day_at(marked or day) + timedelta(minutes=number)
    return Line(utterance_id=f"u{number}", speaker=speaker, text=said, at=at)


def lines_of(texts: Sequence[str], day: str = DAY, first: int = 1) -> tuple[Line, ...]:
    """The lines of written ones, numbered from ``first``."""
    return tuple(line_of(text, number, day) for number, text in enumerate(texts, first))


def memory_of(text: str, number: int, day: str = EARLIER, session: int = 1) -> Memory:
    """The memory of a written one; its evidence is one utterance of the same words."""
    line = line_of(text, number, day)
    return Memory(
        memory_id=f"m{session}-{number}",
        session=session,
        index=number,
        speaker=line.speaker,
        text=line.text,
        evidence=(line.model_copy(update={"utterance_id": f"e{session}-{number}"}),),
        at=line.at,
        known_from=line.at,
        made_by=_CASE,
    )


def day_at(day: str) -> datetime:
    """Nine in the morning of a day."""
    return datetime.fromisoformat(day).replace(hour=9, tzinfo=UTC)


def _parts(text: str) -> tuple[str | None, str, str]:
    found = _MARKED.fullmatch(text)
    if found is None:
        raise Refused(f"a case has a line without a speaker: {text[:60]!r}")
    return found[1], found[2], found[3]
