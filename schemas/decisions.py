"""Decisions of stages, and their transactions as the runner commits them."""

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from hashlib import sha256
from typing import Final, Generic, Self, TypeVar

from pydantic import Field

from eunoe.schemas.base import Contract, Identifier, Time, Value, absent
from eunoe.schemas.records import DeadLetterReason

E_co = TypeVar("E_co", bound=Contract, covariant=True)


@dataclass(frozen=True, slots=True)
class Put:
    """Write one document into a table of the stage."""

    table: str
    id: str
    text: str
    """The document, as JSON."""

    @classmethod
    def of(cls, table: str, id_: str, value: Value) -> Self:
        """The write that stores ``value`` under ``id_``."""
        return cls(table, id_, value.model_dump_json())


@dataclass(frozen=True, slots=True)
class Drop:
    """Remove one document of a table; a missing one is no fault."""

    table: str
    id: str


@dataclass(frozen=True, slots=True)
class Clear:
    """Remove a whole table, before all other writes of the decision."""

    table: str


Write = Put | Drop | Clear

REQUEST_AGE_S: Final = 2 * 86_400
"""Seconds after which a request is dropped: later, nothing may tell whether it was answered."""
REQUEST_TTL_S: Final = 3 * 86_400
"""Seconds that the ledger of one request is kept. Clocks may differ by a day: one that stamps records too early must
make no new request look old, one that stamps them too late no answered one new."""


class Collection(StrEnum):
    """Kinds of points in the vector index; each generation has a Qdrant collection for each."""

    SEGMENTS = "segments"
    MEMORIES = "memories"
    TREE = "tree"


class SparseVector(Value):
    """Term weights: ``values[i]`` is the weight of the term hashed to ``indices[i]`` (unsigned 32 bits, ascending)."""

    indices: tuple[int, ...] = ()
    values: tuple[float, ...] = ()


class Point(Value):
    """An entry of the vector index, which is derived from the state in Redis."""

    collection: Collection
    id: str
    """A UUID."""
    key: str
    """Conversation key, by which every search filters."""
    born: int = Field(ge=1)
    """Number of the session that it comes from."""
    seq: int = Field(ge=1)
    """Number of the session that changed it last; an upsert with a smaller number than the stored one is ignored."""
    text: str
    """'' where it was read from an index that keeps only the digest."""
    dense: bytes
    """Little-endian float32, a unit vector."""
    sparse: SparseVector = SparseVector()
    digest: str | None = absent()
    """`digest_of_text` where the text is not known."""

    @property
    def text_digest(self) -> str:
        """The digest of its text, by which the index is compared with the documents."""
        return digest_of_text(self.text) if self.digest is None else self.digest


def digest_of_text(text: str) -> str:
    """The digest that the index keeps of a text: it tells whether a point is that of a document."""
    return sha256(text.encode(errors="surrogatepass")).hexdigest()[:32]


class Timer(Value):
    """Closes a session when no utterance comes for the idle time after ``since``."""

    after_utterance_id: Identifier | None
    """`None` means that no session is open any more."""
    since: Time
    """Log time of the last utterance of the session that has been quiet for the longest time."""
    active: Time | None = absent()
    """Log time of the last utterance of all sessions, by which conversations are listed; `None` means ``since``."""
    number: int = 0
    """Number of the decision that set it; a store ignores a timer with a smaller number than the last one."""


class Rejection(Value):
    """The reason to dead-letter the event; the other parts of the decision apply nevertheless."""

    reason: DeadLetterReason
    error: str


@dataclass(frozen=True, slots=True)
class Decision:
    """The outcome of a stage for one unit of work, applied as a whole or not at all."""

    writes: tuple[Write, ...] = ()
    points: tuple[Point, ...] = ()
    events: tuple[Contract, ...] = ()
    timer: Timer | None = None
    rejection: Rejection | None = None
    recorded: str | None = None
    """Recorded outcome: the effect of timing on this decision, as text for `Work.recorded` in a replay."""
    skipped: bool = False
    """Whether the session lacks the part of a stage that skipped it; that part may still come late."""


@dataclass(frozen=True, slots=True)
class Wait:
    """The decision needs state that does not exist yet; the runner soon tries again."""

    reason: str
    holds: bool = False
    """Whether the conversation is held where the state does not come for as long as a server is waited for.

    For an event that claims state which only a loss or a forged event can explain.
    """


@dataclass(frozen=True, slots=True)
class Hold:
    """The state that the decision needs did not come: dead-letter the event, hold the conversation."""

    reason: str


@dataclass(frozen=True, slots=True)
class Park:
    """The session is incomplete: keep its events, and go on with the next event."""

    reason: str


Outcome = Decision | Wait | Park


