"""Servers that the environment gives to the tests: EUNOE_KAFKA, EUNOE_REDIS_URL and EUNOE_QDRANT_URL.

All three or none. Where they are given, tests keep to names of their own there, and what they made is removed at the
end of the run.
"""

import asyncio
import os
import secrets
from collections.abc import Mapping
from itertools import count

from aiokafka.admin import AIOKafkaAdminClient
from qdrant_client import AsyncQdrantClient

from eunoe.deploy.clients.bootstrap import open_qdrant
from eunoe.deploy.clients.shared import open_redis
from eunoe.deploy.settings import Settings, read_settings
from eunoe.streams.settings import client_options

SERVERS = ("EUNOE_KAFKA", "EUNOE_REDIS_URL", "EUNOE_QDRANT_URL")
RUN = f"test-{secrets.token_hex(4)}"
_numbers = count(1)


def missing() -> list[str]:
    """The servers that are not given."""
    return [name for name in SERVERS if not os.environ.get(name)]


def are_given() -> bool:
    """Whether the tests run on servers that were there before."""
    return not missing()


def variables() -> Mapping[str, str]:
    """What tells a command of the given servers, and how to talk to them."""
    wanted = (*SERVERS, "EUNOE_QDRANT_API_KEY", "EUNOE_REPLICATION")
    return {name: text for name, text in os.environ.items() if name in wanted or name.startswith("EUNOE_BROKER__")}


def own_prefix() -> str:
    """A prefix for names that no other test, and no other run, has."""
    return f"{RUN}-{next(_numbers)}"


def tidy() -> None:
    """Remove every topic, key and collection of this run from the given servers."""
    asyncio.run(_tidy(read_settings()))


async def _tidy(settings: Settings) -> None:
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
