"""Segments, memories and their changes.

Most docstrings of the classes, their fields and members are published in `deploy/contracts`.
"""

from enum import StrEnum
from typing import Literal

from pydantic import Field

from eunoe.schemas.base import Identifier, Name, Text, Time, Value
from eunoe.schemas.events import Insight, Line, Provenance, SessionEvent


class Segment(Value):
    """A topically coherent part of a session (SeCom, section 2.2), denoised for retrieval (section 2.3)."""

    segment_id: Identifier
    session: int = Field(ge=1)
    index: int = Field(ge=0)
    """Its place in the session, from 0."""
    lines: tuple[Line, ...]
    denoised: str
    """Text for retrieval; empty when nothing in the segment is evidence."""
    known_from: Time
    made_by: Provenance

    @property
    def utterance_ids(self) -> tuple[str, ...]:
        """Ids of its utterances, in order."""
        return tuple(line.utterance_id for line in self.lines)


class MemoryStatus(StrEnum):
    """Whether a memory holds. An operation never destroys: what no longer holds stays in timelines."""

    CURRENT = "current"
    SUPERSEDED = "superseded"
    """Another memory says what holds now."""
    RETIRED = "retired"
    """It is over, and nothing took its place."""


class MemoryOrigin(StrEnum):
    """Where a memory comes from."""

    SUMMARY = "summary"
    """The summary of a session."""
    INSIGHT = "insight"
    """What a turn blended of past and present (CREEM)."""
    FUSION = "fusion"
    """Two memories that each held what the other lacked, in one sentence."""


class MemoryDraft(Value):
    """A sentence worth remembering, with the utterances that it comes from."""

    speaker: Name
    """Whom it is about: the speaker who said it of themselves."""
    text: Text
    """One sentence in the third person that names the speaker."""
    evidence: tuple[Line, ...] = Field(min_length=1)
    """The cited utterances in order; none of them is a reply from memory."""

    @property
    def at(self) -> Time:
        """Event time: that of the latest cited utterance."""
        return max(line.at for line in self.evidence)


class Ending(Value):
    """Why and when a memory stopped holding; transitions are one-way."""

    status: Literal[MemoryStatus.SUPERSEDED, MemoryStatus.RETIRED]
    by: Identifier | None = None
    """The successor; None for a retired memory."""
    session: int = Field(ge=1)
    """The session that ended it."""
    at: Time
    """Event time."""
    because: str


class Reinforcement(Value):
    """Later evidence that a memory still holds."""

    by: Identifier
    """The memory that repeated it, born superseded."""
    session: int = Field(ge=1)
    at: Time
    """Event time."""


class Suspicion(Value):
    """A later memory that may contradict this one; a flag, no ending."""

    by: Identifier
    session: int = Field(ge=1)
    because: str


class Memory(Value):
    """One sentence that is remembered, and what became of it."""

    memory_id: Identifier
    session: int = Field(ge=1)
    """The session it was born in."""
    index: int = Field(ge=0)
    """Its place among the memories of its session, from 0."""
    speaker: Name
    text: Text
    evidence: tuple[Line, ...] = Field(min_length=1)
    at: Time
    """Event time: that of the latest utterance it cites."""
    known_from: Time
    """The log's time of its session's closing."""
    origin: MemoryOrigin = MemoryOrigin.SUMMARY
    made_by: Provenance
    ending: Ending | None = None
    """None: it holds."""
    reinforced: tuple[Reinforcement, ...] = ()
    suspected: tuple[Suspicion, ...] = ()

    @property
    def status(self) -> MemoryStatus:
        """`CURRENT` unless the memory has an ending."""
        return MemoryStatus.CURRENT if self.ending is None else self.ending.status

    @property
    def order(self) -> tuple[int, int, str]:
        """Sort key for memories by age in log order, then by id."""
        return self.session, self.index, self.memory_id


class MemoriesFormed(SessionEvent):
    """The summary of a session; may hold nothing."""

    type: Literal["memories_formed"] = "memories_formed"
    drafts: tuple[MemoryDraft, ...] = ()
    known_from: Time
    turns: tuple[int, ...] = ()
    made_by: Provenance


class InsightsProposed(SessionEvent):
    """What one turn proposes to memory; may propose nothing, and then says why."""

    type: Literal["insights_proposed"] = "insights_proposed"
    turn: int = Field(ge=1)
    """The number of the turn among the conversation's blended ones."""
    insights: tuple[Insight, ...] = ()
    known_session: int = Field(ge=0)
    """The last session that the memory knew which it was blended from."""
    because: str = ""
    """Why nothing is proposed, where nothing is."""
    made_by: Provenance

    @property
    def slot(self) -> str:
        """Distinguishes the event by its turn; sorts by turn."""
        return f"{self.type_tag()}:{self.turn:09d}"


class ChangeKind(StrEnum):
    """What happened to a memory."""

    ADDED = "added"
    REINFORCED = "reinforced"
    SUSPECTED = "suspected"
    SUPERSEDED = "superseded"
    RETIRED = "retired"


class Change(Value):
    """One transition of one memory, as other systems may follow it."""

    kind: ChangeKind
    memory: Memory
    """As it is after the change."""
    because: str = ""
    """Why, in a few words."""


class MemoriesChanged(SessionEvent):
    """All that a session changed, in the order of application; may hold nothing."""

    type: Literal["memories_changed"] = "memories_changed"
    changes: tuple[Change, ...] = ()
    known_from: Time
    partial: bool = False
    """True: the session's summary was skipped; should it come late, further changes of this session follow."""

    @property
    def added(self) -> tuple[Memory, ...]:
        """Memories added by this session."""
        return tuple(change.memory for change in self.changes if change.kind is ChangeKind.ADDED)
