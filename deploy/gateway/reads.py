"""Reads of a conversation's memory in pages; none scans a whole table."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from eunoe.deploy.gateway.results import SessionItem, SessionStatus
from eunoe.schemas.decisions import Ledger, Scope
from eunoe.schemas.documents import read_document
from eunoe.schemas.events import Line
from eunoe.schemas.memory import ChangeKind, Memory, Segment
from eunoe.schemas.ports import StateStore
from eunoe.workers.intake.erased import ERASED_LINE
from eunoe.workers.intake.head import Head, OpenSession, rows_of
from eunoe.workers.intake.state import CLOSED, HEAD, LINES, NAMES, ClosedSession, SessionName
from eunoe.workers.registry import STAGES
from eunoe.workers.stage import ApplyOrder
from eunoe.workers.update.lifecycle import as_of
from eunoe.workers.update.memories import SessionSteps
from eunoe.workers.update.reads import read_memories, read_steps

INTAKE: Final = "intake"
SESSION_STAGES: Final = tuple(spec.name for spec in STAGES.values() if spec.order is ApplyOrder.SESSION)
STEPS_PAGE: Final = 50


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of the stages with a conversation."""

    position: int
    """The position of the last event that intake took in; 0: none."""
    applied: dict[str, int]
    """Stage → the last session that it has applied and sent."""

    @property
    def remembered(self) -> int:
        """The last session that every stage has applied."""
        return min(self.applied.values())

    def missing(self, session: int) -> tuple[str, ...]:
        """The stages that have not applied a session."""
        return tuple(stage for stage, applied in self.applied.items() if applied < session)


async def read_progress(store: StateStore, key: str) -> Progress:
    """The progress of a conversation. Raises `Unavailable`."""
    stages = (INTAKE, *SESSION_STAGES)
    ledgers = await asyncio.gather(*(store.ledger(Scope(stage, key)) for stage in stages))
    intake, *others = ledgers
    return Progress(intake.applied, dict(zip(SESSION_STAGES, map(_sent, others), strict=True)))


def _sent(ledger: Ledger) -> int:
    return ledger.applied if ledger.outbox is None else ledger.applied - 1


async def read_head(store: StateStore, key: str) -> Head | None:
    """The head of a conversation; `None` where it is unknown. Raises `Unavailable`."""
    (text,) = await store.fetch(INTAKE, key, HEAD, [HEAD])
    return None if text is None else read_document(Head, text, key)


async def closed_session(store: StateStore, key: str, session_id: str) -> int | None:
    """The number of the last closed session with a client's id; `None` where there is none."""
    (text,) = await store.fetch(INTAKE, key, CLOSED, [session_id])
    return None if text is None else read_document(ClosedSession, text, key).session


async def session_ids(store: StateStore, key: str, sessions: Sequence[int]) -> dict[int, str]:
    """Number → the client's id, of the closed sessions that have one."""
    rows = await store.fetch(INTAKE, key, NAMES, [str(session) for session in sessions]) if sessions else []
    pairs = zip(sessions, rows, strict=True)
    return {session: read_document(SessionName, text, key).session_id for session, text in pairs if text is not None}


async def open_lines(store: StateStore, key: str, session: OpenSession) -> tuple[Line, ...]:
    """The lines of an open session, which is bounded."""
    rows = await store.fetch(INTAKE, key, LINES, list(rows_of(session)))
    return tuple(read_document(Line, text, key) for text in rows if text not in (None, ERASED_LINE))


def status_of(session: int, progress: Progress) -> SessionStatus:
    """The progress of a closed session."""
    if not progress.missing(session):
        return "remembered"
    return "segmented" if progress.applied["segment"] >= session else "closed"


def session_item(
    session: int, session_id: str | None, status: SessionStatus, segments: Sequence[Segment]
) -> SessionItem:
    """A closed session as lists show it, with its days and sizes."""
    times = [line.at for segment in segments for line in segment.lines]
    return SessionItem(
        session=session,
        session_id=session_id,
        status=status,
        first_at=min(times, default=None),
        last_at=max(times, default=None),
        lines=len(times),
        segments=len(segments),
    )


@dataclass(frozen=True, slots=True)
class BornPage:
    """The memories born in some sessions, by id."""

    ids: tuple[str, ...]
    next: int | None
    """The last session of the page; `None` where it is the last page."""


async def born(store: StateStore, key: str, sessions: tuple[int, int], limit: int) -> BornPage:
    """The ids of memories born after the first session up to the second one; a page ends with a session."""
    after, last = sessions
    ids: list[str] = []
    for first in range(after + 1, last + 1, STEPS_PAGE):
        wanted = range(first, min(first + STEPS_PAGE, last + 1))
        steps = await read_steps(store, key, wanted)
        for session in wanted:
            ids += _added(steps.get(session))
            if len(ids) >= limit and session < last:
                return BornPage(tuple(ids), session)
    return BornPage(tuple(ids), None)


def _added(steps: SessionSteps | None) -> list[str]:
    return [step.memory_id for step in steps.steps if step.kind is ChangeKind.ADDED] if steps else []


async def memories_of(store: StateStore, key: str, ids: Sequence[str], known: int | None) -> list[Memory]:
    """The memories in this order, as of the end of session ``known``; `None` means now."""
    found = await read_memories(store, key, ids)
    if known is None:
        return found
    return [then for memory in found if (then := as_of(memory, known)) is not None]
