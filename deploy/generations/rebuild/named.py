"""Checks that the log holds the conversations that a rebuild names."""

from collections.abc import AsyncIterator, Collection
from contextlib import aclosing

from eunoe.deploy.generations.rebuild.plan import RebuildPlan
from eunoe.deploy.settings import Settings
from eunoe.schemas.errors import Refused
from eunoe.streams.log_reader import log_topics
from eunoe.streams.reader import partitions_of, read_partition
from eunoe.streams.record import Record
from eunoe.streams.settings import partition_of
from eunoe.streams.topics import Topic


async def check_named(settings: Settings, plan: RebuildPlan) -> None:
    """Raise `Refused` where the log holds no record of a conversation that the plan names.

    A wrong id would make a generation without memory. Reads each partition up to the first records of those named.
    Raises `Unavailable` when no broker answers.
    """
    if not plan.conversations:
        return
    lacking: set[str] = set()
    for partition, keys in (await _by_partition(settings, plan.conversations)).items():
        lacking |= await _absent(settings, partition, keys)
    if lacking:
        raise Refused(
            f"the log holds nothing of {', '.join(sorted(lacking))} (tenant/conversation): nothing was made."
            " `eunoe state --all` lists the conversations; --tenant names their tenant"
        )


async def _by_partition(settings: Settings, keys: Collection[str]) -> dict[int, set[str]]:
    (partitions,) = await partitions_of(settings.kafka_settings, settings.names, [Topic.CONVERSATIONS])
    found: dict[int, set[str]] = {}
    for key in keys:
        found.setdefault(partition_of(key.encode(), partitions), set()).add(key)
    return found


async def _absent(settings: Settings, partition: int, keys: set[str]) -> set[str]:
    for topic in log_topics(settings.names):
        async with aclosing(read_partition(settings.kafka_settings, settings.names, topic, partition)) as records:
            keys = await without_seen(keys, records)
    return keys


async def without_seen(keys: Collection[str], records: AsyncIterator[Record]) -> set[str]:
    """The ``keys`` of which there is no record; reads ``records`` no further than it must."""
    left = {key.encode(): key for key in keys}
    while left and (record := await anext(records, None)) is not None:
        if record.key is not None:
            left.pop(record.key, None)
    return set(left.values())
