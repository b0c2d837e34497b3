"""The retention of `conversations` where a key store is set: when it is given."""

from collections.abc import Mapping

import pytest

from eunoe.streams.admin import create_topics
from eunoe.streams.topic_settings import check_alterable, describe_topics, retention_of, set_retention
from eunoe.streams.topics import Topic
from tests.support.pipeline import Pipeline, sealed_pipeline

pytestmark = [pytest.mark.broker, pytest.mark.timeout(300)]

DAY_MS = 24 * 3_600_000


async def create(pipeline: Pipeline) -> None:
    settings = pipeline.settings
    await create_topics(settings.kafka_settings, settings.names, settings.partitions, settings.replication)


async def kept(pipeline: Pipeline, topic: Topic = Topic.CONVERSATIONS) -> int | None:
    settings = pipeline.settings
    return await retention_of(settings.kafka_settings, settings.names.name(topic))


async def test_a_new_door_is_kept_for_a_day_and_the_log_for_ever(pipeline: Pipeline) -> None:
    sealed = sealed_pipeline(pipeline)
    await create(sealed)
    assert (await kept(sealed), await kept(sealed, Topic.LOG)) == (DAY_MS, -1)


@pytest.mark.needs("append-time")
async def test_an_older_log_keeps_its_retention_until_it_is_sealed(pipeline: Pipeline) -> None:
    await create(pipeline)
    sealed = sealed_pipeline(pipeline)
    await create(sealed)
    assert await kept(sealed) == -1
    settings = sealed.settings
    before = await described(sealed)
    await check_alterable(settings.kafka_settings, settings.names.name(Topic.CONVERSATIONS))
    assert await described(sealed) == before
    await set_retention(settings.kafka_settings, settings.names.name(Topic.CONVERSATIONS), DAY_MS)
    config = await described(sealed)
    assert (config["retention.ms"], config["message.timestamp.type"]) == (str(DAY_MS), "LogAppendTime")


async def described(pipeline: Pipeline) -> Mapping[str, str]:
    """The settings of `conversations`."""
    settings = pipeline.settings
    found = {one.name: one.config for one in await describe_topics(settings.kafka_settings)}
    return found[settings.names.name(Topic.CONVERSATIONS)]
