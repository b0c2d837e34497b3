"""State store, parking lot and index of the log on Redis or Valkey, standalone or clustered.

Each write is one script that touches keys of one hash tag only. The client repeats a request whose answer was lost;
that is safe: a commit is recognized by its token, and all other scripts are idempotent.
"""

import asyncio
import itertools
import secrets
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from redis.asyncio import RedisCluster

from eunoe.schemas.decisions import REQUEST_TTL_S, Clear, Commit, Drop, Ledger, Outbox, Put, Scope, Timer, Write
from eunoe.schemas.identity import split_key
from eunoe.schemas.ports import ActiveConversation, DueTimer, StoredConversation
from eunoe.workers.stores.connection import RedisClient, RedisConnection, Script, as_table, as_text
from eunoe.workers.stores.keys import Keys, announcements_key
from eunoe.workers.stores.promotions import last_promoted

MAX_LISTED = 1_000
"""Parked sessions that one listing returns at most."""
SCAN_COUNT = 1_000
"""The COUNT of one SCAN step."""

_COMMIT = Script.load("commit")
_LEDGER = Script.load("ledger")
_MARK_SENT = Script.load("mark_sent")
_PARK = Script.load("park")
_SCHEDULE = Script.load("schedule")
_DUE = Script.load("due")
_SWAP = Script.load("swap")

_SKIPPED = "skipped/"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class RedisStore:
    """`StateStore`, `ConversationList` and `ParkingLot`.

    ``request_ttl_s``: the time to live of the ledger of one request, in seconds.
    """

    def __init__(self, client: RedisClient, keys: Keys, *, request_ttl_s: int = REQUEST_TTL_S) -> None:
        self._redis = RedisConnection(client)
        self._keys = keys
        self._request_ttl_ms = request_ttl_s * 1000
        # one random draw for all commits of this process: each draw would release the interpreter lock
        self._tokens = map(f"{secrets.token_hex(8)}-{{}}".format, itertools.count())

    async def ledger(self, scope: Scope) -> Ledger:
        """The ledger of a stage; takes one round trip."""
        server, fields = await self._redis.run(_LEDGER, [self._keys.ledger(scope)], [])
        return _ledger(as_table(dict(zip(fields[::2], fields[1::2], strict=True))), as_text(server))

    async def commit(self, scope: Scope, commit: Commit) -> bool:
        """Run the transaction; returns whether the fence let it pass."""
        tables = sorted({write.table for write in commit.writes})
        keys = [
            self._keys.ledger(scope),
            self._keys.parked_numbers(scope),
            self._keys.parked(scope, commit.unpark or 0),
            *(self._keys.table(scope.stage, scope.key, table) for table in tables),
        ]
        places = {table: place for place, table in enumerate(tables, start=4)}
        ttl = self._request_ttl_ms if scope.request_id else ""
        fence = (commit.lates, "" if commit.late is None else commit.late, commit.server)
        arguments = [*_commit_words(commit, next(self._tokens)), ttl, *fence, *_write_words(commit.writes, places)]
        return bool(await self._redis.run(_COMMIT, keys, arguments))

    async def mark_sent(self, scope: Scope, number: int) -> None:
        """Drop the outbox, only if it is still that of ``number``."""
        await self._redis.run(_MARK_SENT, [self._keys.ledger(scope)], [number])

    async def fetch(self, stage: str, key: str, table: str, ids: Sequence[str]) -> list[str | None]:
        """The documents of a table by id, in the order asked."""
        if not ids:
            return []
        found: list[Any] = await self._redis.command("HMGET", self._keys.table(stage, key, table), *ids)
        return [None if value is None else as_text(value) for value in found]

    async def scan(self, stage: str, key: str, table: str) -> dict[str, str]:
        """A whole table: id → document."""
        return as_table(await self._redis.command("HGETALL", self._keys.table(stage, key, table)))

    async def conversations(self) -> list[str]:
        """The keys of all conversations of this generation, sorted; scans all keys of the server or cluster."""
        found: set[str] = set()
        client = self._redis.client
        with self._redis.translating_faults():
            async for name in client.scan_iter(match=self._keys.generation_pattern(), count=SCAN_COUNT):
                key = self._keys.conversation_of(as_text(name))
                if key is not None:
                    found.add(key)
        return sorted(found)

    async def sample(self, count: int) -> set[str]:
        """Keys of at most ``count`` conversations of this generation, chosen at random; raises `Unavailable`."""
        client = self._redis.client
        with self._redis.translating_faults():
            if isinstance(client, RedisCluster):
                asked = [client.execute_command("RANDOMKEY", target_nodes=client.RANDOM) for _ in range(count)]
            else:
                asked = [self._redis.command("RANDOMKEY") for _ in range(count)]
            names = await asyncio.gather(*asked)
        found = (self._keys.conversation_of(as_text(name)) for name in names if name is not None)
        return {key for key in found if key is not None}

    async def park(self, scope: Scope, number: int, slot: str, text: str) -> bool:
        """Store an event once; returns whether its session is still to be applied."""
        keys = [self._keys.ledger(scope), self._keys.parked_numbers(scope), self._keys.parked(scope, number)]
        return bool(await self._redis.run(_PARK, keys, [number, slot, text]))

    async def parked(self, scope: Scope, number: int) -> dict[str, str]:
        """The parked events of a session: slot → event."""
        return as_table(await self._redis.command("HGETALL", self._keys.parked(scope, number)))

    async def parked_numbers(self, scope: Scope) -> list[int]:
        """The first `MAX_LISTED` sessions with parked events, ascending."""
        found = await self._redis.command("ZRANGE", self._keys.parked_numbers(scope), 0, MAX_LISTED - 1)
        return sorted(int(number) for number in found)


