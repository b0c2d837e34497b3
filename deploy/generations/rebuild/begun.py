"""The needs of a generation that is begun: rights that are asked for early, and topics."""

from eunoe.deploy.clients.shared import open_redis
from eunoe.deploy.settings import Settings
from eunoe.schemas.errors import Refused
from eunoe.streams.admin import create_topics, list_topics
from eunoe.workers.stores.records.generations import GenerationState, RedisGenerations
from eunoe.workers.stores.redis.connection import RedisConnection


async def redis_processes(settings: Settings) -> frozenset[str]:
    """The ids of the servers that take writes (`RedisConnection.processes`).

    Raises `Misconfigured` for a user without the right to INFO, `Unavailable`.
    """
    async with open_redis(settings) as redis:
        return await RedisConnection(redis).processes()


async def make_topics(source: Settings, target: Settings, partitions: int) -> None:
    """Create the topics of the generation ``target``, which is made from ``source`` and registered as being built.

    Where Kafka refuses all of them the generation is forgotten: while it is being built, all erasures wait. Raises
    `Refused`, `Unavailable`.
    """
    try:
        await create_topics(target.kafka_settings, target.names, partitions, target.replication)
    except Refused:
        made = await list_topics(target.kafka_settings, target.names)
        if not any(one.partitions for one in made if one.name != source.names.name(one.topic)):
            await _forget(source, target.names.generation)
        raise


async def _forget(settings: Settings, name: str) -> None:
    async with open_redis(settings) as redis:
        registry = RedisGenerations(redis, settings.prefix)
        row = await registry.find(name)
        if row is not None and row.state is GenerationState.BUILDING:
            await registry.forget(name)
