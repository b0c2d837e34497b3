"""The example producers of deploy/docs: Python, Java and Node say a session, and it becomes memory."""

import asyncio
import json
import re
import shutil
import subprocess
import sys
import time
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from aiokafka.partitioner import murmur2

from eunoe.schemas.identity import conversation_key
from eunoe.streams.record import Record
from eunoe.streams.settings import partition_of
from eunoe.streams.topics import Topic
from tests.support.kafka.jars import fetch_jars, find_java
from tests.support.log_contract import LogContract
from tests.support.pipeline import PARTITIONS, Pipeline

pytestmark = [pytest.mark.broker, pytest.mark.timeout(240)]

FILES = Path(__file__).parents[2] / "deploy" / "docs" / "producers"
TRAPS = "지민 & Ann/1 (*~!') +%"
"""What percent-encoders treat differently."""
TEXTS = [
    "Did you survive the football match? ⚽",
    "Barely. I twisted my knee and see a doctor on Monday.",
    "빨리 나아!",
]


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Sequence[str]]:
    """The command line of each language's program, without its three arguments."""
    folder = tmp_path_factory.mktemp("producers") / "files"
    shutil.copytree(FILES, folder)
    jars = fetch_jars()
    run("npm", "ci", "--prefer-offline", "--no-audit", "--no-fund", "--ignore-scripts", cwd=folder)
    javac = (find_java("javac"), "-encoding", "UTF-8", "-Xlint:all", "-Werror", "-cp", f"{jars}/*", "-d", ".")
    run(*javac, "Produce.java", cwd=folder)
    return {
        "Python": [sys.executable, str(folder / "produce.py")],
        "Java": [find_java(), "-XX:TieredStopAtLevel=1", "-cp", f"{jars}/*:{folder}", "Produce"],
        "Node": ["node", str(folder / "produce.mjs")],
    }


def telling(name: str) -> str:
    """A name like this one, whose key other partitioners (crc32, murmur2 without the mask) put elsewhere."""
    for number in range(1000):
        key = conversation_key("default", f"{name} {number}").encode()
        signed = (murmur2(key) ^ 1 << 31) - (1 << 31)
        others = {zlib.crc32(key) % PARTITIONS, abs(signed) % PARTITIONS}
        if partition_of(key, PARTITIONS) not in others:
            return f"{name} {number}"
    raise AssertionError("no key tells the partitioners apart")


def run(*command: str, cwd: Path) -> None:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, f"{command[0]}: {done.stdout[-1000:]} {done.stderr[-2000:]}"


async def say(program: Sequence[str], *arguments: str) -> None:
    process = await asyncio.create_subprocess_exec(
        *program, *arguments, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    try:
        told, _ = await asyncio.wait_for(process.communicate(), 90)
    finally:
        if process.returncode is None:
            process.kill()
    assert process.returncode == 0, f"{program[0]}: {told.decode()}"


def bodies(records: Sequence[Record], key: str) -> list[dict[str, Any]]:
    return [json.loads(record.value) for record in records if record.key == key.encode()]


def by_session(events: Sequence[Mapping[str, Any]]) -> list[str]:
    """The utterances of a log, session after session in the order of their ends: sessions may be open side by side."""
    ended = [event["session_id"] for event in events if event["type"] == "session_ended"]
    said = [event for event in events if event["type"] == "utterance"]
    return [event["utterance_id"] for session in ended for event in said if event["session_id"] == session]


@pytest.mark.needs("idempotence", "java", "node")
async def test_a_session_of_each_language_is_valid_in_its_place_and_becomes_memory(
    pipeline: Pipeline, programs: Mapping[str, Sequence[str]]
) -> None:
    conversations = {language: telling(f"{TRAPS} {language}") for language in programs}
    async with pipeline.up():
        where = pipeline.conversations
        await asyncio.gather(*(say(programs[language], *where, name) for language, name in conversations.items()))
        records = await pipeline.records(Topic.CONVERSATIONS)
        contract = LogContract(Topic.CONVERSATIONS)
        assert len(records) == len(programs) * (len(TEXTS) + 1)
        for record in records:
            contract.check(record)
            assert record.key is not None
            assert record.partition == partition_of(record.key, PARTITIONS)
            assert abs(record.timestamp_ms / 1000 - time.time()) < 120
        for language, name in conversations.items():
            key = conversation_key("default", name)
            events = bodies(records, key)
            assert [event.get("text") for event in events] == [*TEXTS, None], language
            view = await pipeline.remembered(1, key.partition("/")[2])
            lines = [line for segment in view.segments for line in segment.lines]
            assert [line.text for line in lines] == TEXTS, language
            assert [line.utterance_id for line in lines] == [event.get("utterance_id") for event in events[:-1]]
        assert await pipeline.records(Topic.DEAD_LETTERS) == []


@pytest.mark.needs("idempotence", "java", "node")
async def test_several_languages_write_one_conversation_and_the_log_decides(
    pipeline: Pipeline, programs: Mapping[str, Sequence[str]]
) -> None:
    key = conversation_key("default", TRAPS)
    async with pipeline.up():
        where = pipeline.conversations
        await asyncio.gather(*(say(program, *where, TRAPS) for program in programs.values() for _ in range(2)))
        events = bodies(await pipeline.records(Topic.CONVERSATIONS), key)
        view = await pipeline.everything_remembered(key.partition("/")[2])
        assert await pipeline.records(Topic.DEAD_LETTERS) == []
    utterances = by_session(events)
    assert len(utterances) == len(set(utterances)) == 2 * len(programs) * len(TEXTS)
    assert [line.utterance_id for segment in view.segments for line in segment.lines] == utterances
    assert sorted({segment.session for segment in view.segments}) == list(range(1, view.head.closed + 1))


def test_a_program_without_its_arguments_says_which(programs: Mapping[str, Sequence[str]]):
    for language, program in programs.items():
        done = subprocess.run(program, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout) == (2, ""), language
        assert re.fullmatch(r"usage: \S.* BOOTSTRAP TOPIC CONVERSATION\n", done.stderr), language


def test_the_document_shows_the_very_files():
    text = (FILES.parent / "producers.md").read_text()
    for kind, name in (("python", "produce.py"), ("java", "Produce.java"), ("js", "produce.mjs")):
        assert f"```{kind}\n{(FILES / name).read_text()}```\n" in text, name
