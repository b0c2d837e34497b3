"""Sends imported sessions, no faster than they become memory, so that asks beside them stay fast."""

import asyncio
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from eunoe.deploy.datasets.imports.imported import ImportSession
from eunoe.deploy.datasets.imports.missing import closed_sessions, missing_sessions
from eunoe.deploy.inspect.view import remembered_session
from eunoe.schemas.errors import Unavailable
from eunoe.schemas.ports import StateStore
from eunoe.streams.codec import encode
from eunoe.streams.record import Message, Publisher
from eunoe.streams.topics import Topic

AHEAD_SESSIONS: Final = 8
AHEAD_EVENTS: Final = 200
"""Bounds of what is sent and not in memory yet; intake handles so many events in about a second."""
STUCK_S: Final = 180.0
POLL_S: Final = 0.05

ReportSession = Callable[[int], None]
"""Called with the number of sessions that are in memory."""


@dataclass(frozen=True, slots=True)
class ImportDone:
    """The counts of an import."""

    sessions: int
    """Sessions that were sent."""
    events: int
    """Events that were sent."""
    present: int
    """Sessions that were there already; nothing was sent of them."""
    erased: int
    """Utterances that were erased before, and not sent again."""
    seconds: float


@dataclass(slots=True)
class _Ahead:
    """The sessions that were sent and are not in memory yet."""

    store: StateStore
    sessions: deque[ImportSession] = field(default_factory=deque)
    numbers: dict[tuple[str, str], int] = field(default_factory=dict)
    """Key and client's id of a session that was closed → its number; several conversations may have one id."""
    moved: float = field(default_factory=time.monotonic)

    @property
    def events(self) -> int:
        return sum(len(session.events) for session in self.sessions)

    def has_room_for(self, session: ImportSession) -> bool:
        """Whether a session may be sent: one always may."""
        is_small = self.events + len(session.events) <= AHEAD_EVENTS
        return not self.sessions or (len(self.sessions) < AHEAD_SESSIONS and is_small)

    async def look(self) -> None:
        """Forget the sessions that are in memory; raises `Unavailable` where none came there for too long."""
        remembered = {key: await remembered_session(self.store, key) for key in {one.key for one in self.sessions}}
        left: deque[ImportSession] = deque()
        for session in self.sessions:
            number = await self._number(session)
            if number is None or remembered[session.key] < number:
                left.append(session)
        if len(left) < len(self.sessions):
            self.moved = time.monotonic()
        self.sessions = left
        if left and time.monotonic() - self.moved > STUCK_S:
            raise Unavailable(
                f"no session became memory for {STUCK_S:.0f} s. Check that the workers run, and see"
                " `eunoe dead-letters list`"
            )

    async def _number(self, session: ImportSession) -> int | None:
        key, id_ = name = (session.key, session.session_id)
        if name not in self.numbers and (found := await closed_sessions(self.store, key, [id_])):
            self.numbers[name] = found[id_]
        return self.numbers.get(name)


async def run_import(
    store: StateStore, publisher: Publisher, sessions: Sequence[ImportSession], report: ReportSession = lambda _: None
) -> ImportDone:
    """Send the sessions that are not there yet, those of one conversation in order; returns when all are in memory.

    What was sent before is sent again only within a session that did not end, where intake knows its ids. So an import
    that was interrupted goes on, one that is repeated changes nothing, and one whose sessions have grown adds the lines
    that are new. Raises `Unavailable` when a server is down, or the stages do not go on.
    """
    begun = time.monotonic()
    missing = await missing_sessions(store, sessions)
    passed = len(sessions) - len(missing.sessions)
    ahead, sent = _Ahead(store), 0
    for session in in_turn(missing.sessions):
        while not ahead.has_room_for(session):
            await ahead.look()
            report(passed + sent - len(ahead.sessions))
            if not ahead.has_room_for(session):
                await asyncio.sleep(POLL_S)
        await publisher.publish([Message(Topic.CONVERSATIONS, one.key.encode(), encode(one)) for one in session.events])
        ahead.sessions.append(session)
        sent += 1
    while ahead.sessions:
        await ahead.look()
        report(passed + sent - len(ahead.sessions))
        await asyncio.sleep(POLL_S)
    events = sum(len(session.events) for session in missing.sessions)
    return ImportDone(sent, events, missing.present, missing.erased, time.monotonic() - begun)


def in_turn(sessions: Iterable[ImportSession]) -> Iterator[ImportSession]:
    """The sessions, those of different conversations by turns: their stages work at the same time."""
    by_key: dict[str, deque[ImportSession]] = defaultdict(deque)
    for session in sessions:
        by_key[session.key].append(session)
    waiting = deque(by_key.values())
    while waiting:
        own = waiting.popleft()
        yield own.popleft()
        if own:
            waiting.append(own)
