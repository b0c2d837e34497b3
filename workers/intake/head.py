"""The session state of a conversation, as intake stores it."""

from collections.abc import Iterator, Sequence

from eunoe.schemas.base import Time, Value, absent
from eunoe.schemas.decisions import Timer


class OpenSession(Value):
    """A session that has not ended."""

    opened: int
    """Its place among all sessions that were opened: 1, 2, 3 …; it gets its number when it closes."""
    session_id: str | None = None
    continues: int | None = None
    """The number of the closed session of the same id that it continues."""
    prefix: str = ""
    """The beginning of the ids of its rows in table ``lines``."""
    lines: int = 0
    size: int = 0
    """Bytes of its lines as JSON."""
    last_utterance_id: str
    last_log_time: Time
    turn_runs: tuple[tuple[int, int], ...] = ()
    """The numbers of its turns passed to `blend`, as runs of first and last."""

    @property
    def turns(self) -> tuple[int, ...]:
        """The numbers of its turns passed to `blend`."""
        return tuple(turn for first, last in self.turn_runs for turn in range(first, last + 1))

    def row(self, number: int) -> str:
        """The id of its line ``number``, counted from 0."""
        return f"{self.prefix}{number:06d}"

    def with_turn(self, turn: int) -> tuple[tuple[int, int], ...]:
        """Its runs of turns with one more."""
        *before, last = self.turn_runs or ((0, -1),)
        return (*before, (last[0], turn)) if last[1] == turn - 1 else (*self.turn_runs, (turn, turn))


class Head(Value):
    """The state of a conversation."""

    opened: int = 0
    """The number of sessions opened so far."""
    closed: int = 0
    """The number of the last closed session."""
    open: tuple[OpenSession, ...] = ()
    """The open sessions; the one that was spoken in last is last."""
    remembered: int = 0
    """Number of utterance ids ever recorded; gives the place in the ring."""
    turn: int = 0
    """The number of the last turn passed to `blend`: 1, 2, 3 … over all sessions."""
    turn_closed: int = 0
    """``turn`` when the last session closed."""
    salt: str | None = absent()
    """The key of the hashed ids of erased utterances; `None` where nothing was erased."""

    @property
    def turns(self) -> tuple[int, ...]:
        """The numbers of the turns passed to `blend` since the last session closed."""
        return tuple(range(self.turn_closed + 1, self.turn + 1))

    def find(self, session_id: str | None) -> OpenSession | None:
        """The open session of this id; for `None` the one that was spoken in last."""
        if session_id is None:
            return self.open[-1] if self.open else None
        return next((session for session in self.open if session.session_id == session_id), None)

    def without(self, session: OpenSession) -> tuple[OpenSession, ...]:
        """The other open sessions."""
        return tuple(other for other in self.open if other.opened != session.opened)

    def timer(self, log_time: Time) -> Timer:
        """The timer of the open session that has been quiet for the longest time.

        `log_time` is the time of a timer that says that none is open.
        """
        if not self.open:
            return Timer(after_utterance_id=None, since=log_time)
        quiet = min(self.open, key=lambda session: (session.last_log_time, session.opened))
        active = max(session.last_log_time for session in self.open)
        return Timer(after_utterance_id=quiet.last_utterance_id, since=quiet.last_log_time, active=active)


def rows_of(session: OpenSession) -> Iterator[str]:
    """The ids of a session's lines, in order."""
    return (session.row(number) for number in range(session.lines))


def own_turns(session: OpenSession, turns: Sequence[int]) -> tuple[int, ...] | None:
    """The turns of a session where they are not the ones since the last closing; else `None`."""
    return None if session.turns == tuple(turns) else session.turns
