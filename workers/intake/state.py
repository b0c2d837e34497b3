"""The stored state of stage intake: its tables, and what is read of them for one event."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from eunoe.schemas.base import Value
from eunoe.schemas.events import Line
from eunoe.workers.intake.erased import ERASED
from eunoe.workers.intake.head import Head
from eunoe.workers.tables import StageTables

HEAD, LINES, SEEN, RING, CLOSED, ERASURES = "head", "lines", "seen", "ring", "closed", "erasures"
NAMES = "names"

TABLES = StageTables(
    digested=(HEAD, LINES, CLOSED, ERASURES, ERASED),
    left_out={
        SEEN: "a window for detecting repeated utterances; nothing is derived from it",
        RING: "the order of that window",
        NAMES: "the same as the table of closed sessions, by number; for those who look",
    },
)


class ClosedSession(Value):
    """The number of the last closed session with a client's session id."""

    session: int


class SessionName(Value):
    """The client's id of the closed session with a number."""

    session_id: str


@dataclass(frozen=True, slots=True)
class IntakeState:
    """The stored state read for one event."""

    head: Head = field(default_factory=Head)
    lines: Mapping[int, Sequence[Line]] = field(default_factory=dict)
    """The lines of open sessions, by `OpenSession.opened`; only of those that `sessions_read` names."""
    seen: str | None = None
    """The digest recorded for the event's utterance id."""
    evicted: str | None = None
    """The utterance id that the next one replaces in the ring."""
    closed: int | None = None
    """The number of the last closed session with the event's session id."""
    last_end: str | None = None
    """The digest of the last end without a session id."""
    erased: bool = False
    """Whether the event's utterance id is that of an erased utterance."""
