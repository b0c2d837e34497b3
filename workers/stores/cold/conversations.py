"""Conversations whose state lies in the cold store: reads them there, and brings them back.

A conversation is either hot (its keys are in Redis) or cold (a snapshot in the cold store, and a stub in Redis that
names it). A worker brings it back at the first look at one of its ledgers; readers leave it where it is.
"""

import asyncio
import secrets
import shlex
from collections import OrderedDict
from dataclasses import dataclass, replace
from hashlib import sha256
from time import monotonic
from typing import Final

from eunoe.schemas.errors import NewerVersion, SnapshotLost, Unavailable
from eunoe.schemas.events import DEFAULT_TENANT
from eunoe.schemas.identity import split_key
from eunoe.schemas.ports import ColdStore
from eunoe.workers.stores.cold.mark import COLD, ColdMark, generation_folder
from eunoe.workers.stores.cold.snapshot import UPDATE, Hash, Snapshot, Stub, digest_of
from eunoe.workers.stores.cold.snapshot_files import SnapshotFiles
from eunoe.workers.stores.redis.connection import RedisConnection, Script, as_bytes, as_text
from eunoe.workers.stores.redis.keys import Keys
from eunoe.workers.stores.redis.staging import STAGED_MS, Staging
from eunoe.workers.text.caches import CacheBySize

_THAW = Script.load("thaw")
_CONDEMN = Script.load("condemn")

HOT_S: Final = 5.0
"""Seconds for which a conversation counts as hot after a look at it."""
MAX_HOT: Final = 10_000
CACHED_BYTES: Final = 32 * 2**20
"""Bytes of the snapshots that a reader keeps, unpacked; a worker keeps none, for it brings the state back."""
APPLIED_BYTES: Final = 4 * 2**20
"""Bytes of the numbers that a process has read from snapshots: about 10,000 conversations."""
_APPLIED_ENTRY_BYTES: Final = 400


@dataclass(slots=True)
class ColdMeter:
    """Counts of a process."""

    frozen: int = 0
    """Conversations taken out of Redis."""
    thawed: int = 0
    """Conversations brought back."""


@dataclass(frozen=True, slots=True)
class ColdAccess:
    """The cold store as a process uses it."""

    store: ColdStore
    thaws: bool = False
    """Whether a look at a cold conversation brings it back; otherwise its snapshot is read in its place."""


