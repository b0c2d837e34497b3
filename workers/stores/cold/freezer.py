"""Takes idle conversations out of Redis, into the cold store."""

import asyncio
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from time import monotonic, time
from typing import Any, Final

import orjson

from eunoe.schemas.decisions import Scope, Timer
from eunoe.schemas.ports import ColdStore
from eunoe.workers.stores.cold.conversations import ColdAccess, ColdConversations, ColdMeter, object_name
from eunoe.workers.stores.cold.erased_snapshots import ErasedSnapshots
from eunoe.workers.stores.cold.mark import ColdMark
from eunoe.workers.stores.cold.snapshot import Snapshot, Stub
from eunoe.workers.stores.records.generations import RedisGenerations, listed
from eunoe.workers.stores.redis.connection import RedisClient, RedisConnection, Script, as_bytes, as_text
from eunoe.workers.stores.redis.keys import Keys
from eunoe.workers.stores.redis.staging import all_ended

_ANNOUNCE = Script.load("announce")
_FREEZE = Script.load("freeze")
_DROP_TIMER = Script.load("drop_timer")

SCANNED: Final = 2_000
"""Timers that one sweep looks at in each partition, about."""
AT_ONCE: Final = 8
"""Conversations that are frozen at the same time."""
MAX_WATCHED: Final = 20_000
"""Idle conversations that wait for their second look."""
ANNOUNCED_MS: Final = 600_000
"""Milliseconds for which a snapshot may be written before it counts as left over."""
_LEDGER_FIELDS: Final = (b"applied", b"token", b"lates")


@dataclass(frozen=True, slots=True)
class _Watched:
    """An idle conversation at the first look."""

    partition: int
    timer: str
    applied: bytes
    """The position of the last event that intake applied, asks included."""
    since: float
    """Time of the look."""


