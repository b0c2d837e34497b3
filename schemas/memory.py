"""Segments, memories and their changes.

Most docstrings of the classes, their fields and members are published in `deploy/contracts`.
"""

from datetime import datetime
from enum import StrEnum
from typing import ClassVar, Literal

from pydantic import Field

from eunoe.schemas.base import Identifier, Name, SpokenTime, Text, Time, Value, absent
from eunoe.schemas.events import ConversationEvent, Insight, Line, Provenance, SessionEvent


class Segment(Value):
    """A topically coherent part of a session (SeCom, section 2.2), denoised for retrieval (section 2.3)."""

    segment_id: Identifier
    session: int = Field(ge=1)
    index: int = Field(ge=0)
    """Its place in the session, from 0."""
    lines: tuple[Line, ...]
    denoised: str
    """Text for retrieval, replies of the responder included; may be empty."""
    known_from: Time
    made_by: Provenance

    @property
    def utterance_ids(self) -> tuple[str, ...]:
        """Ids of its utterances, in order."""
        return tuple(line.utterance_id for line in self.lines)


class MemoryStatus(StrEnum):
    """The status of a memory. No operation destroys one: a memory that is not current stays in timelines."""

    CURRENT = "current"
    SUPERSEDED = "superseded"
    """Another memory replaced it."""
    RETIRED = "retired"
    """It ended, and nothing replaced it."""


class MemoryOrigin(StrEnum):
    """The origin of a memory."""

    SUMMARY = "summary"
    """The summary of a session."""
    INSIGHT = "insight"
    """An insight, blended at a turn (CREEM)."""
    FUSION = "fusion"
    """Two memories merged into one sentence, because each held what the other lacked."""


class MemoryKind(StrEnum):
    """The kind of a memory: what it tells of somebody."""

    STATE = "state"
    """Something that is so, or that began or ended: a home, a job, a bond, a possession, health, a belief."""
    EVENT = "event"
    """Something that happened."""
    PREFERENCE = "preference"
    """A liking or a dislike."""
    PLAN = "plan"
    """Something that is intended."""


class MemoryDraft(Value):
    """A memory sentence with the utterances that it cites."""

    speaker: Name
    """The speaker it is about, who said it."""
    text: Text
    """One sentence in the third person that names the speaker."""
    evidence: tuple[Line, ...] = Field(min_length=1)
    """The cited utterances in order; none of them is a reply of the responder."""
    kind: MemoryKind | None = absent()
    """`None` in what was written before kinds were decided."""
    expires_at: SpokenTime | None = absent()
    """Event time from which it no longer holds, where the text names an end; `None` where it names none."""

    @property
    def at(self) -> SpokenTime:
        """Event time: that of the latest cited utterance."""
        return max(line.at for line in self.evidence)


class Ending(Value):
    """The cause and time at which a memory stopped being current; transitions are one-way."""

    status: Literal[MemoryStatus.SUPERSEDED, MemoryStatus.RETIRED]
    by: Identifier | None = None
    """The successor; `None` for a retired memory."""
    session: int = Field(ge=1)
    """The session that ended it."""
    at: SpokenTime
    """Event time."""
    because: str


class Reinforcement(Value):
    """Later evidence that a memory is still current."""

    by: Identifier
    """The memory that repeats it, superseded from the start."""
    session: int = Field(ge=1)
    at: SpokenTime
    """Event time."""


class Suspicion(Value):
    """A later memory that may contradict this one; a flag that ends nothing."""

    by: Identifier
    session: int = Field(ge=1)
    because: str


