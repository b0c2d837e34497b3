"""The reasons of a reply: its lines, the memories behind them, and the operations that made or ended these."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from eunoe.deploy.inspect.history import bounded_history
from eunoe.schemas.base import Identifier, Time, Value
from eunoe.schemas.documents import read_document
from eunoe.schemas.events import Line, Provenance
from eunoe.schemas.memory import ChangeKind, Memory, MemoryStatus, Segment
from eunoe.schemas.ports import StateStore
from eunoe.schemas.replies import LeftOut, LeftOutReason, Reply
from eunoe.workers.compress.reads import read_session_segments
from eunoe.workers.intake.erased import ERASED_LINE
from eunoe.workers.intake.head import Head, rows_of
from eunoe.workers.intake.state import HEAD, LINES
from eunoe.workers.update.memories import SessionSteps
from eunoe.workers.update.reads import HistoryEntry, read_memories, read_steps

MAX_HISTORIES: Final = 32
"""Memories whose changes are read: those behind cited lines first, then those that have ended."""


class ExplainedLine(Value):
    """An utterance that the reply was shown."""

    utterance_id: Identifier
    line: Line | None = None
    """`None` where no session holds it any more."""
    session: int | None = None
    """`None` for an open session."""
    cited: bool
    memory_ids: tuple[Identifier, ...] = ()
    """The memories that rest on it."""


class ExplainedChange(Value):
    """An operation in the history of a memory."""

    kind: ChangeKind
    session: int
    known_from: Time
    """Log time at which the session was closed."""
    at: Time
    """Event time of the cause."""
    memory: Memory
    """The changed memory, in its present state."""
    by: Memory | None = None
    """The memory that caused the change."""
    because: str = ""
    decided_by: Provenance | None = None
    """The rules or the model that decided it; `None` where there was nothing to decide."""


class ExplainedMemory(Value):
    """A memory behind what the reply was shown."""

    memory: Memory
    status: MemoryStatus
    cited: bool
    """Whether the reply cites an utterance that it rests on."""
    changes: tuple[ExplainedChange, ...] = ()
    """Its own, of those that it superseded and of its successors, the oldest first."""


class ExplainedLeftOut(Value):
    """Something that was found for the ask and is not in the prompt."""

    reason: LeftOutReason
    session: int
    score: float
    lines: tuple[Line, ...] = ()
    """Its utterances, without those that no session holds any more."""
    memories: tuple[Memory, ...] = ()
    """The memories that it would have shown, or that no longer hold."""


class Explanation(Value):
    """The reasons of a reply."""

    reply: Reply
    lines: tuple[ExplainedLine, ...]
    """In the order of the prompt; cited ones that were not in it come last."""
    memories: tuple[ExplainedMemory, ...]
    """Those that are behind cited lines first, then by age."""
    left_out: tuple[ExplainedLeftOut, ...] = ()
    """The best of what is not in the prompt, a few of each reason."""


@dataclass(frozen=True, slots=True)
class Reasons:
    """The parts of memory that an explanation is made of."""

    lines: Mapping[str, tuple[Line, int | None]]
    """Utterance id → the line and its session."""
    memories: Sequence[Memory]
    """The memories of the sessions that were shown."""
    histories: Mapping[str, Sequence[ExplainedChange]]
    """Memory id → its changes."""
    left_out: Sequence[Memory] = ()
    """The memories that what was left out names."""


def shown_ids(reply: Reply) -> list[str]:
    """The utterances behind a reply, in the order of the prompt, then what it cites besides."""
    return list(dict.fromkeys([*(id_ for one in reply.sources for id_ in one.utterance_ids), *reply.cited]))


def behind(reply: Reply, memories: Iterable[Memory]) -> list[Memory]:
    """The memories that rest on what the reply was shown, or were shown themselves; those of cited lines first."""
    shown, named = set(shown_ids(reply)), {id_ for source in reply.sources for id_ in source.memory_ids}
    found = [one for one in memories if one.memory_id in named or shown & _evidence(one)]
    return sorted(found, key=lambda one: (not is_cited(reply, one), one.order))


def is_cited(reply: Reply, memory: Memory) -> bool:
    """Whether the reply cites an utterance that the memory rests on."""
    return not _evidence(memory).isdisjoint(reply.cited)


def _evidence(memory: Memory) -> set[str]:
    return {line.utterance_id for line in memory.evidence}


def explain(reply: Reply, reasons: Reasons) -> Explanation:
    """The explanation of a reply from what memory holds."""
    memories = behind(reply, reasons.memories)
    resting: dict[str, list[str]] = {}
    for memory in memories:
        for line in memory.evidence:
            resting.setdefault(line.utterance_id, []).append(memory.memory_id)
    lines = (
        ExplainedLine(
            utterance_id=id_,
            line=place and place[0],
            session=place and place[1],
            cited=id_ in reply.cited,
            memory_ids=tuple(resting.get(id_, ())),
        )
        for id_, place in ((id_, reasons.lines.get(id_)) for id_ in shown_ids(reply))
    )
    return Explanation(
        reply=reply,
        lines=tuple(lines),
        memories=tuple(
            ExplainedMemory(
                memory=memory,
                status=memory.status,
                cited=is_cited(reply, memory),
                changes=tuple(reasons.histories.get(memory.memory_id, ())),
            )
            for memory in memories
        ),
        left_out=tuple(_left_out(one, reasons) for one in reply.left_out or ()),
    )


def _left_out(one: LeftOut, reasons: Reasons) -> ExplainedLeftOut:
    known = {memory.memory_id: memory for memory in reasons.left_out}
    return ExplainedLeftOut(
        reason=one.reason,
        session=one.session,
        score=one.score,
        lines=tuple(reasons.lines[id_][0] for id_ in one.utterance_ids if id_ in reasons.lines),
        memories=tuple(known[id_] for id_ in one.memory_ids if id_ in known),
    )


def explained_changes(history: Iterable[HistoryEntry], steps: Mapping[int, SessionSteps]) -> list[ExplainedChange]:
    """The changes of a history with the rules or the model that decided each."""
    return [
        ExplainedChange(
            kind=one.kind,
            session=one.session,
            known_from=one.known_from,
            at=one.at,
            memory=one.memory,
            by=one.by,
            because=one.because,
            decided_by=one.memory.made_by if one.kind is ChangeKind.ADDED else _decided(steps.get(one.session)),
        )
        for one in history
    ]


def _decided(steps: SessionSteps | None) -> Provenance | None:
    return None if steps is None else steps.made_by


# ---- reading


async def read_explanation(store: StateStore, key: str, reply: Reply) -> Explanation:
    """The explanation of a reply of a conversation; reads the sessions that it was shown. Raises `Unavailable`."""
    sessions = sorted({one.session for one in reply.sources if one.session <= reply.known_session})
    named = {*sessions, *(one.session for one in reply.left_out or () if one.session <= reply.known_session)}
    segments, steps, open_lines, left_out = await asyncio.gather(
        asyncio.gather(*(read_session_segments(store, key, session) for session in sorted(named))),
        read_steps(store, key, sessions),
        _open_lines(store, key),
        read_memories(store, key, list({id_: None for one in reply.left_out or () for id_ in one.memory_ids})),
    )
    born = [step.memory_id for one in steps.values() for step in one.steps if step.kind is ChangeKind.ADDED]
    shown = [id_ for source in reply.sources for id_ in source.memory_ids]
    memories = await read_memories(store, key, list(dict.fromkeys([*born, *shown])))
    lines = {**{line.utterance_id: (line, None) for line in open_lines}, **_lines_of(segments)}
    histories = await _histories(store, key, reply, memories)
    return explain(reply, Reasons(lines, memories, histories, left_out))


def _lines_of(segments: Iterable[Iterable[Segment]]) -> dict[str, tuple[Line, int | None]]:
    return {line.utterance_id: (line, one.session) for session in segments for one in session for line in one.lines}


async def _open_lines(store: StateStore, key: str) -> list[Line]:
    """The lines of the open sessions, which a reply may cite."""
    (text,) = await store.fetch("intake", key, HEAD, [HEAD])
    ids = [] if text is None else [row for one in read_document(Head, text, key).open for row in rows_of(one)]
    rows = await store.fetch("intake", key, LINES, ids) if ids else []
    return [read_document(Line, row, key) for row in rows if row not in (None, ERASED_LINE)]


async def _histories(
    store: StateStore, key: str, reply: Reply, memories: Sequence[Memory]
) -> dict[str, list[ExplainedChange]]:
    ordered = behind(reply, memories)
    wanted = [one for one in ordered if is_cited(reply, one) or one.status is not MemoryStatus.CURRENT][:MAX_HISTORIES]
    found = await asyncio.gather(*(bounded_history(store, key, one.memory_id) for one in wanted))
    steps = await read_steps(store, key, sorted({entry.session for history in found for entry in history}))
    return {one.memory_id: explained_changes(history, steps) for one, history in zip(wanted, found, strict=True)}
