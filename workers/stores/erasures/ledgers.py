"""Ledgers of erasures: in a Redis of its own (several machines); `sqlite_ledger` has one in a file.

Never the Redis of derived state: that may be thrown away, or restored from a backup that knows of no erasure.
"""

import asyncio
import re
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable
from datetime import timedelta
from secrets import token_bytes
from typing import TypeVar

from pydantic import ValidationError

from eunoe.schemas.erasure import (
    Erasure,
    ErasureDone,
    ErasureRefused,
    ErasureRequest,
    RetentionPolicy,
    without_ids,
)
from eunoe.schemas.errors import Unavailable
from eunoe.workers.stores.redis.connection import RedisClient, RedisConnection, Script, as_table, as_text
from eunoe.workers.stores.redis.keys import applied_erasures_key, erasures_key

REQUESTED, BEGUN, DONE, SECRET = "requested", "begun", "done", "secret"
REFUSED, RETENTION, LEASE = "refused", "retention", "lease"
SECRET_BYTES = 32

Entry = ErasureRequest | Erasure | ErasureDone | ErasureRefused | RetentionPolicy
EntryT = TypeVar("EntryT", ErasureRequest, Erasure, ErasureDone, ErasureRefused, RetentionPolicy)
_TOGETHER = 500
"""Entries that are on their way to Redis at the same time."""
_SIGNS = re.compile(r"[*?\[\]\\]")
"""Signs that a pattern of Redis gives a meaning."""
_SCAN = 10_000
"""Entries that Redis looks through in one command, some milliseconds."""
_LEASE_SCRIPT = Script.load("lease")


def read_entries(form: type[EntryT], bodies: Iterable[str]) -> list[EntryT]:
    """The entries of these JSON texts.

    Raises `Unavailable` where one has a form that this version does not know: to pass over it would be to take what it
    erases for what is still there.
    """
    try:
        return [form.from_json(body) for body in bodies]
    except ValidationError:
        raise Unavailable(
            "the ledger of erasures has an entry that this version of eunoe cannot read: a newer one wrote it, so"
            " update this process",
            "the ledger of erasures",
        ) from None


class StoredErasures(ABC):
    """The entries of an `ErasureLedger` by kind, over a store of them: each is added once, and read in order."""

    async def request(self, *requests: ErasureRequest) -> None:
        """Append requests, each once."""
        await self._add(REQUESTED, *requests)

    async def requests(self, key: str | None = None) -> list[ErasureRequest]:
        """The requests about a conversation, or all."""
        return await self._read(REQUESTED, ErasureRequest, key)

    async def begin(self, erasure: Erasure) -> None:
        """Append an erasure, once."""
        await self._add(BEGUN, erasure)

    async def finish(self, done: ErasureDone) -> None:
        """Append that an erasure was carried out, once."""
        for request in await self._read(REQUESTED, ErasureRequest, done.key):
            if request.request_id == done.request_id and request != (bare := without_ids(request)):
                await self._replace(REQUESTED, bare)
        await self._add(DONE, done)

    async def erasures(self, key: str | None = None) -> list[Erasure]:
        """The erasures of a conversation, or of all."""
        return await self._read(BEGUN, Erasure, key)

    async def done(self, key: str | None = None) -> list[ErasureDone]:
        """The erasures that were carried out."""
        return await self._read(DONE, ErasureDone, key)

    async def refuse(self, refused: ErasureRefused) -> None:
        """Append that a request will not be carried out, once."""
        await self._add(REFUSED, refused)

    async def refusals(self, key: str | None = None) -> list[ErasureRefused]:
        """The requests that will not be carried out."""
        return await self._read(REFUSED, ErasureRefused, key)

    async def set_retention(self, policy: RetentionPolicy) -> None:
        """Append a tenant's policy."""
        await self._add(RETENTION, policy)

    async def retentions(self, tenant: str | None = None) -> list[RetentionPolicy]:
        """All policies, in their order."""
        return await self._read(RETENTION, RetentionPolicy, tenant)

    @abstractmethod
    async def _add(self, kind: str, *entries: Entry) -> None:
        """Append entries; a second one of the same kind, key and request changes nothing."""

    @abstractmethod
    async def _replace(self, kind: str, entry: Entry) -> None:
        """Put an entry in the place of the one of the same kind, key and request."""

    @abstractmethod
    async def _read(self, kind: str, form: type[EntryT], key: str | None) -> list[EntryT]:
        """The entries of a kind with this key, or all, in their order."""


