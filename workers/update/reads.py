"""Reads of memories, for other stages too."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import chain
from typing import Final

import orjson

from eunoe.schemas.decisions import Ledger, Scope
from eunoe.schemas.documents import read_document, reading_raw
from eunoe.schemas.memory import ChangeKind, Ending, Memory
from eunoe.schemas.ports import StateStore
from eunoe.workers.stores.documents.term_counts import read_numbers
from eunoe.workers.update.endings import endings_of
from eunoe.workers.update.lifecycle import as_of
from eunoe.workers.update.memories import CurrentRef, MemoryFrequency, MemoryStats, SessionSteps, session_row
from eunoe.workers.update.tables import CHANGES, CURRENT, MEMORIES, NAME, STATS, TERMS

__all__ = [
    "MAX_SESSIONS_AT_ONCE",
    "SESSIONS_AT_ONCE",
    "HistoryEntry",
    "all_memories",
    "all_steps",
    "current_ids",
    "endings_of",
    "findable_session",
    "history_of",
    "holding_ids",
    "latest_current",
    "memories_at",
    "read_current",
    "read_memories",
    "read_memory_frequencies",
    "read_memory_stats",
    "read_named",
    "read_steps",
    "succession",
    "updated_session",
]

SESSIONS_AT_ONCE: Final = 32
"""Sessions whose changes are read first on the way back to the latest memories."""
MAX_SESSIONS_AT_ONCE: Final = 512
"""The most of them in one read."""


async def updated_session(store: StateStore, key: str) -> int:
    """The last session applied by `update`; 0 if none."""
    return await store.applied(Scope(NAME, key))


async def findable_session(store: StateStore, key: str) -> int:
    """The last session whose memories can all be found: applied, and its points written; 0: none."""
    ledger: Ledger = await store.ledger(Scope(NAME, key))
    return ledger.applied if ledger.outbox is None else ledger.applied - 1


async def read_memory_stats(store: StateStore, key: str) -> MemoryStats:
    """The statistics of a conversation's memories; empty if there are none."""
    (text,) = await store.fetch(NAME, key, STATS, [STATS])
    return MemoryStats(holding={}) if text is None else read_document(MemoryStats, text, key)


async def read_memory_frequencies(store: StateStore, key: str, wanted: set[str]) -> dict[str, int]:
    """Term → number of memories that contain it, for the wanted terms that occur."""
    return await read_numbers(store, (NAME, key, TERMS), MemoryFrequency, wanted)


async def read_memories(
    store: StateStore, key: str, ids: Sequence[str], parse: Callable[[str], Memory] = Memory.from_json
) -> list[Memory]:
    """The stored memories with these ids, in the given order; unknown ids are left out.

    ``parse`` may cache.
    """
    if not ids:
        return []
    rows = await store.fetch(NAME, key, MEMORIES, ids)
    return [read_document(Memory, row, key, parse) for row in rows if row is not None]


async def read_current(store: StateStore, key: str, ids: Sequence[str]) -> dict[str, CurrentRef]:
    """Id → entry of the current ones of ``ids``."""
    rows = await store.fetch(NAME, key, CURRENT, ids) if ids else []
    return {id_: read_document(CurrentRef, row, key) for id_, row in zip(ids, rows, strict=True) if row is not None}


async def holding_ids(store: StateStore, key: str, ids: Sequence[str]) -> set[str]:
    """The current ones of ``ids``."""
    rows = await store.fetch(NAME, key, CURRENT, ids) if ids else []
    return {id_ for id_, row in zip(ids, rows, strict=True) if row is not None}


async def latest_current(
    store: StateStore, key: str, last: int, count: int, holding: Mapping[str, int], speaker: str | None = None
) -> list[str]:
    """The ids of the latest current memories up to session ``last``, the latest first: at most ``count``.

    Reads the changes of sessions backwards, as many as it takes: however long the conversation is, the latest few
    memories stand in its latest sessions. Each read takes twice as many as the one before: where the conversation is
    cold, each opens its snapshot. ``holding``: speaker → number of current memories; ``speaker``: only theirs.
    """
    left = min(count, sum(holding.values()) if speaker is None else holding.get(speaker, 0))
    found: list[str] = []
    size = SESSIONS_AT_ONCE
    while last > 0 and left > len(found):
        sessions = range(last, max(0, last - size), -1)
        steps = await read_steps(store, key, sessions)
        held = await read_current(store, key, list(chain.from_iterable(map(_added, steps.values()))))
        wanted = (id_ for id_, ref in held.items() if speaker in (None, ref.speaker))
        found += sorted(wanted, key=lambda id_: (held[id_].session, held[id_].index, id_), reverse=True)
        last, size = sessions[-1] - 1, min(2 * size, MAX_SESSIONS_AT_ONCE)
    return found[:left]


