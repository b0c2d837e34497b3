"""State store and parking lot on Redis or Valkey, standalone or clustered.

Each write is one script that touches keys of one hash tag only. The client repeats a request whose answer was lost;
that is safe: a commit is recognized by its token, and all other scripts are idempotent.
"""

import asyncio
import itertools
import secrets
from collections.abc import Mapping, Sequence
from typing import Any

from redis.asyncio import RedisCluster

from eunoe.schemas.decisions import REQUEST_TTL_S, Clear, Commit, Ledger, Outbox, Put, Scope, Write
from eunoe.schemas.keys import DataKey
from eunoe.streams.sealed.envelope import sealed_name
from eunoe.workers.stores.cold.conversations import ColdAccess, ColdConversations
from eunoe.workers.stores.data_keys.cached import CachedKeys
from eunoe.workers.stores.documents.sealed_documents import (
    DocumentGroup,
    SealedDocuments,
    Stored,
    outbox_group,
    parked_group,
    table_group,
)
from eunoe.workers.stores.redis.connection import RedisClient, RedisConnection, Script, as_text
from eunoe.workers.stores.redis.keys import Keys
from eunoe.workers.stores.state.ledger_fields import (
    OUTBOX,
    commit_words,
    fence_words,
    noticing_damage,
    read_ledger,
    shown_by,
)

MAX_LISTED = 1_000
"""Parked sessions that one listing returns at most."""
SCAN_COUNT = 1_000
"""The COUNT of one SCAN step."""

_COMMIT = Script.load("commit")
_LEDGER = Script.load("ledger")
_PARK = Script.load("park")


