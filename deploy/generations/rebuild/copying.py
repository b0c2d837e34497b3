"""Copies the state of a conversation while the live generation may be processing it."""

import asyncio
import sqlite3
from collections.abc import Sequence
from pathlib import Path

import orjson

from eunoe.schemas.decisions import Ledger, Outbox, Scope, Timer
from eunoe.schemas.errors import Unavailable
from eunoe.schemas.ports import StateStore, StoredConversation, Transplants, VectorIndex
from eunoe.workers.derive.pipeline import TABLES
from eunoe.workers.derive.resume import Kept
from eunoe.workers.registry import MEMORY_STAGES, STAGES

_TRIES = 200
_PAUSE_S = 0.05


async def copy_conversation(
    store: StateStore, transplants: Transplants, index: VectorIndex, key: str, again: Sequence[str]
) -> Kept:
    """A consistent copy of the state and the index points of all memory stages but those of ``again``.

    No worker is blocked: if a stage committed during the read, everything is read again. Raises `Unavailable` when a
    store is, or when the conversation changes during every attempt.
    """
    stages = [stage for stage in MEMORY_STAGES if stage not in again]
    for _ in range(_TRIES):
        before = await _ledgers(store, key, stages)
        if not any(ledger.outbox for ledger in before):
            kept = await _copied(transplants, index, key, stages)
            if kept is not None and await _ledgers(store, key, stages) == before:
                return kept
        await asyncio.sleep(_PAUSE_S)
    raise Unavailable(f"{key} changed during each of {_TRIES} attempts to copy it: run the command again")


async def _ledgers(store: StateStore, key: str, stages: Sequence[str]) -> list[Ledger]:
    return list(await asyncio.gather(*(store.ledger(Scope(stage, key)) for stage in stages)))


async def _copied(transplants: Transplants, index: VectorIndex, key: str, stages: Sequence[str]) -> Kept | None:
    """The copy; `None` where a stage had an unsent outbox at the time of the read."""
    try:
        standing = await transplants.export(key, {stage: TABLES[stage] for stage in stages})
    except ValueError:
        return None
    collections = [entry.collection for stage in stages for entry in STAGES[stage].tables.indexed]
    return Kept(standing, tuple([point for one in collections for point in await index.points(one, key)]))


class CopyFile:
    """Copied conversations in a file, since together they may be larger than the main memory."""

    def __init__(self, path: Path) -> None:
        self._file = sqlite3.connect(path)
        self._file.execute("PRAGMA synchronous = OFF")
        self._file.execute("PRAGMA journal_mode = OFF")
        self._file.execute("CREATE TABLE copies (key TEXT PRIMARY KEY, standing BLOB, points BLOB) WITHOUT ROWID")

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def add(self, key: str, kept: Kept) -> None:
        """Add a conversation."""
        points = Outbox(number=0, points=kept.points).to_json()
        self._file.execute("INSERT INTO copies VALUES (?, ?, ?)", (key, _pack(kept.standing), points))

    def finish(self) -> None:
        """Commit; call it after the last `add`."""
        self._file.commit()

    def conversations(self) -> list[str]:
        """The keys of the conversations, sorted."""
        return [str(key) for (key,) in self._file.execute("SELECT key FROM copies ORDER BY key")]

    def read(self, key: str, timer: Timer | None = None) -> Kept:
        """The copy of a conversation, with ``timer`` as its timer."""
        standing, points = self._file.execute("SELECT standing, points FROM copies WHERE key = ?", (key,)).fetchone()
        return Kept(_unpack(standing), Outbox.from_json(points).points, timer)


def _pack(standing: StoredConversation) -> bytes:
    return orjson.dumps(
        {
            "ledgers": {
                name: [ledger.applied, sorted(ledger.skipped), ledger.lates]
                for name, ledger in standing.ledgers.items()
            },
            "tables": [[*place, dict(rows)] for place, rows in standing.tables.items()],
            "parked": [
                [stage, number, dict(slots)]
                for stage, rows in standing.parked.items()
                for number, slots in rows.items()
            ],
        }
    )


def _unpack(text: bytes) -> StoredConversation:
    found = orjson.loads(text)
    parked: dict[str, dict[int, dict[str, str]]] = {stage: {} for stage in found["ledgers"]}
    for stage, number, slots in found["parked"]:
        parked[stage][number] = slots
    return StoredConversation(
        {
            name: Ledger(applied=applied, skipped=frozenset(skipped), lates=lates)
            for name, (applied, skipped, lates) in found["ledgers"].items()
        },
        {(stage, table): rows for stage, table, rows in found["tables"]},
        parked,
    )
