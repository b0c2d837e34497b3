"""Qdrant comes back without its data: workers say so, nobody is answered from nothing, and a command restores it."""

import asyncio
import json
import shutil
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from eunoe.deploy.clients.bootstrap import open_qdrant
from eunoe.deploy.clients.models import open_embedder
from eunoe.deploy.clients.shared import open_store, store_keys
from eunoe.deploy.datasets.load import read_events
from eunoe.deploy.demo.bundled import CONVERSATION
from eunoe.streams.client import Connection, MemoryClient
from eunoe.workers.derive.in_memory import InMemoryPipeline
from eunoe.workers.stores.vectors.qdrant import QdrantIndex
from tests.support.bystanders import drained
from tests.support.command import until
from tests.support.pipeline import Pipeline, shared_pipeline
from tests.support.servers import QdrantProcess, local_qdrant
from tests.support.session import SessionServers, variables
from tests.support.whole_state import ConversationState, read_states
from tests.support.workers import Worker

pytestmark = [
    pytest.mark.broker,
    pytest.mark.slow,
    pytest.mark.embedded("removes the data of its Qdrant"),
    pytest.mark.timeout(300),
]

NAME, OTHER = "mina-and-jonas", "lea-and-tom"
KEY, OTHER_KEY = f"default/{NAME}", f"default/{OTHER}"
LINES = CONVERSATION.read_text().splitlines(keepends=True)
OTHERS = [line.replace(NAME, OTHER) for line in LINES]
SESSIONS = 5
QUESTIONS = CONVERSATION.with_name("questions.jsonl")
ASKED = [json.loads(line) for line in QUESTIONS.read_text().splitlines()]
NOTICED_S = 30.0
"""The time within which readiness and the log must tell."""
LOST = "Qdrant came back without its data"

Recalled = list[tuple[str, tuple[str, ...]]]
"""The replies to all questions: text, and the utterances cited."""


@dataclass
class Place:
    """A worker of all stages, whose Qdrant is its own."""

    pipeline: Pipeline
    qdrant: QdrantProcess
    connection: Connection
    workers: list[Worker] = field(default_factory=list)

    @property
    def worker(self) -> Worker:
        """The one that runs."""
        return self.workers[-1]

    async def start(self) -> None:
        """Start a worker; it may not be ready yet."""
        log = self.pipeline.cwd / f"worker-{len(self.workers)}.log"
        self.workers.append(Worker(("all",), log, self.pipeline.variables))
        await self.worker.start()

    def lose(self) -> None:
        """Remove the data folder."""
        shutil.rmtree(self.qdrant.directory)

    async def recall(self) -> Recalled:
        """Ask all questions at once, as no part of the conversation."""
        client = MemoryClient(self.connection, conversation_id=NAME)
        asks = (client.ask(one["question"], speaker=one["speaker"], record=False, timeout=120.0) for one in ASKED)
        replies = await asyncio.gather(*asks)
        assert [reply.error for reply in replies if reply.error] == []
        return [(reply.text, tuple(reply.cited)) for reply in replies]

    async def state(self, key: str) -> dict[str, Any]:
        """All that is remembered, once nothing is left to do; a point that disagrees is an error."""
        await drained(self.pipeline)
        settings = self.pipeline.settings
        async with open_store(settings) as store, open_qdrant(settings) as qdrant:
            (state,) = await read_states(store, QdrantIndex(qdrant, store_keys(settings)), [key])
        assert (list(state.findings), list(state.unfinished)) == ([], [])
        return memory_in(state)

    async def notices(self) -> None:
        """Wait until readiness and the log name the loss and the command."""

        async def told() -> bool:
            status, report = await self.worker.health("ready")
            named = any(LOST in why and "eunoe reindex" in why for why in report.get("why", ()))
            return status == 503 and named and self.worker.lines_with(LOST) > 0

        await until(told, NOTICED_S, self.worker.said)

    async def reindex(self, **more: str) -> dict[str, Any]:
        """Run `eunoe reindex` to its end."""
        done = await self.pipeline.eunoe("reindex", "--json", **more)
        assert done.code == 0, done.err
        found: dict[str, Any] = done.json
        return found

    async def refuses(self, *words: str) -> None:
        """Assert that a command refuses the generation in one line that says what to do."""
        result = await self.pipeline.eunoe(*words)
        assert (result.code, len(result.err.strip().splitlines())) == (2, 1), (result.code, result.err)
        assert LOST in result.err
        assert "eunoe reindex`" in result.err


