"""What was erased, in the files of Apache Kafka, Redis and Qdrant: gone once the topics that the receipt names are."""

import os
from collections.abc import Mapping
from pathlib import Path

import pytest
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

from eunoe.deploy.generations.erase.receipt import Receipt
from eunoe.streams.topics import Topic
from tests.broker.test_erased_bytes import PART, WHOLE, WORDS, events, whats
from tests.support.apache import FILES
from tests.support.byte_search import Found, needles, search_files
from tests.support.command import until
from tests.support.pipeline import Pipeline, sealed_pipeline

pytestmark = [pytest.mark.broker, pytest.mark.slow, pytest.mark.timeout(400), pytest.mark.needs("broker-files")]

PLAIN = (Topic.CONVERSATIONS, Topic.REPLIES)
"""Topics that clients of any language write and read."""
SOON = {"retention.ms": "1000", "segment.ms": "1000", "file.delete.delay.ms": "100"}


def topics_with(found: Mapping[str, set[Found]], pipeline: Pipeline) -> set[str]:
    """The topics of this pipeline, and other folders, in whose files something was found."""
    names = {pipeline.settings.names.name(topic): str(topic) for topic in Topic}
    folders = [Path(name).parts for name in found]
    return {names.get(parts[3].rpartition("-")[0], parts[3]) if parts[0] == "kafka" else parts[0] for parts in folders}


async def test_kafkas_files_hold_what_was_erased_only_where_the_receipt_says_so(pipeline: Pipeline) -> None:
    sealed, servers = sealed_pipeline(pipeline), Path(os.environ[FILES]).parents[2]
    wanted = needles(WORDS, {})
    async with sealed.up():
        await sealed.produce(*events())
        await sealed.remembered(2, PART)
        await sealed.remembered(1, WHOLE)
        found = search_files([servers], wanted)
        assert whats(found) == WORDS.keys(), "else the search is blind"
        unsaid = await sealed.eunoe("erase", PART, "--utterance", WORDS["an id"], "--utterance", "u3")
        assert unsaid.code == 0, unsaid.err
        whole = await sealed.eunoe("erase", WHOLE)
        assert whole.code == 0, whole.err
        assert topics_with(search_files([servers], wanted), sealed) == set(map(str, PLAIN))
        named = {one.place for one in Receipt.from_json(whole.out).not_covered}
        assert named >= {"kafka: conversations", "kafka: replies"}
        await shorten(sealed)

        async def gone() -> bool:
            return not search_files([servers], wanted)

        await until(gone, 90, lambda: str(search_files([servers], wanted)))


async def shorten(pipeline: Pipeline) -> None:
    """Let the retention of the plain topics pass within seconds."""
    admin = AIOKafkaAdminClient(bootstrap_servers=pipeline.settings.kafka_settings.servers)
    await admin.start()
    try:
        names = [pipeline.settings.names.name(topic) for topic in PLAIN]
        await admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, name, SOON) for name in names])
    finally:
        await admin.close()
