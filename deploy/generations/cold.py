"""The conversations in the cold store: counts, and moving one there or back by hand."""

from dataclasses import dataclass
from typing import Final

from eunoe.deploy.clients.data_keys import open_data_keys
from eunoe.deploy.clients.shared import open_cold_store, open_redis, state_store, store_keys
from eunoe.deploy.settings import Settings
from eunoe.schemas.errors import Refused
from eunoe.streams.settings import partition_of
from eunoe.workers.registry import STAGES
from eunoe.workers.stores.cold.conversations import repairing
from eunoe.workers.stores.cold.freezer import Freezer
from eunoe.workers.stores.cold.mark import ColdMark
from eunoe.workers.stores.cold.snapshot import Stub
from eunoe.workers.stores.redis.connection import RedisClient, RedisConnection, as_text
from eunoe.workers.stores.redis.keys import Keys

_SCAN_COUNT: Final = 1_000
_TRIES: Final = 5
"""Intervals of commits for which a conversation is given time to come to rest."""
NO_STORE: Final = "no cold store is set (EUNOE_COLD__STORE): all conversations stay in Redis"


@dataclass(frozen=True, slots=True)
class ColdStatus:
    """The cold conversations of a generation."""

    generation: str
    store: str | None
    """The address; `None`: none is set."""
    conversations: int
    cold: int
    """Those of them whose state is in the cold store."""
    lost: int
    """Those of these whose snapshot was found to be lost."""
    snapshot_bytes: int
    repairs: tuple[str, ...] = ()
    """The commands that derive those again, by conversation."""


async def cold_status(settings: Settings) -> ColdStatus:
    """Count the conversations in Redis and in the cold store; scans all keys. Raises `Unavailable`."""
    keys = store_keys(settings)
    known: set[str] = set()
    read: dict[str, Stub] = {}
    async with open_redis(settings) as redis:
        async for name in redis.scan_iter(match=keys.generation_pattern(), count=_SCAN_COUNT):
            key = keys.conversation_of(as_text(name))
            if key is None:
                continue
            known.add(key)
            if as_text(name) == keys.stub(key) and (stub := await redis.get(name)) is not None:
                read[key] = Stub.parse(as_text(stub))
    lost = sorted(key for key, stub in read.items() if stub.lost)
    return ColdStatus(
        generation=settings.names.generation,
        store=settings.cold.store or None,
        conversations=len(known),
        cold=len(read),
        lost=len(lost),
        snapshot_bytes=sum(stub.size for stub in read.values()),
        repairs=tuple(repairing(keys, key) for key in lost),
    )


async def freeze_now(settings: Settings, key: str, partitions: int) -> bool:
    """Move a conversation to the cold store; returns False where it is there already.

    It must rest for an interval of commits, which is waited for a few times. Raises `Refused` without a cold store, for
    an unknown conversation and for one that does not rest.
    """
    keys = store_keys(settings)
    async with open_redis(settings) as redis:
        if await _is_cold(redis, keys, key):
            return False
        cold = open_cold_store(settings)
        if cold is None:
            raise Refused(NO_STORE)
        partition = partition_of(key.encode(), partitions)
        tables = {name: spec.tables.all for name, spec in STAGES.items()}
        rest_s = settings.kafka_settings.commit_interval_ms / 1000
        freezer = Freezer(redis, keys, cold, tables, after_s=0.0, settle_s=0.0, rest_s=rest_s)
        await freezer.mark.ensure()
        for _ in range(_TRIES):
            timer = await redis.hget(keys.timer_documents(partition), key)
            if await freezer.freeze(key, partition, as_text(timer or "")):
                return True
    raise Refused(f"{key} is not at rest: something of it is being decided, sent or waited for; try again")


async def thaw_now(settings: Settings, key: str) -> bool:
    """Move a conversation back to Redis; returns False where it is there already. Raises `Refused`, `Unavailable`."""
    keys = store_keys(settings)
    async with open_data_keys(settings) as data_keys, open_redis(settings) as redis:
        if not await _is_cold(redis, keys, key):
            return False
        return await state_store(settings, redis, keys, data_keys, thaws=True).bring_back(key)


async def adopt(settings: Settings) -> None:
    """Go on with the cold store of the settings, whatever another one held. Raises `Refused`, `Unavailable`."""
    cold = open_cold_store(settings)
    if cold is None:
        raise Refused(NO_STORE)
    async with open_redis(settings) as redis:
        await ColdMark(RedisConnection(redis), store_keys(settings), cold).adopt()


async def _is_cold(redis: RedisClient, keys: Keys, key: str) -> bool:
    """Whether a conversation is in the cold store; raises `Refused` where nothing is known of it."""
    if await redis.exists(keys.stub(key)):
        return True
    if not await redis.exists(keys.table("intake", key, "head")):
        raise Refused(f"no conversation {key}")
    return False