class RedisTransplants:
    """`Transplants` over a `RedisStore`."""

    def __init__(self, store: RedisStore, client: RedisClient, keys: Keys) -> None:
        self._store = store
        self._redis = RedisConnection(client)
        self._keys = keys

    async def export(self, key: str, tables: Mapping[str, Sequence[str]]) -> StoredConversation:
        """The stored state of a conversation; raises ``ValueError`` where an outbox is unsent."""
        scopes = {stage: Scope(stage, key) for stage in tables}
        ledgers = {stage: await self._store.ledger(scope) for stage, scope in scopes.items()}
        if unsent := [stage for stage, ledger in ledgers.items() if ledger.outbox is not None]:
            raise ValueError(f"{key}: unsent decisions of {', '.join(unsent)}")
        found = {
            (stage, table): await self._store.scan(stage, key, table) for stage in tables for table in tables[stage]
        }
        return StoredConversation(ledgers, found, {stage: await self._parked(scope) for stage, scope in scopes.items()})

    async def _parked(self, scope: Scope) -> dict[int, dict[str, str]]:
        numbers = await self._store.parked_numbers(scope)
        return {number: await self._store.parked(scope, number) for number in numbers}

    async def swap(
        self, key: str, tables: Mapping[str, Sequence[str]], standing: StoredConversation, expect: Ledger
    ) -> bool:
        """Replace the stored state of a conversation by ``standing``; returns whether it was still as expected."""
        documents = self._documents(key, tables, standing)
        lists = {
            self._keys.parked_numbers(Scope(stage, key)): sorted(standing.parked.get(stage, {})) for stage in tables
        }
        stale = await self._stale(key, tables)
        first, *_ = tables
        names = list(dict.fromkeys((self._keys.ledger(Scope(first, key)), *documents, *lists, *stale)))
        places = {name: place for place, name in enumerate(names, start=1)}
        words: list[str | int] = [expect.applied, "" if expect.outbox is None else expect.outbox.number]
        for name, rows in documents.items():
            words += ["hash", places[name], 2 * len(rows), *(word for row in rows.items() for word in row)]
        for name, numbers in lists.items():
            words += ["numbers", places[name], len(numbers), *numbers]
        return bool(await self._redis.run(_SWAP, names, words))

    def _documents(
        self, key: str, tables: Mapping[str, Sequence[str]], standing: StoredConversation
    ) -> dict[str, Mapping[str, str]]:
        """The hashes to write, empty ones included: name → field → text."""
        found: dict[str, Mapping[str, str]] = {}
        for stage, names in tables.items():
            scope = Scope(stage, key)
            found[self._keys.ledger(scope)] = _ledger_fields(standing.ledgers.get(stage, Ledger()))
            for table in names:
                found[self._keys.table(stage, key, table)] = standing.tables.get((stage, table), {})
            for number, slots in standing.parked.get(stage, {}).items():
                found[self._keys.parked(scope, number)] = slots
        return found

    async def _stale(self, key: str, tables: Mapping[str, Sequence[str]]) -> list[str]:
        """The keys of events parked now, which the swap removes."""
        scopes = [Scope(stage, key) for stage in tables]
        return [
            self._keys.parked(scope, number) for scope in scopes for number in await self._store.parked_numbers(scope)
        ]


