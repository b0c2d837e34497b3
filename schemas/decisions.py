"""What a stage returns, and what the runner commits of it."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Generic, Self, TypeVar

from pydantic import Field

from eunoe.schemas.base import Contract, Identifier, Time, Value
from eunoe.schemas.events import DeadLetterReason

E_co = TypeVar("E_co", bound=Contract, covariant=True)


@dataclass(frozen=True, slots=True)
class Put:
    """Write one document of a table of the stage's own state."""

    table: str
    id: str
    text: str
    """JSON."""

    @classmethod
    def of(cls, table: str, id_: str, value: Value) -> Self:
        """The write that stores ``value`` under ``id_``."""
        return cls(table, id_, value.model_dump_json())


@dataclass(frozen=True, slots=True)
class Drop:
    """Remove one document of a table; nothing happens where it is not there."""

    table: str
    id: str


@dataclass(frozen=True, slots=True)
class Clear:
    """Remove a whole table; done before all other writes of its decision."""

    table: str


Write = Put | Drop | Clear


class Collection(StrEnum):
    """The kinds of points in the vector index; each is a Qdrant collection of its generation."""

    SEGMENTS = "segments"
    MEMORIES = "memories"
    TREE = "tree"


class SparseVector(Value):
    """Term weights: ``values[i]`` belongs to the term hashed to ``indices[i]`` (unsigned 32 bits, ascending)."""

    indices: tuple[int, ...] = ()
    values: tuple[float, ...] = ()


class Point(Value):
    """An entry of the vector index; the index is rebuilt from Redis, and Redis alone says what is current."""

    collection: Collection
    id: str
    """A UUID."""
    key: str
    """The conversation key: the filter of every search."""
    born: int = Field(ge=1)
    """The session it comes from."""
    seq: int = Field(ge=1)
    """The session that changed it last; an upsert with a smaller or equal one there is the newer and wins."""
    text: str
    dense: bytes
    """Little-endian float32, a unit vector."""
    sparse: SparseVector = SparseVector()


class Timer(Value):
    """The wish to close a session when nobody speaks after ``since`` for the idle time."""

    after_utterance_id: Identifier | None
    """None: there is no open session any more."""
    since: Time
    """The log's time of the last utterance."""


class Rejection(Value):
    """The event is set aside as a dead letter; the decision's other parts hold all the same."""

    reason: DeadLetterReason
    error: str


@dataclass(frozen=True, slots=True)
class Decision:
    """What a stage wants to become true, all together or not at all."""

    writes: tuple[Write, ...] = ()
    points: tuple[Point, ...] = ()
    events: tuple[Contract, ...] = ()
    timer: Timer | None = None
    rejection: Rejection | None = None
    recorded: str | None = None
    """What time made of this decision (an uninfused turn), in words for `Work.recorded` when it is replayed."""
    skipped: bool = False
    """True: the session lacks what an earlier stage skipped; it may still come, late."""


@dataclass(frozen=True, slots=True)
class Wait:
    """Not yet: something that this decision reads is not there. The runner asks again."""

    reason: str
    seconds: float = 0.05


@dataclass(frozen=True, slots=True)
class Park:
    """Not everything of this session has come; keep what came, and go on with the next event."""

    reason: str


Outcome = Decision | Wait | Park


@dataclass(frozen=True, slots=True)
class Work(Generic[E_co]):
    """What a stage is asked to decide."""

    key: str
    events: tuple[E_co, ...]
    """One event; for a stage that gathers, all that came of the session."""
    number: int
    """The session's number; for intake the position in the log."""
    log_time: datetime
    """The broker's append time of the record."""
    replayed: bool = False
    """True: its asks are not to be answered here: they were long ago, or another generation answers them."""
    recorded: str | None = None
    """What time made of this decision when it was first made; None: nothing, or it is made for the first time."""
    late_after: int | None = None
    """Not None: a skipped session that comes after its turn; sessions up to this one are applied. It may add, and
    never supersede what is newer."""

    @property
    def late(self) -> bool:
        """True: the session comes after its turn."""
        return self.late_after is not None

    @property
    def seq(self) -> int:
        """The session as which it changes things: a late one changes what the last applied session left."""
        return self.number if self.late_after is None else self.late_after

    @property
    def event(self) -> E_co:
        """The only event."""
        (event,) = self.events
        return event


class OutMessage(Value):
    """A message of an outbox: an event as text, or a dead letter's raw bytes."""

    topic: str
    """The logical topic, without prefix and generation."""
    key: str | None
    text: str | None = None
    raw: bytes | None = None
    headers: tuple[tuple[str, str], ...] = ()

    @property
    def value(self) -> bytes:
        """The record's value."""
        return self.raw if self.raw is not None else (self.text or "").encode()


class Outbox(Value):
    """What the decision ``number`` still owes to Qdrant, the timers and the topics."""

    number: int
    """That of the decision; of the n-th late one -n, so that no mark is taken for another's."""
    partition: int = 0
    points: tuple[Point, ...] = ()
    messages: tuple[OutMessage, ...] = ()
    timer: Timer | None = None

    @property
    def empty(self) -> bool:
        """True: nothing to send, the decision is done with its transaction."""
        return not (self.points or self.messages or self.timer)

    def with_message(self, message: OutMessage) -> "Outbox":
        """The outbox with one message more."""
        return self.model_copy(update={"messages": (*self.messages, message)})


@dataclass(frozen=True, slots=True)
class Scope:
    """Whose ledger: a stage, a conversation, and for a stage that is fenced by request the request."""

    stage: str
    key: str
    request_id: str = ""


@dataclass(frozen=True, slots=True)
class Ledger:
    """Where a stage stands in a conversation."""

    applied: int = 0
    """The number of the last applied decision; 0: none."""
    skipped: frozenset[int] = frozenset()
    outbox: Outbox | None = None
    """Not None: the last decision is not sent yet, and nothing may be committed over it."""
    lates: int = 0
    """How many late sessions were decided: they leave ``applied`` as it is, so the fence counts them too."""


@dataclass(frozen=True, slots=True)
class Commit:
    """One transaction: all of it, if ``applied`` is still ``expect``, ``lates`` is too, and no outbox is unsent."""

    expect: int
    applied: int
    writes: tuple[Write, ...] = ()
    outbox: Outbox | None = None
    skip: bool = False
    """True: remember the number (``applied``; of a late session ``late``) among the skipped."""
    unpark: int | None = None
    """Forget what was parked of this number."""
    lates: int = 0
    """How many late sessions the ledger had counted when it was read."""
    late: int | None = None
    """The number of a late session: it must be among the skipped, and is not from now on; one more is counted."""