class ColdConversations:
    """The cold conversations of one generation.

    ``access`` `None`: no cold store is configured, and cold conversations are waited for.
    """

    def __init__(self, redis: RedisConnection, keys: Keys, access: ColdAccess | None) -> None:
        self._redis = redis
        self._keys = keys
        self._store = None if access is None else access.store
        self.thaws = access is not None and access.thaws
        self._hot: OrderedDict[str, float] = OrderedDict()
        self._given_up: set[str] = set()
        self._read: CacheBySize[str, Snapshot] = CacheBySize(0 if self.thaws else CACHED_BYTES, "cold conversations")
        self._applied: CacheBySize[tuple[str, str], int] = CacheBySize(APPLIED_BYTES, "cold conversations")
        self._files = SnapshotFiles()
        self.meter = ColdMeter()

    @property
    def has_store(self) -> bool:
        """Whether a cold store is configured."""
        return self._store is not None

    def note_hot(self, key: str) -> None:
        """Note that a conversation is hot: for a short time a missing hash means "no data" and not "frozen".

        Should it be frozen all the same, a commit on what was read is refused.
        """
        if not self.thaws:
            return
        self._hot[key] = monotonic()
        self._hot.move_to_end(key)
        if len(self._hot) > MAX_HOT:
            self._hot.popitem(last=False)

    async def instead(self, key: str, name: str) -> Hash | None:
        """The fields of a hash of a conversation that is cold, or was a moment ago; `None` where it is hot.

        ``name``: its key in Redis, which was read as empty. Raises `Unavailable`.
        """
        stub = await self._stub(key)
        if stub is None:
            return None
        found = await self.open(key, stub)
        if found is None:  # another process has brought it back since the caller read nothing
            rows = await self._redis.command("HGETALL", name)
            return {as_bytes(field): as_bytes(value) for field, value in rows.items()}
        return found.hashes.get(self.rest(key, name), {})

    async def _stub(self, key: str) -> str | None:
        """The stub of a cold conversation; `None` for one that was hot a moment ago, and without a cold store."""
        if self._store is None or monotonic() - self._hot.get(key, -HOT_S) < HOT_S:
            return None
        stub = await self._redis.command("GET", self._keys.stub(key))
        return None if stub is None else as_text(stub)

    async def applied(self, key: str, name: str) -> int | None:
        """The number applied last by a ledger of a cold conversation, which stays cold; `None` where it is hot.

        ``name``: the ledger's key in Redis. Raises `SnapshotLost`, and `Unavailable`.
        """
        stub = await self._stub(key)
        if self._store is None or stub is None:
            return None
        number = self._applied.get((stub, name))
        if number is None and (found := await self._load(self._store, key, stub)) is not None:
            number = int(found.hashes.get(self.rest(key, name), {}).get(b"applied", 0))
            self._applied.put((stub, name), number, _APPLIED_ENTRY_BYTES)
        return number

    async def open(self, key: str, stub: str) -> Snapshot | None:
        """The state of a cold conversation, which is hot from now on where looks bring it back.

        `None` where another process has brought it back meanwhile. Raises `SnapshotLost`, but for a conversation that
        was given up: that has an empty state. Raises `Unavailable`.
        """
        if self._store is None:
            raise Unavailable(f"the state of {key} lies in a cold store: set EUNOE_COLD__STORE as it was", COLD)
        try:
            found = self._read.get(stub) or await self._load(self._store, key, stub)
        except SnapshotLost:
            if key in self._given_up:
                return Snapshot(key, {})
            raise
        if found is not None and self.thaws:
            await self._thaw(stub, found)
        elif found is not None:
            self._read.put(stub, found, sum(_size(rows) for rows in found.hashes.values()))
        return found

    async def _load(self, store: ColdStore, key: str, stub: str) -> Snapshot | None:
        named, mark = Stub.parse(stub), ColdMark(self._redis, self._keys, store)
        try:
            name = object_name(self._keys, key, named)
            packed = None if named.lost else await self._files.read(mark, name, named.size)
        except SnapshotLost as fault:
            raise await self._lost(key, named, str(fault)) from fault
        if packed is None:
            now = await self._redis.command("GET", self._keys.stub(key))
            if now is None or as_text(now) != stub:
                return None
            if not named.lost:
                await mark.check()
            raise await self._lost(key, named, "the cold store lacks it")
        found = await asyncio.to_thread(_unpacked, key, named, packed)
        if found is None or found.key != key:
            raise await self._lost(key, named, "it is damaged: it is not the one that was written")
        return found

    async def _lost(self, key: str, stub: Stub, reason: str) -> SnapshotLost:
        """The error of a snapshot that is lost; noted where a worker finds it.

        It must hold for good: events are refused from then on, and no state without them may come back later.
        """
        if self.thaws and not stub.lost:
            words = [str(stub), str(replace(stub, lost=True))]
            await self._redis.run(_CONDEMN, [self._keys.stub(key)], words)
        return SnapshotLost(
            f"the snapshot {stub.file} of {key} is lost ({reason}): run `{repairing(self._keys, key)}` to derive the"
            " conversation again",
            COLD,
        )

    async def _thaw(self, stub: str, snapshot: Snapshot) -> None:
        """Write the state to staged keys, then move them all to their places at once.

        The snapshot stays until the conversation is frozen again: a server that loses its last writes names it again.
        """
        key, token = snapshot.key, secrets.token_hex(8)
        hashes = {self.name(key, name): rows for name, rows in snapshot.marked(token)}
        staged = {final: self._keys.staged(final, token) for final in hashes}
        staging = Staging(self._redis, self._keys.staged_names(key), self._keys.stub(key), "", stub)
        pairs = [name for final, beside in staged.items() for name in (beside, final)]
        words: list[str | int | bytes] = [stub, *map(len, hashes.values())]
        if not await staging.write((staged[final], rows.items()) for final, rows in hashes.items()):
            await staging.drop(pairs[::2])
            return
        # before the state: a process killed in between leaves a timer, which a sweep drops, and no state without one,
        # which no sweep would find again
        await self._keep_timer(snapshot)
        names = [self._keys.stub(key), self._keys.thawed(key), staging.listed, *pairs]
        done = int(await self._redis.run(_THAW, names, words))
        if done < 0:
            raise Unavailable(f"bringing {key} back took longer than {STAGED_MS / 1000:.0f} s", COLD)
        if not done:
            await staging.drop(pairs[::2])
            return
        self.meter.thawed += 1
        await self._keep_timer(snapshot)  # a sweep may have dropped it before the state was back

    async def _keep_timer(self, snapshot: Snapshot) -> None:
        if snapshot.timer:
            documents = self._keys.timer_documents(snapshot.partition)
            await self._redis.command("HSETNX", documents, snapshot.key, snapshot.timer)

    def give_up(self, key: str) -> None:
        """Read a conversation whose snapshot is lost as an empty one from now on, in this process: it is derived again.

        Its stub stays, by which workers hold its events, until `Transplants.swap` puts what was derived in its place.
        """
        self._given_up.add(key)

    async def clean(self, key: str) -> None:
        """Delete the snapshots of a conversation that Redis does not name. Raises `Unavailable` as `unnamed` does."""
        found = await self.unnamed(key)
        if self._store is not None and found:
            await self._store.remove(found)

    async def unnamed(self, key: str) -> list[str]:
        """The files of a conversation in the cold store that Redis does not name: nobody will ask for them.

        Raises `Unavailable`, also where this is not the cold store that they went to: they would stay there unnoticed.
        """
        await self.check_store()
        if self._store is None:
            return []
        found = await self._store.names(folder_of(self._keys, key))
        # Three may be asked for: the one that the stub names; the one that was brought back last, which the stub of a
        # server that lost its last writes names again; and the one that is announced, for freeze.lua makes no other one
        # a stub. In this order: a snapshot is announced before it is written, and stays named while it may become the
        # stub. An erasure removes all three names with the state, and announce.lua lets nobody name what was read
        # before: so what is named later tells nothing of what was erased, and all else can be deleted at any time.
        names = (self._keys.stub(key), self._keys.freezing(key), self._keys.thawed(key))
        stubs = await self._redis.command("MGET", *names)
        used = tuple(object_name(self._keys, key, Stub.parse(as_text(stub))) for stub in stubs if stub is not None)
        return [name for name in found if not name.startswith(used)]

    async def check_store(self) -> None:
        """Raise `Unavailable` where snapshots of this generation lie in another cold store than this one.

        A Redis that was lost does not know it; nothing is raised then, and the snapshots of before still lie there.
        """
        if not await self._redis.command("EXISTS", self._keys.cold_mark()):
            return
        if self._store is None:
            where = f"snapshots of {self._keys.generation} may lie in a cold store"
            raise Unavailable(f"{where}: set EUNOE_COLD__STORE as it was", COLD)
        await ColdMark(self._redis, self._keys, self._store).check()

    def rest(self, key: str, name: str) -> str:
        """The name within the conversation of a key of Redis."""
        return name.removeprefix(self.name(key, ""))

    def name(self, key: str, rest: str) -> str:
        """The key of Redis of a name within a conversation."""
        return self._keys.stub(key).removesuffix("cold") + rest