@pytest.fixture
async def place(servers: SessionServers, tmp_path: Path) -> AsyncIterator[Place]:
    """All of a conversation is remembered."""
    shared = shared_pipeline(tmp_path, servers)
    with local_qdrant(tmp_path / "qdrant") as qdrant:
        settings = shared.base.model_copy(update={"qdrant_url": qdrant.url})
        pipeline = replace(shared, base=settings, variables=variables(settings))
        async with pipeline.servers(), Connection(settings.kafka_settings, settings.names) as connection:
            made = Place(pipeline, qdrant, connection)
            await made.start()
            try:
                await made.worker.until_status("ready", 200)
                await pipeline.produce(*LINES)
                await pipeline.remembered(SESSIONS, NAME)
                yield made
            finally:
                for worker in made.workers:
                    await worker.over()


def memory_in(state: ConversationState) -> dict[str, Any]:
    """The digested state without intake's, which counts the asks: what these tests ask would make another digest."""
    return {stage: part for stage, part in state.digest.state.items() if stage != "intake"}


async def undisturbed(pipeline: Pipeline, key: str) -> dict[str, Any]:
    """The memory of the events that were produced last, without servers."""
    async with AsyncExitStack() as closing:
        embedder = await open_embedder(pipeline.settings, {}, closing)
        alone = InMemoryPipeline(embedder, pipeline.settings.stages)
        await alone.produce(*read_events(pipeline.cwd / "events.jsonl"))
        (state,) = await read_states(alone.store, alone.index, [key])
    return memory_in(state)


async def lost_under_load(place: Place, recalled: Recalled) -> None:
    """The data goes while questions are asked and another conversation becomes memory."""
    producing = asyncio.create_task(place.pipeline.produce(*OTHERS))
    place.lose()
    asking = asyncio.create_task(place.recall())
    await place.notices()
    await producing
    await place.refuses("promote", "v2")
    await place.refuses("diff", "v1", "v2", "--conversation", NAME)
    assert not asking.done(), "asks were answered from an index that is not there"
    assert (await place.reindex())["was_lost"]
    assert await asking == recalled
    await place.pipeline.remembered(SESSIONS, OTHER)


async def lost_between_restarts(place: Place, recalled: Recalled) -> None:
    """The data goes while neither a worker nor Qdrant runs."""
    assert await place.worker.stop() == 0
    place.qdrant.stop()
    place.lose()
    place.qdrant.start()
    await place.start()
    asking = asyncio.create_task(place.recall())
    await place.notices()
    assert not asking.done(), "asks were answered from an empty index"
    found = await place.reindex()
    assert (found["was_lost"], found["conversations"], found["restored"]) == (True, 2, 2)
    assert await asking == recalled


async def test_lost_data_is_noticed_waited_for_and_restored(place: Place):
    pipeline = place.pipeline
    built = await pipeline.eunoe("rebuild", "--into", "v2", "--json")
    assert built.code == 0, built.err
    recalled, memory = await place.recall(), await place.state(KEY)
    for lose in (lost_under_load, lost_between_restarts):
        await lose(place, recalled)
        await place.worker.until_status("ready", 200)
        assert await place.state(KEY) == memory
        assert await place.state(OTHER_KEY) == await undisturbed(pipeline, OTHER_KEY)
        assert await place.recall() == recalled
    second = await place.reindex(EUNOE_GENERATION="v2")
    assert (second["was_lost"], second["conversations"], second["restored"]) == (True, 1, 1)
    compared = await pipeline.eunoe("diff", "v1", "v2", "--conversation", NAME, "--json")
    kinds = compared.json["kinds"]
    assert kinds, compared.err
    assert [kind for kind, found in kinds.items() if found["only_old"] or found["only_new"] or found["changed"]] == []
    assert [worker.lines_with("dead letter") for worker in place.workers] == [0, 0]
