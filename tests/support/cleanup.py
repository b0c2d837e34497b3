"""Removes what the tests of this process made on servers that were there before.

``python -m tests.support.cleanup PREFIX``: the same of another run, whose prefix it is; says what is left after all.
"""

import asyncio
import sys

from aiokafka.admin import AIOKafkaAdminClient

from eunoe.deploy.clients.bootstrap import open_qdrant
from eunoe.deploy.clients.shared import open_redis
from eunoe.deploy.settings import Settings, read_settings
from eunoe.streams.groups import delete_groups
from eunoe.streams.settings import client_options
from eunoe.workers.stores.redis.connection import as_text
from eunoe.workers.stores.vectors.qdrant_rest import QdrantRest
from tests.support.given import RUN


def remove_everything(prefix: str = RUN) -> None:
    """Remove every consumer group, topic, key and collection of a run from the given servers."""
    asyncio.run(_remove(read_settings(), prefix))


async def _remove(settings: Settings, prefix: str) -> None:
    admin = AIOKafkaAdminClient(**client_options(settings.kafka_settings))
    await admin.start()
    try:
        groups = [group for group, *_ in await admin.list_consumer_groups() if group.startswith(prefix)]
        await delete_groups(settings.kafka_settings, groups)
        topics = [name for name in await admin.list_topics() if name.startswith(prefix)]
        if topics:
            await admin.delete_topics(topics)
    finally:
        await admin.close()
    async with open_redis(settings) as redis:
        async for key in redis.scan_iter(match=f"{prefix}*", count=500):
            await redis.unlink(key)
    async with open_qdrant(settings) as qdrant:
        await _drop_collections(qdrant, prefix)


async def _drop_collections(qdrant: QdrantRest, prefix: str) -> None:
    for name in await qdrant.collections():
        if name.startswith(prefix):
            await qdrant.delete_collection(name)


async def found_on(settings: Settings, prefix: str) -> dict[str, list[str]]:
    """What is on the given servers under a prefix: groups, topics, keys and collections."""
    admin = AIOKafkaAdminClient(**client_options(settings.kafka_settings))
    await admin.start()
    try:
        groups = [group for group, *_ in await admin.list_consumer_groups()]
        topics = list(await admin.list_topics())
    finally:
        await admin.close()
    async with open_redis(settings) as redis:
        keys = [as_text(key) async for key in redis.scan_iter(match=f"{prefix}*", count=500)]
    async with open_qdrant(settings) as qdrant:
        collections = await qdrant.collections()
    found = {"groups": groups, "topics": topics, "keys": keys, "collections": collections}
    return {kind: sorted(name for name in names if name.startswith(prefix)) for kind, names in found.items()}


def main() -> int:
    """Clean up after the prefix of the command line; returns 1 where something is left."""
    (prefix,) = sys.argv[1:]
    remove_everything(prefix)
    left = {kind: names for kind, names in asyncio.run(found_on(read_settings(), prefix)).items() if names}
    print(f"left on the servers of {prefix}: {left or 'nothing'}")
    return 1 if left else 0


if __name__ == "__main__":
    sys.exit(main())