def _ledger_fields(ledger: Ledger) -> dict[str, str]:
    if not ledger.applied and not ledger.skipped and not ledger.lates:
        return {}
    skipped = {f"{_SKIPPED}{number}": "1" for number in ledger.skipped}
    lates = {"lates": str(ledger.lates)} if ledger.lates else {}
    return {"applied": str(ledger.applied), "token": "", **lates, **skipped}


class RedisLogPositions:
    """`LogPositions`. A timer's score is ``since`` in microseconds, an integer that Redis stores exactly."""

    def __init__(self, client: RedisClient, keys: Keys) -> None:
        self._redis = RedisConnection(client)
        self._keys = keys

    async def schedule(self, partition: int, key: str, timer: Timer) -> None:
        """Set, move or (with no utterance) cancel a conversation's timer, and list the conversation as active.

        A timer with a smaller number than the last one is ignored.
        """
        active = _microseconds(timer.active or timer.since)
        since = "" if timer.after_utterance_id is None else _microseconds(timer.since)
        tenant, conversation_id = split_key(key)
        await asyncio.gather(
            self._redis.run(
                _SCHEDULE, self._timer_keys(partition), [key, since, timer.model_dump_json(), timer.number]
            ),
            self._redis.command("ZADD", self._keys.conversations(tenant), "GT", active, conversation_id),
        )

    async def due(self, partition: int, since: datetime, limit: int) -> list[DueTimer]:
        """Timers of sessions that have been idle since ``since`` or longer, oldest first, equal ones by key."""
        if limit <= 0:
            return []
        found = await self._redis.run(_DUE, self._timer_keys(partition), [_microseconds(since), limit])
        return [
            DueTimer(key=as_text(key), timer=Timer.from_json(document))
            for key, document in zip(found[::2], found[1::2], strict=True)
        ]

    async def was_announced(self, partition: int, position: int, generation: str, nonce: str | None) -> bool:
        """Whether the promotion at ``position`` was announced with this nonce, which no other place has used."""
        if nonce is None:
            return False
        announced = await self._redis.command("HGET", announcements_key(self._keys.prefix), nonce)
        if announced is None or as_text(announced) != generation:
            return False
        used = self._keys.used_nonces(partition)
        await self._redis.command("HSETNX", used, nonce, str(position))
        return int(await self._redis.command("HGET", used, nonce)) == position

    async def promote(self, partition: int, position: int, generation: str) -> None:
        """Record that ``generation`` answers asks after ``position``."""
        await self._redis.command("HSET", self._keys.promotions(partition), str(position), generation)

    async def answering(self, partition: int, position: int | None = None) -> str | None:
        """The generation that answers at a position; `None` means the end of the log."""
        found = as_table(await self._redis.command("HGETALL", self._keys.promotions(partition)))
        return last_promoted({int(at): generation for at, generation in found.items()}, position)

    def _timer_keys(self, partition: int) -> list[str]:
        return [self._keys.timers(partition), self._keys.timer_documents(partition)]