@dataclass(frozen=True, slots=True)
class Work(Generic[E_co]):
    """One unit of work for a stage."""

    key: str
    events: tuple[E_co, ...]
    """One event; for a stage that gathers, all events of the session so far."""
    number: int
    """Number of the session; for intake the position in the log."""
    log_time: datetime
    """Append time of the record."""
    replayed: bool = False
    """Whether its asks are not to be answered: they are old, or another generation answers them."""
    recorded: str | None = None
    """Recorded outcome of the first decision on this work; `None` where there is none."""
    late_after: int | None = None
    """Set for a skipped session that comes late: the number of the last applied session. It may add memories, and never
    supersede newer ones."""

    @property
    def late(self) -> bool:
        """Whether the session comes late, after it was skipped."""
        return self.late_after is not None

    @property
    def state_session(self) -> int:
        """The session as of which its changes stand: its own; of a late one that which was applied last."""
        return self.number if self.late_after is None else self.late_after

    @property
    def event(self) -> E_co:
        """The only event."""
        (event,) = self.events
        return event


class OutMessage(Value):
    """A message of an outbox: an event as text, or the raw bytes of a dead letter."""

    topic: str
    """Logical topic, without prefix and generation."""
    key: str | None
    text: str | None = None
    raw: bytes | None = None
    headers: tuple[tuple[str, str], ...] = ()

    @property
    def value(self) -> bytes:
        """Value of the record."""
        return self.raw if self.raw is not None else (self.text or "").encode()


class Outbox(Value):
    """Effects of a decision outside its transaction: points for Qdrant, a timer, messages for topics."""

    number: int
    """Number of the decision, or -n for the n-th late one, so that no two outboxes share a number."""
    partition: int = 0
    points: tuple[Point, ...] = ()
    messages: tuple[OutMessage, ...] = ()
    timer: Timer | None = None
    key: str | None = absent()
    """Id of the data key that its messages are sealed with, however late they are sent; `None`: the current one."""
    fence: int | None = absent()
    """`Ledger.lates` that the decision rests on, `None` for 0: the index refuses points of a state that was erased."""

    @property
    def empty(self) -> bool:
        """Whether there is nothing to send."""
        return not (self.points or self.messages or self.timer)

    def with_message(self, message: OutMessage) -> "Outbox":
        """The outbox with one more message."""
        return self.model_copy(update={"messages": (*self.messages, message)})


@dataclass(frozen=True, slots=True)
class Scope:
    """The owner of a ledger: a stage, a conversation and, for a stage fenced by request, a request."""

    stage: str
    key: str
    request_id: str = ""


@dataclass(frozen=True, slots=True)
class Ledger:
    """Progress of a stage in a conversation."""

    applied: int = 0
    """Number of the last applied decision; 0 before the first one."""
    skipped: frozenset[int] = frozenset()
    outbox: Outbox | None = None
    """Unsent outbox of the last decision; no commit is allowed before it is sent."""
    lates: int = 0
    """Number of late sessions decided. They do not change ``applied``, so the fence counts them too."""
    server: str = field(default="", compare=False)
    """Id of the server's process that showed it, and of the state's last return from a cold store; '' if unknown."""
    key: str = field(default="", compare=False)
    """Id of the data key that the stage's state is sealed with; '' where it is plain."""
    token: str = field(default="", compare=False)
    """Token of the last commit or replacement, different for each; '' before the first one."""

    @property
    def has_decided(self) -> bool:
        """Whether the stage has decided anything."""
        return bool(self.applied or self.skipped or self.lates)


@dataclass(frozen=True, slots=True)
class Commit:
    """A transaction; it applies if the ledger still has these ``expect`` and ``lates``, and no unsent outbox."""

    expect: int
    applied: int
    writes: tuple[Write, ...] = ()
    outbox: Outbox | None = None
    skip: bool = False
    """Whether to add the number (``applied``, or ``late``) to the skipped ones."""
    unpark: int | None = None
    """Number whose parked events are removed."""
    lates: int = 0
    """``Ledger.lates`` at the time of reading."""
    late: int | None = None
    """Number of a late session: it must be among the skipped ones, is removed from them, and ``lates`` grows by one."""
    server: str = ""
    """``Ledger.server`` at the time of reading; '' for a commit that names nothing it was read from."""
    checks_server: bool = True
    """Whether ``server`` must still be there: the decision has read documents that ``after`` says nothing of, and that
    another process of the server may have lost."""
    key: str = ""
    """``Ledger.key`` at the time of reading: state that was sealed anew meanwhile refuses the commit."""
    after: str | None = None
    """``Ledger.token`` at the time of reading: a store that went back may show the same numbers of another decision.

    `None`: any.
    """
