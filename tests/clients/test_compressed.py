"""Producers in Java, Node and librdkafka with every codec that they have: what they say is remembered and asked."""

import asyncio
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from eunoe.schemas.events import Utterance
from eunoe.streams.client import Connection, MemoryClient
from eunoe.streams.topics import Topic
from tests.support.in_memory import ended, utterance
from tests.support.kafka.jars import fetch_jars, find_java
from tests.support.pipeline import PARTITIONS, Pipeline
from tests.support.wire import CODECS, HostileProducer, HostileRecord

pytestmark = [pytest.mark.broker, pytest.mark.timeout(300)]

FILES = Path(__file__).parent / "compressed"
CODECS_OF = {
    "librdkafka": CODECS,
    "Java": CODECS,
    "Node": ("none", "gzip", "snappy"),  # KafkaJS has gzip, a plugin snappy; lz4 and zstd need native code
}
"""Producer → the codecs that it has."""


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Sequence[str]]:
    """The command line of each language's program, without its arguments."""
    folder = tmp_path_factory.mktemp("compressed") / "files"
    shutil.copytree(FILES, folder)
    jars = fetch_jars()
    install = ["npm", "ci", "--prefer-offline", "--no-audit", "--no-fund", "--ignore-scripts"]
    subprocess.run(install, cwd=folder, check=True, capture_output=True, timeout=120)
    compile_ = [find_java("javac"), "-Xlint:all", "-Werror", "-cp", f"{jars}/*", "-d", ".", "Compressed.java"]
    subprocess.run(compile_, cwd=folder, check=True, capture_output=True, timeout=120)
    return {
        "Java": [find_java(), "-XX:TieredStopAtLevel=1", "-cp", f"{jars}/*:{folder}", "Compressed"],
        "Node": ["node", str(folder / "produce.mjs")],
    }


def session(name: str) -> list[Utterance]:
    """Utterances that compress well, and of which the first is asked about."""
    said = f"My sister moved to Town{name.replace('-', '')} because of her job. "
    return [utterance(number, said * (1 if number == 1 else 60), conversation=name) for number in range(1, 9)]


async def produce(program: Sequence[str], pipeline: Pipeline, name: str, codec: str) -> None:
    values = [event.to_json() for event in (*session(name), ended(conversation=name))]
    arguments = (*pipeline.conversations, f"default/{name}", codec)
    process = await asyncio.create_subprocess_exec(
        *program,
        *arguments,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    told, _ = await asyncio.wait_for(process.communicate(b"\n".join(values)), 90)
    assert process.returncode == 0, f"{name}: {told.decode()[-2000:]}"


def produce_by_librdkafka(pipeline: Pipeline, name: str, codec: str) -> None:
    settings = pipeline.settings
    producer = HostileProducer(settings.kafka_settings, settings.names, PARTITIONS)
    events = (*session(name), ended(conversation=name))
    sent = producer.send(
        HostileRecord(name, event.to_json(), f"default/{name}".encode(), codec=codec) for event in events
    )
    assert len(sent) == len(events), producer.refused


async def ask(connection: Connection, name: str) -> str:
    client = MemoryClient(connection, conversation_id=name)
    reply = await client.ask("Where did my sister move?", speaker="Ann", record=False, timeout=90)
    return reply.text


@pytest.mark.needs("idempotence", "java", "node")
async def test_every_codec_of_every_client_is_remembered_and_answered(
    pipeline: Pipeline, programs: Mapping[str, Sequence[str]]
) -> None:
    names = {f"{maker}-{codec}": (maker, codec) for maker, codecs in CODECS_OF.items() for codec in codecs}
    async with pipeline.up():
        for name, (maker, codec) in names.items():
            if maker == "librdkafka":
                produce_by_librdkafka(pipeline, name, codec)
        others = [(name, *wanted) for name, wanted in names.items() if wanted[0] in programs]
        for at in range(0, len(others), 3):  # three processes at once
            made = (produce(programs[maker], pipeline, name, codec) for name, maker, codec in others[at : at + 3])
            await asyncio.gather(*made)
        settings = pipeline.settings
        async with Connection(settings.kafka_settings, settings.names) as connection:
            for name in names:
                view = await pipeline.remembered(1, name)
                lines = [line.utterance_id for segment in view.segments for line in segment.lines]
                assert lines == [event.utterance_id for event in session(name)], name
                assert f"Town{name.replace('-', '')}" in await ask(connection, name)
        assert await pipeline.records(Topic.DEAD_LETTERS) == []
    packed = {codec for _, codec in names.values()}
    assert packed == set(CODECS)
