"""Clients that many commands use: the state store alone, and a publisher."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from eunoe.deploy.clients.data_keys import open_data_keys
from eunoe.deploy.clients.redis import open_redis_url
from eunoe.deploy.settings import NO_SERVERS, Settings, reveal
from eunoe.schemas.errors import Refused
from eunoe.schemas.ports import ColdStore
from eunoe.streams.publisher import KafkaPublisher
from eunoe.workers.stores.cold.conversations import ColdAccess
from eunoe.workers.stores.cold.mark import generation_folder
from eunoe.workers.stores.cold.stores import cold_store
from eunoe.workers.stores.data_keys.cached import CachedKeys
from eunoe.workers.stores.redis.connection import RedisClient
from eunoe.workers.stores.redis.keys import Keys
from eunoe.workers.stores.state.redis_store import RedisStore


def store_keys(settings: Settings) -> Keys:
    """Names of the keys and collections of this generation."""
    return Keys(prefix=settings.prefix, generation=settings.names.generation)


@asynccontextmanager
async def open_redis(settings: Settings, limit_s: float | None = None) -> AsyncIterator[RedisClient]:
    """A Redis client, closed at the end; raises `Refused` without a usable URL. ``limit_s``: see `open_redis_url`."""
    url = reveal(settings.redis_url)
    if url is None:
        raise Refused(NO_SERVERS)
    async with open_redis_url(url, limit_s) as client:
        yield client


def state_store(
    settings: Settings, redis: RedisClient, keys: Keys, data_keys: CachedKeys | None, *, thaws: bool = False
) -> RedisStore:
    """The state of the generation that ``keys`` names; ``thaws``: for what changes it, which brings back what is cold.

    Raises `Refused` for an unusable cold store.
    """
    found = open_cold_store(settings)
    cold = None if found is None else ColdAccess(found, thaws=thaws)
    return RedisStore(redis, keys, data_keys=data_keys, cold=cold)


def open_cold_store(settings: Settings) -> ColdStore | None:
    """The store of idle conversations; `None` where none is set. Raises `Refused` for an unusable address."""
    return cold_store(settings.cold.store) if settings.cold.store else None


async def remove_snapshots(settings: Settings) -> None:
    """Delete all that a generation has in the cold store. Raises `Refused`, `Unavailable`."""
    if (store := open_cold_store(settings)) is not None:
        await store.remove(await store.names(generation_folder(store_keys(settings))))


@asynccontextmanager
async def open_store(settings: Settings) -> AsyncIterator[RedisStore]:
    """The state store without other clients, for commands that only read."""
    async with open_data_keys(settings) as data_keys, open_redis(settings) as redis:
        yield state_store(settings, redis, store_keys(settings), data_keys)


@asynccontextmanager
async def open_publisher(settings: Settings, data_keys: CachedKeys | None = None) -> AsyncIterator[KafkaPublisher]:
    """A started publisher, stopped at the end; ``data_keys``: those of the stages, which write derived topics."""
    publisher = KafkaPublisher(settings.kafka_settings, settings.names, data_keys)
    await publisher.start()
    try:
        yield publisher
    finally:
        await publisher.stop()
