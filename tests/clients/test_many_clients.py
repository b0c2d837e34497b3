"""Many clients at once: in one conversation, and each in its own."""

import asyncio
import itertools
import sys
from asyncio.subprocess import PIPE, Process
from collections import Counter
from collections.abc import Iterator, Set
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

from eunoe.schemas.events import ConversationEvent, Utterance
from eunoe.streams.client import MemoryClient
from eunoe.streams.codec import decode
from eunoe.streams.settings import KafkaSettings
from eunoe.streams.topics import Topic
from tests.support.pipeline import Pipeline, pipeline_at_work
from tests.support.session import SessionServers

pytestmark = [pytest.mark.broker, pytest.mark.timeout(400)]

ROOT = Path(__file__).parents[2]
WRITERS = ("Ann", "Bea", "Cem", "Dag")
EACH = 40
STORY = "story"
CLIENTS = 200


@asynccontextmanager
async def writer(pipeline: Pipeline, name: str):
    """A process that writes as soon as it is told to."""
    settings = pipeline.settings
    arguments = (settings.kafka_settings.to_json().decode(), settings.prefix, STORY, name, str(EACH))
    command = (sys.executable, "-m", "tests.support.writer_process", *arguments)
    process = await asyncio.create_subprocess_exec(*command, cwd=ROOT, stdin=PIPE, stdout=PIPE)
    try:
        assert process.stdout is not None
        assert await asyncio.wait_for(process.stdout.readline(), 150) == b"ready\n"
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def end_of(process: Process) -> int:
    await process.communicate(b"go\n")
    assert process.returncode is not None
    return process.returncode


@pytest.fixture(scope="module")
def pipeline(servers: SessionServers, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pipeline]:
    """One worker for both tests; none of them writes where the other does."""
    with pipeline_at_work(tmp_path_factory.mktemp("pipeline"), servers) as running:
        yield running


async def said_in(pipeline: Pipeline, names: Set[str]) -> list[ConversationEvent]:
    """The events of these conversations, in log order of each."""
    found = [decode(record.value) for record in await pipeline.records(Topic.CONVERSATIONS)]
    return [event for event in found if isinstance(event, ConversationEvent) and event.conversation_id in names]


async def test_processes_that_write_one_conversation_at_once_make_one_story(pipeline: Pipeline):
    async with AsyncExitStack() as closing:
        starts = (closing.enter_async_context(writer(pipeline, name)) for name in WRITERS)
        processes = await asyncio.gather(*starts)
        assert await asyncio.gather(*(end_of(process) for process in processes)) == [0] * len(WRITERS)
    settings = pipeline.settings
    async with MemoryClient(settings.kafka_settings, conversation_id=STORY, names=settings.names) as memory:
        await memory.end_session()
    events = await said_in(pipeline, {STORY})
    view = await pipeline.everything_remembered(STORY)
    assert await pipeline.records(Topic.DEAD_LETTERS) == []
    logged = [event.utterance_id for event in events if isinstance(event, Utterance)]
    told = [line.utterance_id for segment in view.segments for line in segment.lines]
    assert told == logged, "the memory's order is not the log's"
    for name in WRITERS:
        assert [one for one in told if one.startswith(name)] == [f"{name}-{number}" for number in range(EACH)]
    assert len(told) == len(WRITERS) * EACH
    assert sorted({segment.session for segment in view.segments}) == list(range(1, view.head.closed + 1))
    print(f"\n{len(told)} utterances of {len(WRITERS)} writers, {changes(logged)} changes of writer, ", end="")
    print(f"{view.head.closed} sessions")


def changes(logged: list[str]) -> int:
    return sum(one[:3] != other[:3] for one, other in itertools.pairwise(logged))


@pytest.mark.slow
async def test_two_hundred_clients_ask_at_once_and_each_gets_its_own_reply(pipeline: Pipeline):
    settings = pipeline.settings
    kafka = settings.kafka_settings

    async def chat(number: int, kafka: KafkaSettings) -> str:
        async with MemoryClient(kafka, conversation_id=f"c{number}", names=settings.names) as memory:
            await memory.utter(f"My sister lives in Town{number}X.", speaker="Ann")
            return (await memory.ask("Where does my sister live?", speaker="Ann", timeout=150)).text

    replies = await asyncio.gather(*(chat(number, kafka) for number in range(CLIENTS)))
    events = await said_in(pipeline, {f"c{number}" for number in range(CLIENTS)})
    assert await pipeline.records(Topic.DEAD_LETTERS) == []

    for number, reply in enumerate(replies):
        assert f"Town{number}X" in reply
    logged = Counter(event.conversation_id for event in events)
    lacking = {name: count for name, count in logged.items() if count != 3}
    assert lacking == {}, "an utterance, an ask and the reply that was shown, of each"
    assert len(logged) == CLIENTS