class RedisErasures(StoredErasures):
    """`ErasureLedger` in a Redis of its own, ordered by time. ``prefix``: of all names."""

    def __init__(self, client: RedisClient, prefix: str) -> None:
        self._redis = RedisConnection(client)
        self._prefix = prefix

    async def secret(self) -> bytes:
        """The secret that signs receipts."""
        name = erasures_key(self._prefix, SECRET)
        await self._redis.command("SETNX", name, token_bytes(SECRET_BYTES).hex())
        return bytes.fromhex(as_text(await self._redis.command("GET", name)))

    async def set_retention(self, policy: RetentionPolicy) -> None:
        """Append a tenant's policy; its time is put behind that of the one before, whose clock may have been ahead."""
        known = await self.retentions(policy.key)
        earliest = known[-1].at + timedelta(milliseconds=1) if known else policy.at
        await self._add(RETENTION, policy.model_copy(update={"at": max(policy.at, earliest)}))

    async def lease(self, owner: str, seconds: float) -> bool:
        """Take or keep the right to erase."""
        name = erasures_key(self._prefix, LEASE)
        return bool(await self._redis.run(_LEASE_SCRIPT, [name], [owner, int(seconds * 1000)]))

    async def release(self, owner: str) -> None:
        """Give the right to erase back."""
        await self._redis.run(_LEASE_SCRIPT, [erasures_key(self._prefix, LEASE)], [owner, 0])

    async def _add(self, kind: str, *entries: Entry) -> None:
        for at in range(0, len(entries), _TOGETHER):
            await asyncio.gather(*(self._write("HSETNX", kind, one) for one in entries[at : at + _TOGETHER]))

    async def _replace(self, kind: str, entry: Entry) -> None:
        await self._write("HSET", kind, entry)

    async def _write(self, command: str, kind: str, entry: Entry) -> None:
        field = f"{entry.key} {entry.request_id}"
        await self._redis.command(command, erasures_key(self._prefix, kind), field, entry.model_dump_json())

    async def _read(self, kind: str, form: type[EntryT], key: str | None) -> list[EntryT]:
        name = erasures_key(self._prefix, kind)
        found = as_table(await self._redis.command("HGETALL", name)) if key is None else await self._of(name, key)
        entries = read_entries(form, found.values())
        return sorted((one for one in entries if key in (None, one.key)), key=lambda one: one.at)

    async def _of(self, name: str, key: str) -> dict[str, str]:
        """The entries of one conversation or tenant by their fields; Redis sends no others, but for names like it."""
        pattern = _SIGNS.sub(r"\\\g<0>", key) + " *"
        found, cursor = dict[str, str](), 0
        while True:
            after, part = await self._redis.command("HSCAN", name, cursor, "MATCH", pattern, "COUNT", _SCAN)
            found |= as_table(part)
            if not (cursor := int(after)):
                return found


class AppliedErasures:
    """The erasures that the state store has seen; one restored from a backup lacks the later ones."""

    def __init__(self, client: RedisClient, prefix: str) -> None:
        self._redis = RedisConnection(client)
        self._key = applied_erasures_key(prefix)

    async def all(self) -> set[tuple[str, str]]:
        """(conversation key, request id) of each; raises `Unavailable`."""
        found = as_table(await self._redis.command("HGETALL", self._key))
        pairs = (field.partition(" ") for field in found)
        return {(key, request_id) for key, _, request_id in pairs}

    async def among(self, wanted: Collection[tuple[str, str]]) -> set[tuple[str, str]]:
        """Those of these that it has seen; raises `Unavailable`."""
        if not wanted:
            return set()
        ordered = sorted(wanted)
        fields = [f"{key} {request_id}" for key, request_id in ordered]
        seen = await self._redis.command("HMGET", self._key, *fields)
        return {one for one, value in zip(ordered, seen, strict=True) if value is not None}

    async def add(self, key: str, request_id: str) -> None:
        """Note an erasure; raises `Unavailable`."""
        await self._redis.command("HSET", self._key, f"{key} {request_id}", "1")
