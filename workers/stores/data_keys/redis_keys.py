"""Data keys on a Redis of their own, which loses no acknowledged write and keeps no snapshot."""

import asyncio
import base64
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, Self

from redis import exceptions as faults
from redis.asyncio import Redis

from eunoe.schemas.errors import Refused, Unavailable
from eunoe.schemas.keys import DataKey, Destroyed, Destruction, KeyRecord, KeyStoreStatus
from eunoe.workers.stores.data_keys.cached import missing_key
from eunoe.workers.stores.data_keys.wrapping import (
    ROOT,
    OperatorKeys,
    StoreSecrets,
    WrappedKey,
    key_record,
    new_data_key,
)
from eunoe.workers.stores.redis.connection import RedisClient, RedisConnection, Script, as_table, as_text
from eunoe.workers.stores.redis.file_rewrite import rewrite_file

_CHANGE = Script.load("data_key")
_SYNC_MS: Final = 5_000
"""Milliseconds that a write may take to its disk."""
_REWRITE_S: Final = 60.0


class RedisKeyStore:
    """`KeyStore` on one Redis, or on a master behind sentinels.

    A new key is used only when it is on disk (WAITAOF): its field ``synced`` says so to whoever finds it. After a
    destruction the file of all writes is written anew; ``rewritten`` counts the tombstones of which that is done.
    """

    def __init__(self, client: Redis, prefix: str, keks: OperatorKeys) -> None:
        self._client = client
        self._redis = RedisConnection(client)
        self._prefix = f"{prefix}:_keys"
        self._keks = keks
        self._name = f"the key store, Redis at {self._redis.host}"
        self._secrets = StoreSecrets(keks, self._name)

    @classmethod
    async def open(cls, client: RedisClient, prefix: str, keks: OperatorKeys) -> Self:
        """Open the store, or make it.

        Raises `Refused` for another operator's key and for a server that could lose a key or keep a destroyed one,
        `Unavailable`.
        """
        if not isinstance(client, Redis):
            raise Refused("EUNOE_KEYS__STORE: data keys need one Redis or a master behind sentinels, not a cluster")
        store = cls(client, prefix, keks)
        await store._check_server()
        await store._open()
        return store

    async def current(self, conversation: str) -> DataKey:
        """The current key, made where there is none."""
        subject = self._secrets.subject(conversation)
        found = await self._redis.command("GET", self._current_name(subject))
        if found is None:
            return await self._make("make", subject)
        return await self._on_disk(as_text(found), subject)

    async def get(self, key_id: str) -> DataKey | Destroyed:
        """A key or its tombstone."""
        fields = await self._fields(key_id)
        if "destroyed" in fields:
            return Destroyed(key_id, Destruction(fields["why"]), datetime.fromisoformat(fields["destroyed"]))
        return self._key(key_id, fields)

    async def replace(self, conversation: str) -> DataKey:
        """Make another key current."""
        return await self._make("replace", self._secrets.subject(conversation))

    async def destroy(self, key_id: str, why: Destruction) -> None:
        """Remove a key and write the file of all writes anew; only its tombstone is left.

        The file is also written where an earlier destruction of any key could not do it.
        """
        subject = (await self._fields(key_id)).get("subject", "")
        removed = await self._change(["destroy", key_id, _now(), why.value], self._names(key_id, subject))
        if removed or await self._count("rewritten") < await self._count("tombstones"):
            await self._rewrite()

    async def keys(self, conversation: str) -> list[KeyRecord]:
        """All keys of a conversation, in the order in which they were made."""
        subject = self._secrets.subject(conversation)
        current, ids = await asyncio.gather(
            self._redis.command("GET", self._current_name(subject)),
            self._redis.command("LRANGE", f"{self._prefix}:of:{subject}", 0, -1),
        )
        now = None if current is None else as_text(current)
        return [_record(id_, await self._fields(id_), current=id_ == now) for id_ in map(as_text, ids)]

    async def status(self) -> KeyStoreStatus:
        """The identity of the store and the count of its tombstones."""
        return KeyStoreStatus(self._secrets.id, await self._count("tombstones"), self._keks.version)

    async def rewrap(self) -> int:
        """Wrap all keys with the operator's newest key; returns how many were wrapped with an older one."""
        count, newest = 0, self._keks.version
        with self._redis.translating_faults():
            names = [as_text(name) async for name in self._client.scan_iter(match=f"{self._prefix}:key:*", count=1000)]
        for id_ in (name.rpartition(":")[2] for name in names):
            fields = await self._fields(id_)
            if int(fields.get("version", newest)) < newest:
                wrapped = self._secrets.wrap(self._key(id_, fields))
                words: list[str | int] = ["rewrap", id_, fields["sealed"], wrapped.version, _text(wrapped.sealed)]
                count += await self._redis.run(_CHANGE, [f"{self._prefix}:key:{id_}"], words)
        root = await self._wrapped_root()
        if root.version != newest:
            again = self._keks.wrap(ROOT, self._keks.unwrap(ROOT, root, self._name))
            await self._redis.command("SET", f"{self._prefix}:store", f"{again.version}:{_text(again.sealed)}")
        await self._rewrite()
        return count

    async def _check_server(self) -> None:
        """Raise `Refused` for a server that could lose a key or keep a destroyed one."""
        found = await self._info("persistence") | await self._info("memory")
        if str(found.get("aof_enabled")) != "1":
            raise Refused(f"{self._name} keeps nothing over a restart: set appendonly yes there")
        policy = str(found.get("maxmemory_policy", "noeviction"))
        if policy != "noeviction":
            raise Refused(f"{self._name} may evict keys ({policy}): set maxmemory-policy noeviction there")
        config = await self._config("save", "appendfsync")
        if config.get("save"):
            raise Refused(f'{self._name} writes snapshots, which would keep destroyed keys: set save "" there')
        if config.get("appendfsync") == "no":  # WAITAOF would wait for the system, half a minute or so
            raise Refused(f"{self._name} does not bring its writes to the disk itself (appendfsync no): set appendfsync"
                          " always there, or everysec")  # fmt: skip

    async def _info(self, section: str) -> dict[str, Any]:
        with self._redis.translating_faults():
            found: dict[str, Any] = await self._client.info(section)
        return found

    async def _config(self, *names: str) -> dict[str, str]:
        """Settings of the server; none where it does not tell them, as managed servers do."""
        try:
            with self._redis.translating_faults():
                found = await self._client.config_get(*names)
        except (faults.ResponseError, Refused):
            return {}
        return {as_text(name or ""): as_text(value or "") for name, value in found.items()}

    async def _count(self, name: str) -> int:
        return int(await self._redis.command("GET", f"{self._prefix}:{name}") or 0)

    async def _open(self) -> None:
        wrapped = self._keks.new_root()
        await self._redis.command("SETNX", f"{self._prefix}:store", f"{wrapped.version}:{_text(wrapped.sealed)}")
        self._secrets = StoreSecrets.opened(self._keks, self._name, await self._wrapped_root())

    async def _wrapped_root(self) -> WrappedKey:
        version, _, sealed = as_text(await self._redis.command("GET", f"{self._prefix}:store")).partition(":")
        return WrappedKey(int(version), base64.b64decode(sealed))

    async def _make(self, kind: str, subject: str) -> DataKey:
        key = new_data_key()
        wrapped = self._secrets.wrap(key)
        words: list[str | int] = [kind, key.id, _now(), subject, wrapped.version, _text(wrapped.sealed)]
        made = as_text(await self._change(words, self._names(key.id, subject)))
        if made != key.id:
            return await self._on_disk(made, subject)
        await self._note_synced(key.id)
        return key

    async def _on_disk(self, key_id: str, subject: str) -> DataKey:
        """A key, once it is known to be on disk: whoever made it may have waited in vain, or not yet to the end."""
        fields = await self._fields(key_id)
        key = self._key(key_id, fields)
        if "synced" not in fields:
            await self._change(["touch", key_id], self._names(key_id, subject))
            await self._note_synced(key_id)
        return key

    async def _note_synced(self, key_id: str) -> None:
        await self._redis.command("HSET", f"{self._prefix}:key:{key_id}", "synced", 1)

    async def _change(self, words: Sequence[str | int], names: Sequence[str]) -> Any:  # noqa: ANN401 - as the script
        """Run the script and wait until its writes, and all before them, are on disk; raises `Unavailable`.

        What was on its way to the disk when the script wrote nothing is not waited for.
        """
        with self._redis.translating_faults():
            try:
                async with self._client.pipeline(transaction=False) as pipeline:  # WAITAOF waits for its connection
                    pipeline.execute_command("EVAL", _CHANGE.source, len(names), *names, *words)
                    pipeline.execute_command("WAITAOF", 1, 0, _SYNC_MS)
                    changed, (synced, *_) = await pipeline.execute()
            except faults.ResponseError as fault:
                if "WAITAOF" not in str(fault):
                    raise
                raise Refused(f"{self._name} has no WAITAOF: use Redis 7.2 or Valkey, with appendonly yes") from fault
        if not synced:
            raise Unavailable(f"{self._name}: a key was not on disk after {_SYNC_MS / 1000:.0f} s", self._name)
        return changed

    async def _rewrite(self) -> None:
        """Write the file of all writes anew and wait for it; afterwards note which tombstones were there before."""
        count = await self._count("tombstones")
        try:
            async with asyncio.timeout(_REWRITE_S):
                with self._redis.translating_faults():
                    is_done = await rewrite_file(self._client)
        except TimeoutError:
            raise Unavailable(f"{self._name}: BGREWRITEAOF takes too long", self._name) from None
        if not is_done:
            raise Unavailable(f"{self._name}: BGREWRITEAOF failed: look into its log", self._name)
        await self._redis.command("SET", f"{self._prefix}:rewritten", count)

    async def _fields(self, key_id: str) -> dict[str, str]:
        return as_table(await self._redis.command("HGETALL", f"{self._prefix}:key:{key_id}"))

    def _key(self, key_id: str, fields: Mapping[str, str]) -> DataKey:
        if "sealed" not in fields:
            raise missing_key(key_id, self._name)
        wrapped = WrappedKey(int(fields["version"]), base64.b64decode(fields["sealed"]))
        return self._secrets.unwrap(key_id, wrapped)

    def _current_name(self, subject: str) -> str:
        return f"{self._prefix}:current:{subject}"

    def _names(self, key_id: str, subject: str) -> list[str]:
        of_subject = f"{self._prefix}:of:{subject}"
        counters = [f"{self._prefix}:tombstones", f"{self._prefix}:rewritten"]
        return [f"{self._prefix}:key:{key_id}", of_subject, self._current_name(subject), *counters]


def _text(sealed: bytes) -> str:
    return base64.b64encode(sealed).decode()


def _now() -> str:
    return datetime.now(UTC).isoformat()


def _record(id_: str, fields: Mapping[str, str], *, current: bool) -> KeyRecord:
    return key_record(id_, current, fields.get("created"), fields.get("destroyed"), fields.get("why"))
