"""A gateway over the pipeline in memory, called in this process or served on a free port."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx

from eunoe.deploy.gateway.app import GatewayApp
from eunoe.deploy.gateway.calls import Gateway
from eunoe.deploy.gateway.credentials import Credentials, TokenChecker
from eunoe.deploy.gateway.erasures import ErasurePlan
from eunoe.deploy.gateway.keys import KeyFile, KeyPlan, KeyScope, new_key
from eunoe.deploy.gateway.letters import LetterIndex
from eunoe.deploy.gateway.limits import ProcessLimiter
from eunoe.deploy.gateway.open_requests import OpenRequests
from eunoe.deploy.gateway.ports import LiveState
from eunoe.deploy.gateway.server import serving
from eunoe.deploy.settings.sections import GatewaySettings
from eunoe.schemas.erasure import ErasureRequest
from eunoe.schemas.errors import Unavailable
from eunoe.schemas.events import ConversationEvent
from eunoe.schemas.identity import conversation_key
from eunoe.schemas.ports import StateStore
from eunoe.streams.feed import Subscription, Takes
from eunoe.streams.memory_log import MemoryLog
from eunoe.streams.record import Record, RecordPlace
from eunoe.streams.topics import Topic
from eunoe.workers.derive.in_memory import InMemoryPipeline, as_message
from eunoe.workers.stores.records.generations import Listed, listed
from tests.support.in_memory import make_pipeline
from tests.support.memory.erasures import MemoryErasures
from tests.support.memory.generations import MemoryGenerations
from tests.support.memory.process_records import MemoryRecords

ALL = frozenset(KeyScope)


class InMemoryGatewayLog:
    """`GatewayLog` over the log of a pipeline in memory, which handles each event at once."""

    def __init__(self, pipeline: InMemoryPipeline) -> None:
        self.pipeline = pipeline
        self.away = False
        self.lagging = False
        """Whether the stages handle nothing until `catch_up`."""
        self.healthy = True
        self._handed: dict[tuple[Topic, int], int] = {}
        self._subscriptions: list[tuple[Topic, Subscription]] = []
        self._working = asyncio.Lock()

    @property
    def log(self) -> MemoryLog:
        return self.pipeline.log

    @property
    def publisher(self) -> "InMemoryGatewayLog":
        return self

    async def publish(self, messages: Sequence[object]) -> object:
        self._check()
        places = await self.log.publish(messages)
        await self._work()
        return places

    async def append(self, events: Sequence[ConversationEvent]) -> list[RecordPlace]:
        self._check()
        places = await self.log.publish([as_message(event) for event in events])
        await self._work()
        return places

    async def catch_up(self) -> None:
        """Let the stages handle what is left, and hand out what they publish."""
        self.lagging = False
        await self._work()

    def begin_anew(self, topic: Topic) -> None:
        """Lose all records of a topic that no stage reads, as with a broker that was started again."""
        self.log._logs[topic] = [[] for _ in range(self.log.partitions)]
        self._handed = {place: offset for place, offset in self._handed.items() if place[0] != topic}

    async def _work(self) -> None:
        async with self._working:
            if not self.lagging:
                await self.pipeline.run_until_idle()
        for topic in (Topic.REPLIES, Topic.CHANGES):
            for partition in range(self.log.partitions):
                place = (topic, partition)
                while (record := self.log.after(topic, partition, self._handed.get(place, 0))) is not None:
                    self._handed[place] = record.offset + 1
                    for wanted, subscription in self._subscriptions:
                        if wanted == topic and partition in subscription.begin:
                            subscription.offer(record)

    async def partitions(self, topic: Topic) -> int:
        del topic
        return self.log.partitions

    def end(self, topic: Topic, partition: int) -> int:
        return len([record for record in self.log.records(topic) if record.partition == partition])

    @asynccontextmanager
    async def subscribe(
        self, topic: Topic, begin: Mapping[int, int | None], takes: Takes
    ) -> AsyncIterator[Subscription]:
        self._check()
        now = {partition: self.end(topic, partition) for partition in begin}
        lost_place = any(offset is not None and offset > now[partition] for partition, offset in begin.items())
        places = dict.fromkeys(begin) if lost_place else begin
        wanted = {partition: now[partition] if offset is None else offset for partition, offset in places.items()}
        subscription = Subscription(takes, wanted, lost_place=lost_place)
        for partition, offset in wanted.items():
            for record in await self._between(topic, partition, offset):
                subscription.offer(record)
        entry = (topic, subscription)
        self._subscriptions.append(entry)
        try:
            yield subscription
        finally:
            self._subscriptions.remove(entry)

    async def _between(self, topic: Topic, partition: int, begin: int) -> list[Record]:
        return [each for each in self.log.records(topic) if each.partition == partition and each.offset >= begin]

    async def offset_at(self, topic: Topic, partition: int, time: datetime) -> int:
        self._check()
        del topic, partition, time
        return 0

    async def read_one(self, topic: str, partition: int, offset: int) -> Record | None:
        self._check()
        return self.log.after(topic, partition, offset)

    async def read_range(self, topic: Topic, partition: int, begin: int) -> AsyncGenerator[Record]:
        self._check()
        for record in await self._between(topic, partition, begin):
            yield record

    async def read_all(self, topic: Topic, begin: Mapping[int, int]) -> AsyncGenerator[Record]:
        self._check()
        for record in self.log.records(topic):
            if record.offset >= begin.get(record.partition, 0):
                yield record

    def _check(self) -> None:
        if self.away:
            raise Unavailable("the broker is away", "Kafka at nowhere:1")


@dataclass
class InMemoryNotes:
    """`Notes`."""

    texts: dict[str, str] = field(default_factory=dict)
    away: bool = False

    async def claim(self, name: str, text: str, seconds: int) -> str | None:
        del seconds
        self._check()
        before = self.texts.get(name)
        self.texts.setdefault(name, text)
        return before

    async def write(self, name: str, text: str, seconds: int) -> None:
        del seconds
        self._check()
        self.texts[name] = text

    async def read(self, name: str) -> str | None:
        self._check()
        return self.texts.get(name)

    def _check(self) -> None:
        if self.away:
            raise Unavailable("Redis is away", "Redis at nowhere:1")


@dataclass
class InMemoryStates:
    """`LiveStates`."""

    state: LiveState
    away: bool = False
    book: MemoryGenerations = field(default_factory=MemoryGenerations)
    others: dict[str, StateStore] = field(default_factory=dict)
    """The states of generations that are not live."""

    async def live(self) -> LiveState:
        if self.away:
            raise Unavailable("Redis is away", "Redis at nowhere:1")
        return self.state

    async def generations(self) -> list[Listed]:
        return await listed(self.book)

    async def store_of(self, generation: str) -> StateStore:
        return self.others.get(generation, self.state.store)


class InMemoryPlans:
    """`ErasurePlans` that count what a request names."""

    async def plan(self, tenant: str, conversation_id: str, request: ErasureRequest) -> ErasurePlan:
        assert request.key == conversation_key(tenant, conversation_id)
        count = len(request.utterance_ids)
        return ErasurePlan(level=request.erases, utterances=count, places={"redis:update/memories": count})


@dataclass
class TestGateway:
    """A gateway, its parts, and keys for it."""

    __test__ = False

    app: GatewayApp
    log: InMemoryGatewayLog
    notes: InMemoryNotes
    states: InMemoryStates
    keys: KeyFile

    @property
    def pipeline(self) -> InMemoryPipeline:
        return self.log.pipeline

    def begin_anew(self) -> None:
        """The gateway after a start of `eunoe up`: answers given before are gone, and the state is what it was."""
        self.log.begin_anew(Topic.REPLIES)
        self.app.gateway = replace(self.app.gateway, epoch=self.app.gateway.epoch + 1)

    def key(self, tenant: str = "acme", scopes: frozenset[KeyScope] = ALL, **more: object) -> str:
        """A new key."""
        secret, kept = new_key(KeyPlan(tenant, scopes, **more), datetime.now(UTC))
        self.keys.add(kept)
        return secret

    def client(self, tenant: str = "acme", **more: object) -> httpx.AsyncClient:
        """A client that calls the application in this process, with a key of its own."""
        transport = httpx.ASGITransport(app=self.app)
        headers = {"Authorization": f"Bearer {self.key(tenant, **more)}"}
        return httpx.AsyncClient(transport=transport, base_url="http://gateway", headers=headers, timeout=20)

    @asynccontextmanager
    async def served(self, tenant: str = "acme", **more: object) -> AsyncIterator[httpx.AsyncClient]:
        """A client over a real connection, for streams."""
        headers = {"Authorization": f"Bearer {self.key(tenant, **more)}"}
        async with (
            serving(self.app, "127.0.0.1:0") as url,
            httpx.AsyncClient(base_url=url, headers=headers, timeout=20) as client,
        ):
            yield client


def make_gateway(
    folder: Path,
    settings: GatewaySettings | None = None,
    tokens: TokenChecker | None = None,
    pipeline: InMemoryPipeline | None = None,
    processes: MemoryRecords | None = None,
) -> TestGateway:
    """A gateway over a pipeline in memory, a new one unless it is given."""
    pipeline = pipeline or make_pipeline()
    log, notes = InMemoryGatewayLog(pipeline), InMemoryNotes()
    states = InMemoryStates(LiveState("v1", 0, pipeline.store, pipeline.log_positions, pipeline.index))
    keys = KeyFile(folder / "keys.json")
    own = settings or GatewaySettings()
    gateway = Gateway(
        settings=own,
        prefix="test",
        log=lambda: log,
        states=states,
        notes=notes,
        limiter=ProcessLimiter(),
        credentials=Credentials(keys, tokens),
        letters=LetterIndex(lambda: log),
        streams=OpenRequests(own, "open streams"),
        waits=OpenRequests(own, "waiting requests"),
        processes=processes or MemoryRecords(),
        erasures=MemoryErasures(),
        plans=InMemoryPlans(),
    )
    return TestGateway(GatewayApp.with_mcp(gateway), log, notes, states, keys)


SESSION = (
    {
        "type": "utterance",
        "utterance_id": "u1",
        "speaker": "Ann",
        "text": "I moved to Lyon in March.",
        "session_id": "s1",
    },
    {
        "type": "utterance",
        "utterance_id": "u2",
        "speaker": "Ben",
        "text": "Is the flat in Lyon nice?",
        "session_id": "s1",
    },
    {
        "type": "utterance",
        "utterance_id": "u3",
        "speaker": "Ann",
        "text": "The flat has a big balcony.",
        "session_id": "s1",
    },
    {"type": "session_ended", "session_id": "s1"},
)
LATER = (
    {
        "type": "utterance",
        "utterance_id": "u4",
        "speaker": "Ann",
        "text": "I moved to Rome in June.",
        "session_id": "s2",
    },
    {
        "type": "utterance",
        "utterance_id": "u5",
        "speaker": "Ann",
        "text": "My sister Eva works in Rome.",
        "session_id": "s2",
    },
    {"type": "session_ended", "session_id": "s2"},
)


async def told(
    client: httpx.AsyncClient, conversation: str = "c", events: Sequence[Mapping[str, object]] = SESSION
) -> list[dict[str, Any]]:
    """Add events; returns the answers."""
    answers = []
    for event in events:
        found = await client.post(f"/v1/conversations/{conversation}/events", json=event)
        assert found.status_code == 202, found.text
        answers.append(found.json())
    return answers