class RedisActivityList:
    """`ActivityList`, as `RedisLogPositions.schedule` writes it."""

    def __init__(self, client: RedisClient, keys: Keys) -> None:
        self._redis = RedisConnection(client)
        self._keys = keys

    async def active(
        self, tenant: str, limit: int, after: ActiveConversation | None = None
    ) -> list[ActiveConversation]:
        """The conversations of a tenant, the last active first, equal ones by id descending; those behind ``after``."""
        newest = "+inf" if after is None else str(_microseconds(after.active))
        found: list[ActiveConversation] = []
        passed = 0
        while len(found) < limit:
            page = await self._page(tenant, newest, passed, limit)
            passed += len(page)
            found += [one for one in page if after is None or _is_behind(one, after)]
            if len(page) < limit:
                break
        return found[:limit]

    async def _page(self, tenant: str, newest: str, passed: int, limit: int) -> list[ActiveConversation]:
        words = (self._keys.conversations(tenant), newest, "-inf", "WITHSCORES", "LIMIT", passed, limit)
        reply = await self._redis.command("ZREVRANGEBYSCORE", *words)
        pairs = (
            reply if reply and isinstance(reply[0], list | tuple) else list(zip(reply[::2], reply[1::2], strict=True))
        )
        return [
            ActiveConversation(as_text(member), _EPOCH + timedelta(microseconds=int(float(as_text(score)))))
            for member, score in pairs
        ]


def _is_behind(one: ActiveConversation, other: ActiveConversation) -> bool:
    return (one.active, one.conversation_id.encode()) < (other.active, other.conversation_id.encode())


async def forget_generation(client: RedisClient, keys: Keys, *, batch: int = 500) -> int:
    """Delete every key of a generation, ``batch`` at a time, and return their number.

    Only for a generation without workers: keys written meanwhile may stay. Raises `Unavailable`.
    """
    redis = RedisConnection(client)
    removed = 0
    with redis.translating_faults():
        found: list[Any] = []
        async for key in client.scan_iter(match=keys.generation_pattern(), count=batch):
            found.append(key)
            if len(found) >= batch:
                removed += await client.unlink(*found)
                found.clear()
        if found:
            removed += await client.unlink(*found)
    return removed


def _ledger(fields: dict[str, str], server: str) -> Ledger:
    outbox = fields.get("outbox")
    return Ledger(
        applied=int(fields.get("applied", 0)),
        skipped=frozenset(int(name.removeprefix(_SKIPPED)) for name in fields if name.startswith(_SKIPPED)),
        outbox=None if outbox is None else Outbox.from_json(outbox),
        lates=int(fields.get("lates", 0)),
        server=server,
    )


def _commit_words(commit: Commit, token: str) -> list[str | int]:
    outbox = commit.outbox
    return [
        commit.expect,
        commit.applied,
        token,
        "" if outbox is None else outbox.model_dump_json(),
        "" if outbox is None else outbox.number,
        int(commit.skip),
        "" if commit.unpark is None else commit.unpark,
    ]


def _write_words(writes: Sequence[Write], places: dict[str, int]) -> list[str | int]:
    """Four words per write: kind, the table's index among the keys, id, text; clears come first."""
    words: list[str | int] = []
    for write in sorted(writes, key=lambda write: not isinstance(write, Clear)):
        match write:
            case Clear():
                words += ["clear", places[write.table], "", ""]
            case Drop():
                words += ["drop", places[write.table], write.id, ""]
            case Put():
                words += ["put", places[write.table], write.id, write.text]
    return words


def _microseconds(time: datetime) -> int:
    return (time - _EPOCH) // timedelta(microseconds=1)
