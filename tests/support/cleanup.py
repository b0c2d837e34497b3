"""Removes what the tests of this process made on servers that were there before."""

import asyncio

from aiokafka.admin import AIOKafkaAdminClient
from qdrant_client import AsyncQdrantClient

from eunoe.deploy.clients.bootstrap import open_qdrant
from eunoe.deploy.clients.shared import open_redis
from eunoe.deploy.settings import Settings, read_settings
from eunoe.streams.settings import client_options
from tests.support.given import RUN


def remove_everything() -> None:
    """Remove every topic, key and collection of this run from the given servers."""
    asyncio.run(_remove(read_settings()))


async def _remove(settings: Settings) -> None:
    admin = AIOKafkaAdminClient(**client_options(settings.kafka_settings))
    await admin.start()
    try:
        topics = [name for name in await admin.list_topics() if name.startswith(RUN)]
        if topics:
            await admin.delete_topics(topics)
    finally:
        await admin.close()
    async with open_redis(settings) as redis:
        async for key in redis.scan_iter(match=f"{RUN}-*", count=500):
            await redis.unlink(key)
    async with open_qdrant(settings) as qdrant:
        await _drop_collections(qdrant)


async def _drop_collections(qdrant: AsyncQdrantClient) -> None:
    for collection in (await qdrant.get_collections()).collections:
        if collection.name.startswith(RUN):
            await qdrant.delete_collection(collection.name)
