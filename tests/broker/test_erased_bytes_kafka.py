"""What was erased, in the files of Apache Kafka, Redis and Qdrant: gone once the topics that the receipt names are."""

import os
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


def searched(pipeline: Pipeline) -> dict[str, set[Found]]:
    """Topic or server → what its files hold of the words; the topics of other tests are left out."""
    data, own = Path(os.environ[FILES]), pipeline.settings.names
    names = {own.name(topic): str(topic) for topic in Topic}
    folders = [data.parents[2] / "valkey", data.parents[2] / "qdrant"]
    folders += [one for one in data.iterdir() if one.is_dir() and not is_of_others(one.name, pipeline)]
    found: dict[str, set[Found]] = {}
    for folder in folders:
        for some in search_files([folder], needles(WORDS, {})).values():
            name = folder.name.rpartition("-")[0]
            found.setdefault(names.get(name, folder.name), set()).update(some)
    return found


def is_of_others(folder: str, pipeline: Pipeline) -> bool:
    return folder.startswith("test-") and not folder.startswith(f"{pipeline.settings.prefix}.")


async def test_kafkas_files_hold_what_was_erased_only_where_the_receipt_says_so(pipeline: Pipeline) -> None:
    sealed = sealed_pipeline(pipeline)
    async with sealed.up():
        await sealed.produce(*events())
        await sealed.remembered(2, PART)
        await sealed.remembered(1, WHOLE)
        assert whats(searched(sealed)) == WORDS.keys(), "else the search is blind"
        unsaid = await sealed.eunoe("erase", PART, "--utterance", WORDS["an id"], "--utterance", "u3")
        assert unsaid.code == 0, unsaid.err
        whole = await sealed.eunoe("erase", WHOLE)
        assert whole.code == 0, whole.err
        assert searched(sealed).keys() == set(map(str, PLAIN))
        named = {one.place for one in Receipt.from_json(whole.out).not_covered}
        assert named >= {"kafka: conversations", "kafka: replies"}
        await shorten(sealed)

        async def gone() -> bool:
            return not searched(sealed)

        await until(gone, 90, lambda: str(searched(sealed)))


async def shorten(pipeline: Pipeline) -> None:
    """Let the retention of the plain topics pass within seconds."""
    admin = AIOKafkaAdminClient(bootstrap_servers=pipeline.settings.kafka_settings.servers)
    await admin.start()
    try:
        names = [pipeline.settings.names.name(topic) for topic in PLAIN]
        await admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, name, SOON) for name in names])
    finally:
        await admin.close()