class RedisStore:
    """`StateStore` and `ParkingLot`.

    ``request_ttl_s``: the time to live of the ledger of one request, in seconds. ``data_keys``: the keys that documents
    are sealed with; `None`: they are plain. ``cold``: the store of conversations that are idle.
    """

    def __init__(
        self,
        client: RedisClient,
        keys: Keys,
        *,
        request_ttl_s: int = REQUEST_TTL_S,
        data_keys: CachedKeys | None = None,
        cold: ColdAccess | None = None,
    ) -> None:
        self._redis = RedisConnection(client)
        self.documents = SealedDocuments(data_keys, f"Redis at {self._redis.host}")
        self.cold = ColdConversations(self._redis, keys, cold)
        self._keys = keys
        self._request_ttl_ms = request_ttl_s * 1000
        # one random draw for all commits of this process: each draw would release the interpreter lock
        self._tokens = map(f"{secrets.token_hex(8)}-{{}}".format, itertools.count())

    def new_token(self) -> str:
        """A token that no ledger has had; see `Ledger.token`."""
        return next(self._tokens)

    async def ledger(self, scope: Scope) -> Ledger:
        """The ledger of a stage; takes one round trip, unless the conversation is cold. Raises `StateDamaged`."""
        name = self._keys.ledger(scope)
        while True:
            keys = [name, self._keys.stub(scope.key), self._keys.ledger(Scope("intake", scope.key))]
            server, words, stub, thawed = await self._redis.run(_LEDGER, keys, [])
            if not stub:
                break
            snapshot = await self.cold.open(scope.key, as_text(stub))
            if snapshot is not None and not (self.cold.thaws and snapshot.hashes):  # empty: it was given up
                rows = snapshot.hashes.get(self.cold.rest(scope.key, name), {})
                words = words or [word for row in rows.items() for word in row]
                break
        if not stub:
            self.cold.note_hot(scope.key)
        fields: dict[str, Stored] = dict(zip(map(as_text, words[::2]), words[1::2], strict=True))
        outbox = await self._outbox(scope, fields)
        texts = {name: as_text(value) for name, value in fields.items()}
        shown = shown_by(as_text(server), as_text(thawed) or texts.get("thawed", ""))
        with noticing_damage(scope, self._keys, self._redis.host):
            ledger = read_ledger(texts, outbox, shown)
        await self.documents.note(scope.key, ledger.key)
        return ledger

    async def applied(self, scope: Scope) -> int:
        """The number applied last. Where the store shows none, the conversation may be cold: it is brought back."""
        number = await self._redis.command("HGET", self._keys.ledger(scope), "applied")
        if number is None:
            return (await self.ledger(scope)).applied
        with noticing_damage(scope, self._keys, self._redis.host):
            return int(number)

    async def cold_applied(self, scope: Scope) -> int | None:
        """The number applied last of a conversation in the cold store, which stays there; `None` where it is not there.

        Raises `SnapshotLost`, and `Unavailable`.
        """
        return await self.cold.applied(scope.key, self._keys.ledger(scope))

    async def bring_back(self, key: str) -> bool:
        """Bring a cold conversation back; returns whether this call did it. Raises `Unavailable`."""
        before = self.cold.meter.thawed
        await self.ledger(Scope("intake", key))
        return self.cold.meter.thawed > before

    async def _outbox(self, scope: Scope, fields: dict[str, Stored]) -> Outbox | None:
        """Take the outbox out of a ledger's fields; of one whose key was destroyed only the number is left."""
        name = next((name for name in fields if name.startswith(OUTBOX)), None)
        if name is None:
            return None
        found = await self.documents.open(outbox_group(scope), {"outbox": fields.pop(name)})
        with noticing_damage(scope, self._keys, self._redis.host):
            return Outbox.from_json(found["outbox"][1]) if found else Outbox(number=int(name.removeprefix(OUTBOX)))

    async def commit(self, scope: Scope, commit: Commit) -> str | None:
        """Run the transaction; returns its token, `None` where the fence refuses it."""
        tables = sorted({write.table for write in commit.writes})
        keys = [
            self._keys.ledger(scope),
            self._keys.parked_numbers(scope),
            self._keys.parked(scope, commit.unpark or 0),
            self._keys.stub(scope.key),
            self._keys.ledger(Scope("intake", scope.key)),
            *(self._keys.table(scope.stage, scope.key, table) for table in tables),
        ]
        places = {table: place for place, table in enumerate(tables, start=6)}
        ttl = self._request_ttl_ms if scope.request_id else ""
        key = await self.documents.key(scope.key, commit.key)
        sealed = "" if key is None else key.id
        outbox: Stored = ""
        if commit.outbox is not None:
            text = commit.outbox.model_dump_json()
            _, outbox = self.documents.seal(key, outbox_group(scope), "outbox", text)
        token = self.new_token()
        words = commit_words(commit, token, outbox)
        writes = self._write_words(scope, commit.writes, places, key)
        passed = await self._redis.run(_COMMIT, keys, [*words, ttl, *fence_words(commit, sealed), *writes])
        return token if passed else None

    def _write_words(
        self, scope: Scope, writes: Sequence[Write], places: Mapping[str, int], key: DataKey | None
    ) -> list[str | int | bytes]:
        """Four words per write: kind, the table's index among the keys, id, text.

        Clears come first, then table by table what is dropped and what is put; of a document its last write only.
        """
        words: list[str | int | bytes] = []
        for table in dict.fromkeys(write.table for write in writes if isinstance(write, Clear)):
            words += ["clear", places[table], "", ""]
        last = {(write.table, write.id): write for write in writes if not isinstance(write, Clear)}
        groups = {table: table_group(scope.stage, scope.key, table) for table in places}
        for write in sorted(last.values(), key=lambda write: (write.table, isinstance(write, Put))):
            place, group = places[write.table], groups[write.table]
            if isinstance(write, Put):
                words += ["put", place, *self.documents.seal(key, group, write.id, write.text)]
                continue
            words += ["drop", place, write.id, ""]
            if group.worded and key is not None:
                words += ["drop", place, sealed_name(key, write.id), ""]
        return words

    async def mark_sent(self, scope: Scope, number: int) -> None:
        """Drop the outbox, only if it is still that of ``number``."""
        await self._redis.command("HDEL", self._keys.ledger(scope), f"{OUTBOX}{number}")

    async def fetch(self, stage: str, key: str, table: str, ids: Sequence[str]) -> list[str | None]:
        """The documents of a table by id, in the order asked."""
        if not ids:
            return []
        group = table_group(stage, key, table)
        names = await self.documents.names(group, ids)
        name = self._keys.table(stage, key, table)
        values: list[Any] = await self._redis.command("HMGET", name, *names)
        if all(value is None for value in values) and (rows := await self.cold.instead(key, name)) is not None:
            values = [rows.get(one.encode()) for one in names]
        found = await self.documents.open(group, dict(zip(names, values, strict=True)))
        by_id = dict(reversed(found.values()))  # a sealed document counts before a plain one
        return [by_id.get(id_) for id_ in ids]

    async def scan(self, stage: str, key: str, table: str) -> dict[str, str]:
        """A whole table: id → document."""
        name = self._keys.table(stage, key, table)
        stored = await self._redis.command("HGETALL", name)
        if not stored and (rows := await self.cold.instead(key, name)) is not None:
            stored = rows
        return await self._opened(table_group(stage, key, table), stored)

    async def ids(self, stage: str, key: str, table: str) -> set[str]:
        """The ids of all documents of a table, also of those that cannot be read. Not of a table of words."""
        name = self._keys.table(stage, key, table)
        stored = await self._redis.command("HKEYS", name)
        if not stored and (rows := await self.cold.instead(key, name)) is not None:
            stored = rows
        return set(map(as_text, stored))

    async def _opened(self, group: DocumentGroup, stored: Mapping[str | bytes, Stored]) -> dict[str, str]:
        """All documents of a hash: id → text."""
        found = await self.documents.open(group, {as_text(id_): value for id_, value in stored.items()})
        plain = {id_: text for name, (id_, text) in found.items() if name == id_}
        return plain | {id_: text for name, (id_, text) in found.items() if name != id_}

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

    async def sample_documents(self, stage: str, key: str, table: str, count: int) -> dict[str, str]:
        """At most ``count`` documents of a table, chosen at random, by id; none of a cold conversation."""
        name = self._keys.table(stage, key, table)
        fields = await self._redis.command("HRANDFIELD", name, count)
        values = await self._redis.command("HMGET", name, *fields) if fields else []
        rows = dict(zip(fields, values, strict=True))
        return await self._opened(table_group(stage, key, table), {id_: text for id_, text in rows.items() if text})

    async def park(self, scope: Scope, number: int, slot: str, text: str) -> bool:
        """Store an event once; returns whether its session is still to be applied."""
        names = [self._keys.ledger(scope), self._keys.parked_numbers(scope), self._keys.parked(scope, number)]
        key = await self.documents.key(scope.key)
        while True:
            _, document = self.documents.seal(key, parked_group(scope, number), slot, text)
            parked = await self._redis.run(_PARK, names, [number, slot, document, "" if key is None else key.id])
            if isinstance(parked, int):
                return bool(parked)
            key = await self.documents.key(scope.key, as_text(parked))

    async def parked(self, scope: Scope, number: int) -> dict[str, str]:
        """The parked events of a session: slot → event."""
        stored = await self._redis.command("HGETALL", self._keys.parked(scope, number))
        return await self._opened(parked_group(scope, number), stored)

    async def progress(self, scope: Scope) -> tuple[int, int]:
        """The number applied last, and the count of late sessions, as they are stored now."""
        applied, lates = await self._redis.command("HMGET", self._keys.ledger(scope), "applied", "lates")
        return int(applied or 0), int(lates or 0)

    async def parked_numbers(self, scope: Scope) -> list[int]:
        """The first `MAX_LISTED` sessions with parked events, ascending."""
        found = await self._redis.command("ZRANGE", self._keys.parked_numbers(scope), 0, MAX_LISTED - 1)
        return sorted(int(number) for number in found)