def _added(steps: SessionSteps) -> Iterator[str]:
    return (step.memory_id for step in steps.steps if step.kind is ChangeKind.ADDED)


async def current_ids(store: StateStore, key: str) -> list[str]:
    """The ids of all current memories, sorted."""
    return sorted(await store.scan(NAME, key, CURRENT))


async def all_memories(store: StateStore, key: str) -> list[Memory]:
    """Every memory of a conversation, current or ended, oldest first: a full scan, for inspection."""
    rows = await store.scan(NAME, key, MEMORIES)
    return sorted((read_document(Memory, row, key) for row in rows.values()), key=lambda memory: memory.order)


async def all_endings(store: StateStore, key: str) -> dict[str, Ending | None]:
    """Memory id → its ending, `None` while it holds, of a whole conversation: a full scan, memory by memory."""
    rows = await store.scan(NAME, key, MEMORIES)
    memories = (read_document(Memory, row, key) for row in rows.values())
    return {memory.memory_id: memory.ending for memory in memories}


async def read_steps(store: StateStore, key: str, sessions: Sequence[int]) -> dict[int, SessionSteps]:
    """Session number → its changes, for the applied ones."""
    rows = await store.fetch(NAME, key, CHANGES, [session_row(session) for session in sessions]) if sessions else []
    found = [read_document(SessionSteps, row, key) for row in rows if row is not None]
    return {steps.session: steps for steps in found}


async def read_named(store: StateStore, key: str, sessions: Sequence[int]) -> dict[int, int]:
    """Session number → the number of speakers known then, see `SessionSteps.speakers`, for the applied ones."""
    rows = await store.fetch(NAME, key, CHANGES, [session_row(session) for session in sessions]) if sessions else []
    with reading_raw(SessionSteps, key):
        found = (orjson.loads(row) for row in rows if row is not None)  # each session that is updated reads a few
        return {steps["session"]: steps.get("speakers", 0) for steps in found}


async def all_steps(store: StateStore, key: str) -> Iterator[SessionSteps]:
    """The changes of every session, in order, each read when it is asked for: a full scan, for inspection."""
    rows = await store.scan(NAME, key, CHANGES)
    return (read_document(SessionSteps, row, key) for _, row in sorted(rows.items()))


async def memories_at(store: StateStore, key: str, time: datetime) -> list[Memory]:
    """Every memory as known at ``time``, oldest first; those without an ending were current. A full scan.

    Known are the sessions up to the last one that was closed by then (log time).
    """
    known = [steps.session for steps in await all_steps(store, key) if steps.known_from <= time]
    if not known:
        return []
    then = (as_of(memory, max(known)) for memory in await all_memories(store, key))
    return [memory for memory in then if memory is not None]


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """One change in the history of a memory."""

    session: int
    known_from: datetime
    """Log time at which the session was closed."""
    at: datetime
    """Event time of the cause."""
    kind: ChangeKind
    memory: Memory
    """The changed memory in its present state, with its evidence."""
    by: Memory | None
    """The memory that caused the change, with its evidence."""
    because: str


async def history_of(store: StateStore, key: str, memory_id: str) -> list[HistoryEntry]:
    """All changes of a memory, of those it superseded and of its successors, in order. A full scan.

    Empty if the memory is not known.
    """
    known = {memory.memory_id: memory for memory in await all_memories(store, key)}
    chain = succession(known, memory_id)
    return [
        HistoryEntry(
            steps.session,
            steps.known_from,
            step.at,
            step.kind,
            known[step.memory_id],
            known.get(step.by or ""),
            step.because,
        )
        for steps in await all_steps(store, key)
        for step in steps.steps
        if step.memory_id in chain
    ]


def succession(known: dict[str, Memory], memory_id: str) -> set[str]:
    """The ids of a memory, of all that it superseded, and of all its successors."""
    if memory_id not in known:
        return set()
    chain = {memory_id}
    successor = known[memory_id].ending
    while successor is not None and successor.by in known:
        chain.add(successor.by)
        successor = known[successor.by].ending
    before = {memory_id}
    while before:
        before = {id_ for id_, memory in known.items() if memory.ending and memory.ending.by in before} - chain
        chain |= before
    return chain