def _unpacked(key: str, stub: Stub, packed: bytes) -> Snapshot | None:
    """The snapshot, if the bytes are those that were written; raises `NewerVersion` where they cannot be read.

    Nobody but a newer version writes what this one cannot read: it is whole, and to be left as it is.
    """
    if digest_of(packed) != stub.digest:
        return None
    try:
        return Snapshot.unpack(packed)
    except ValueError as fault:
        raise NewerVersion(f"the snapshot {stub.file} of {key} is of a newer version ({fault}): {UPDATE}") from fault


def _size(rows: Hash) -> int:
    return sum(len(field) + len(value) + 150 for field, value in rows.items())


def repairing(keys: Keys, key: str) -> str:
    """The command that derives a conversation of a generation again, for a shell."""
    tenant, conversation_id = split_key(key)
    words = ["eunoe", "repair", conversation_id, *(["--tenant", tenant] if tenant != DEFAULT_TENANT else [])]
    return f"EUNOE_GENERATION={keys.generation} {shlex.join(words)}"


def folder_of(keys: Keys, key: str) -> str:
    """The folder of a conversation's snapshots; its name tells nothing of the conversation."""
    return f"{generation_folder(keys)}/{sha256(key.encode()).hexdigest()[:40]}"


def object_name(keys: Keys, key: str, stub: Stub) -> str:
    """The name of a snapshot; no two have the same."""
    return f"{folder_of(keys, key)}/{stub.file}"