class Memory(Value):
    """A remembered sentence with its history."""

    memory_id: Identifier
    session: int = Field(ge=1)
    """The session it was born in."""
    index: int = Field(ge=0)
    """Its place among the memories of its session, from 0."""
    speaker: Name
    text: Text
    evidence: tuple[Line, ...] = Field(min_length=1)
    at: SpokenTime
    """Event time: that of the latest utterance it cites."""
    known_from: Time
    """The log's time at which its session was closed."""
    origin: MemoryOrigin = MemoryOrigin.SUMMARY
    made_by: Provenance
    ending: Ending | None = None
    """`None` means that it is current."""
    reinforced: tuple[Reinforcement, ...] = ()
    suspected: tuple[Suspicion, ...] = ()
    kind: MemoryKind | None = absent()
    """`None` in what was written before kinds were decided."""
    expires_at: SpokenTime | None = absent()
    """Event time from which it no longer holds, where the text names an end; `None` where it names none."""

    def has_expired(self, at: datetime | None) -> bool:
        """Whether its end has passed at an event time; never where it names none, or for `None`."""
        return at is not None and self.expires_at is not None and self.expires_at <= at

    @property
    def status(self) -> MemoryStatus:
        """`CURRENT` unless the memory has an ending."""
        return MemoryStatus.CURRENT if self.ending is None else self.ending.status

    @property
    def speakers(self) -> tuple[str, ...]:
        """Its speaker, then those of its evidence, each once."""
        return tuple(dict.fromkeys((self.speaker, *(line.speaker for line in self.evidence))))

    @property
    def order(self) -> tuple[int, int, str]:
        """Sort key for memories by age in log order, then by id."""
        return self.session, self.index, self.memory_id


class MemoriesFormed(SessionEvent):
    """The summary of a session; may hold nothing."""

    LATEST = 3
    ADDED: ClassVar = {"own_turns": 2, "drafts.kind": 3, "drafts.expires_at": 3}

    type: Literal["memories_formed"] = "memories_formed"
    drafts: tuple[MemoryDraft, ...] = ()
    known_from: Time
    turns: tuple[int, ...] = ()
    own_turns: tuple[int, ...] | None = absent()
    made_by: Provenance


class InsightsProposed(SessionEvent):
    """The proposals of one turn to memory; with none, the reason why."""

    type: Literal["insights_proposed"] = "insights_proposed"
    turn: int = Field(ge=1)
    """The number of the turn among the conversation's blended ones."""
    insights: tuple[Insight, ...] = ()
    known_session: int = Field(ge=0)
    """The last session in the memory that the turn was blended with."""
    because: str = ""
    """The reason for an empty proposal."""
    made_by: Provenance

    @property
    def slot(self) -> str:
        """Distinguishes the event by its turn; sorts by turn."""
        return f"{self.type_tag()}:{self.turn:09d}"


class ChangeKind(StrEnum):
    """The kind of a change."""

    ADDED = "added"
    REINFORCED = "reinforced"
    SUSPECTED = "suspected"
    SUPERSEDED = "superseded"
    RETIRED = "retired"


class Change(Value):
    """One transition of one memory, for other systems to follow."""

    kind: ChangeKind
    memory: Memory
    """As it is after the change."""
    because: str = ""
    """The reason, in a few words."""


class MemoriesChanged(SessionEvent):
    """The changes of a session in the order of application; may be empty."""

    LATEST = 2
    ADDED: ClassVar = {"changes.memory.kind": 2, "changes.memory.expires_at": 2}

    type: Literal["memories_changed"] = "memories_changed"
    changes: tuple[Change, ...] = ()
    known_from: Time
    partial: bool = False
    """Whether the session's summary was skipped; if it comes late, further changes of this session follow."""

    @property
    def added(self) -> tuple[Memory, ...]:
        """Memories added by this session."""
        return tuple(change.memory for change in self.changes if change.kind is ChangeKind.ADDED)


class DerivedReason(StrEnum):
    """The reason why a conversation's memory was derived again in its place."""

    ERASED = "erased"
    """Something of the conversation was erased, or all of it."""
    REPAIRED = "repaired"
    """An operator repaired it."""


class MemoriesDerived(ConversationEvent):
    """A notice that a conversation's memory was derived again in its place: whoever keeps a copy reads it again.

    It names nothing of what was erased, and may come more than once. Stages pass over it.
    """

    type: Literal["memories_derived"] = "memories_derived"
    reason: DerivedReason
