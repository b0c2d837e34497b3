"""Stage `intake`: reads the conversation log."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from eunoe.schemas.base import Value
from eunoe.schemas.decisions import Decision, Work
from eunoe.schemas.documents import read_document
from eunoe.schemas.erasure import hashed_id
from eunoe.schemas.events import Erase, SessionEnded, Utterance, UtteranceErased
from eunoe.schemas.ports import Tables
from eunoe.workers.intake.closing import on_session_ended, sessions_ended
from eunoe.workers.intake.erased import ERASED, lines_of
from eunoe.workers.intake.head import Head, OpenSession
from eunoe.workers.intake.known_ids import LAST_END, RingSlot, SeenUtterance, occupied_slots
from eunoe.workers.intake.overlay import TableOverlay
from eunoe.workers.intake.sessions import IncomingLine, on_erase, on_erased, on_utterance, sessions_read
from eunoe.workers.intake.settings import IntakeSettings
from eunoe.workers.intake.state import CLOSED, HEAD, LINES, RING, SEEN, ClosedSession, IntakeState

NAME = "intake"

V = TypeVar("V", bound=Value)

IntakeEvent = Utterance | UtteranceErased | SessionEnded | Erase


class IntakeStage:
    """Stores utterances, opens, closes and numbers sessions, and passes asks on."""

    def __init__(self, store: Tables, settings: IntakeSettings) -> None:
        self._store = store
        self._settings = settings

    async def decide(self, work: Work[IntakeEvent]) -> Decision:
        """Decide one event; see `eunoe.workers.intake.sessions` and `closing` beside it. Raises `Unavailable`."""
        (decision,) = await self.decide_batch((work,))
        return decision

    async def decide_batch(self, works: Sequence[Work[IntakeEvent]]) -> list[Decision]:
        """Decide several consecutive events of a conversation, with few round trips. Raises `Unavailable`."""
        overlay = TableOverlay(self._store)
        await self._read_ahead(overlay, works)
        decisions = []
        for work in works:
            decision = await self._decide(_Reader(overlay, work.key, self._settings), work)
            overlay.write(decision.writes)
            decisions.append(decision)
        return decisions

    async def _read_ahead(self, overlay: TableOverlay, works: Sequence[Work[IntakeEvent]]) -> None:
        """Read concurrently what the events will need one after the other."""
        key, events = works[0].key, [work.event for work in works]
        utterances = [event.utterance_id for event in events if isinstance(event, Utterance | UtteranceErased)]
        sessions = {event.session_id for event in events if not isinstance(event, Erase)} - {None}
        ends = any(isinstance(event, SessionEnded) for event in events)
        await asyncio.gather(
            overlay.fetch(NAME, key, HEAD, [HEAD]),
            overlay.fetch(NAME, key, SEEN, utterances),
            overlay.fetch(NAME, key, CLOSED, sorted(filter(None, sessions))),
            *([overlay.scan(NAME, key, LINES), overlay.fetch(NAME, key, RING, [LAST_END])] if ends else []),
        )
        head = await _Reader(overlay, key, self._settings).head()
        await overlay.fetch(NAME, key, RING, occupied_slots(head, len(utterances), self._settings))

    async def _decide(self, reader: "_Reader", work: Work[IntakeEvent]) -> Decision:
        event = work.event
        if isinstance(event, Erase):
            return on_erase(event)
        if isinstance(event, SessionEnded):
            known = await reader.with_last_end(await reader.known(event.session_id, None))
            known = await reader.with_lines(known, sessions_ended(known.head, event))
            return on_session_ended(known, event, work.log_time, self._settings)
        if isinstance(event, UtteranceErased):
            incoming = IncomingLine.of_erased(event, work.log_time)
        else:
            incoming = IncomingLine.of(event)
        known = await reader.known(event.session_id, event.utterance_id)
        known = await reader.with_lines(known, sessions_read(known.head, incoming, self._settings))
        if isinstance(event, UtteranceErased):
            return on_erased(known, incoming, event, work.log_time, self._settings)
        return on_utterance(known, incoming, work.log_time, self._settings, replayed=work.replayed)


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads a conversation's state for one event."""

    overlay: TableOverlay
    key: str
    settings: IntakeSettings

    async def head(self) -> Head:
        return await self._one(HEAD, HEAD, Head) or Head()

    async def known(self, session_id: str | None, utterance_id: str | None) -> IntakeState:
        head = await self.head()
        seen = await self._one(SEEN, utterance_id, SeenUtterance)
        closed = await self._one(CLOSED, session_id, ClosedSession)
        places = occupied_slots(head, 1, self.settings) if utterance_id else []
        evicted = await self._one(RING, next(iter(places), None), RingSlot)
        return IntakeState(
            head=head,
            seen=None if seen is None else seen.digest,
            evicted=None if evicted is None else evicted.utterance_id,
            closed=None if closed is None else closed.session,
            erased=await self._is_erased(head, utterance_id),
        )

    async def _is_erased(self, head: Head, utterance_id: str | None) -> bool:
        if head.salt is None or utterance_id is None:
            return False
        (row,) = await self.overlay.fetch(NAME, self.key, ERASED, [hashed_id(head.salt, utterance_id)])
        return row is not None

    async def _one(self, table: str, id_: str | None, form: type[V]) -> V | None:
        if id_ is None:
            return None
        (text,) = await self.overlay.fetch(NAME, self.key, table, [id_])
        return None if text is None else read_document(form, text, self.key)

    async def with_last_end(self, known: IntakeState) -> IntakeState:
        last = await self._one(RING, LAST_END, RingSlot)
        return known if last is None else replace(known, last_end=last.utterance_id)

    async def with_lines(self, known: IntakeState, sessions: Sequence[OpenSession]) -> IntakeState:
        if not sessions:
            return known
        rows = await self.overlay.scan(NAME, self.key, LINES)
        lines = {one.opened: lines_of(one, rows, self.key) for one in sessions}
        return replace(known, lines=lines)