@dataclass(slots=True)
class Freezer:
    """Freezes conversations without events for ``after_s`` seconds of the log's time.

    An idle conversation is looked at twice, ``settle_s`` seconds apart: no event of any kind may come between. So every
    process has forgotten by then that it saw the conversation hot, and asks under way are answered.
    """

    client: RedisClient
    keys: Keys
    store: ColdStore
    tables: Mapping[str, Sequence[str]]
    """Stage → its tables."""
    after_s: float
    settle_s: float
    rest_s: float = 0.0
    """Seconds for which no stage may decide anything while `freeze` is at work, for callers that do not wait
    ``settle_s``: until a stage has acknowledged its last decision, it looks for that in Redis."""
    meter: ColdMeter = field(default_factory=ColdMeter)
    _watched: OrderedDict[str, _Watched] = field(default_factory=OrderedDict)
    _cursors: dict[int, int] = field(default_factory=dict)
    mark: ColdMark = field(init=False)
    """To be ensured before `freeze` by hand."""
    _redis: RedisConnection = field(init=False)
    _cold: ColdConversations = field(init=False)

    def __post_init__(self) -> None:
        """Connect."""
        self._redis = RedisConnection(self.client)
        self.mark = ColdMark(self._redis, self.keys, self.store)
        self._cold = ColdConversations(self._redis, self.keys, ColdAccess(self.store))

    async def sweep(self, partitions: Iterable[int]) -> int:
        """Look for idle conversations of these partitions, freeze those that stayed so; returns how many.

        First deletes late snapshots of what was erased, at last those of other generations, which may have no workers.
        Raises `Unavailable`.
        """
        await ErasedSnapshots(self._redis, self.keys, self._cold).sweep(time())
        owned = set(partitions)
        for key, watched in list(self._watched.items()):
            if watched.partition not in owned:
                del self._watched[key]
        done = await self._freeze_settled()
        for partition in sorted(owned):
            await self._look(partition)
        await self._clean_others()
        return done

    async def _clean_others(self) -> None:
        """Do what erasures have noted for the other generations; several workers may do so at once."""
        for one in await listed(RedisGenerations(self.client, self.keys.prefix)):
            if one.name != self.keys.generation:
                keys = replace(self.keys, generation=one.name)
                cold = ColdConversations(self._redis, keys, ColdAccess(self.store))
                await ErasedSnapshots(self._redis, keys, cold).sweep(time())

    async def _look(self, partition: int) -> None:
        """Watch idle conversations from the next part of a partition's timers."""
        oldest = datetime.now(UTC) - timedelta(seconds=self.after_s)
        documents, looked = self.keys.timer_documents(partition), 0
        while looked < SCANNED and len(self._watched) < MAX_WATCHED:
            cursor, found = await self._redis.command(
                "HSCAN", documents, self._cursors.get(partition, 0), "COUNT", SCANNED
            )
            self._cursors[partition] = int(cursor)
            rows = _pairs(found)
            looked += len(rows)
            idle = [row for row in rows if row[0] not in self._watched and _idle_since(row[1]) <= oldest]
            await all_ended(self._watch(key, partition, document) for key, document in idle)
            if not int(cursor):
                break

    async def _watch(self, key: str, partition: int, document: str) -> None:
        applied = await self._redis.command("HGET", self.keys.ledger(Scope("intake", key)), "applied")
        if applied is None:  # erased, or cold already: then a process was killed before it dropped the timer
            if await self._redis.command("EXISTS", self.keys.stub(key)):
                await self._drop_timer(partition, key, document)
            return
        self._watched[key] = _Watched(partition, document, as_bytes(applied), monotonic())

    async def _freeze_settled(self) -> int:
        due = [key for key, one in self._watched.items() if monotonic() - one.since >= self.settle_s]
        done = 0
        if due:
            await self.mark.ensure()
        for start in range(0, len(due), AT_ONCE):
            some = {key: self._watched[key] for key in due[start : start + AT_ONCE]}
            for key in some:  # where the store refuses one of these, the next sweep asks it again, the others first
                self._watched.move_to_end(key)
            tried = (self.freeze(key, one.partition, one.timer, one.applied) for key, one in some.items())
            done += sum(await all_ended(tried))
            for key in some:
                del self._watched[key]
        return done

    async def freeze(self, key: str, partition: int, timer: str, applied: bytes | None = None) -> bool:
        """Write a conversation's snapshot, then take its state out of Redis; returns whether that was done.

        It is not while a decision is unsent or a session parked, nor where something has changed since: ``applied`` is
        what intake had applied at the first look. Raises `Unavailable`.
        """
        ledgers = {stage: self.keys.ledger(Scope(stage, key)) for stage in self.tables}
        tables = {
            f"{stage}/{table}": self.keys.table(stage, key, table)
            for stage, listed in self.tables.items()
            for table in listed
        }
        # in this order: with the ledgers of before, what is committed between the tables is noticed
        hashes = await self._read(ledgers) | await self._read(tables)
        unsent = any(field.startswith(b"outbox/") for stage in ledgers for field in hashes[stage])
        if unsent or b"applied" not in hashes["intake"]:
            return False
        if applied is not None and hashes["intake"][b"applied"] != applied:
            return False
        prefix = self.keys.stub(key).removesuffix("cold")
        names = {**ledgers, **tables}
        kept = {names[name].removeprefix(prefix): rows for name, rows in hashes.items() if rows}
        packed = await asyncio.to_thread(Snapshot(key, kept, partition, timer).pack)
        stub, fences = Stub.of(packed), [hashes[stage].get(part, b"") for stage in ledgers for part in _LEDGER_FIELDS]
        announced = [self.keys.freezing(key), self.keys.stub(key), *ledgers.values()]
        if not await self._redis.run(_ANNOUNCE, announced, [str(stub), ANNOUNCED_MS, *fences]):
            return False
        await self.store.put(object_name(self.keys, key, stub), packed)
        await asyncio.sleep(self.rest_s)
        counts = [len(hashes[name]) for name in tables]
        words: list[str | int | bytes] = [str(stub), len(ledgers), *fences, *counts]
        if not await self._redis.run(_FREEZE, self._taken(key, tables.values()), words):
            await self.store.remove([object_name(self.keys, key, stub)])
            return False
        self.meter.frozen += 1
        await self._drop_timer(partition, key, timer)
        await self._cold.clean(key)
        return True

    async def _drop_timer(self, partition: int, key: str, timer: str) -> None:
        """Take a cancelled timer away. That of an open session still ends it, which brings the conversation back."""
        names = [self.keys.timers(partition), self.keys.timer_documents(partition)]
        await self._redis.run(_DROP_TIMER, names, [key, timer])

    def _taken(self, key: str, tables: Iterable[str]) -> list[str]:
        """The keys that freezing looks at and takes away, in the order of its script."""
        scopes = (Scope(stage, key) for stage in self.tables)
        places = [name for scope in scopes for name in (self.keys.ledger(scope), self.keys.parked_numbers(scope))]
        return [self.keys.stub(key), self.keys.freezing(key), self.keys.thawed(key), *places, *tables]

    async def _read(self, names: Mapping[str, str]) -> dict[str, dict[bytes, bytes]]:
        """The hashes of these keys, by what the keys stand for."""
        found = await all_ended(map(self._read_hash, names.values()))
        return dict(zip(names, found, strict=True))

    async def _read_hash(self, name: str) -> dict[bytes, bytes]:
        return _hash(await self._redis.command("HGETALL", name))  # each at once: all answers are as large as the state


def _idle_since(document: str) -> datetime:
    """The log time of a conversation's last utterance by its timer; later than all where a session is open."""
    fields = orjson.loads(document)
    if fields.get("after_utterance_id") is not None:
        return datetime.max.replace(tzinfo=UTC)
    timer = Timer.from_json(document)
    return timer.active or timer.since


def _pairs(rows: Any) -> list[tuple[str, str]]:  # noqa: ANN401 - as the protocol's version gives it
    items = rows.items() if isinstance(rows, Mapping) else zip(rows[::2], rows[1::2], strict=True)
    return [(as_text(key), as_text(value)) for key, value in items]


def _hash(rows: Mapping[str | bytes, str | bytes]) -> dict[bytes, bytes]:
    return {as_bytes(field): as_bytes(value) for field, value in rows.items()}
