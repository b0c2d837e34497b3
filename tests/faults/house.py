"""A house under fault: its servers, its model, a process for every stage, and what can be done to them."""

import asyncio
from base64 import b64encode
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from pydantic import SecretStr

from eunoe.deploy.clients.connect import environment, on_stack
from eunoe.deploy.clients.shared import open_publisher, open_store, store_keys
from eunoe.deploy.local.notice import StackUrls
from eunoe.deploy.local.ports import HOST, free_port
from eunoe.deploy.local.servers import Server, ServerProcess, qdrant, tansu, valkey
from eunoe.deploy.settings import Settings
from eunoe.deploy.settings.sections import ColdSettings, KeySettings, Language
from eunoe.schemas.errors import Unavailable
from eunoe.streams.admin import create_topics
from eunoe.streams.publisher import KafkaPublisher
from eunoe.streams.record import Message
from eunoe.workers.registry import STAGES
from eunoe.workers.stores.state.redis_store import RedisStore
from tests.faults.workers import Nursery, Starter, Worker
from tests.support.command import until
from tests.support.kafka.cluster import KafkaCluster
from tests.support.model_server.server import ModelServer, ServerSettings
from tests.support.prompt_answers import PromptAnswers
from tests.support.valkeys import ValkeyCluster, ValkeySentinel, valkey_cluster, valkey_sentinel

COLD = "cold"
"""The folder of the cold store."""
PARTITIONS = 6
SESSION_TIMEOUT_S = 6.0
"""After this silence a worker is dead to the broker."""
_JOINED_S = 120.0

OWN = {
    "EUNOE_LANGUAGE": "openai",
    "EUNOE_MODEL_TIMEOUT_SECONDS": "60",
    "EUNOE_MODEL_DECISION_SECONDS": "3600",
    "EUNOE_MODEL_REPLY_SECONDS": "3600",
    "EUNOE_BLEND__WAIT_S": "0",
    "EUNOE_BLEND__WAIT_UNASKED_S": "0",
    "EUNOE_INTAKE__IDLE_SECONDS": "864000",
    "EUNOE_PATIENCE_SECONDS": "90",
    "EUNOE_SHUTDOWN_SECONDS": "30",
    "OPENAI_API_KEY": "none",
}
"""No time limit decides anything, as those of blend and of the model do elsewhere: the log decides."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What a house is made of."""

    brokers: int = 0
    """0: the embedded broker; else so many brokers of Apache Kafka."""
    answers: PromptAnswers = field(default_factory=PromptAnswers)
    variables: Mapping[str, str] = field(default_factory=dict)
    """Settings of its workers, beside `OWN`."""
    cluster: bool = False
    """True: three nodes of a Redis Cluster in the place of the one Redis."""
    sentinel: bool = False
    """True: a Redis with a replica behind a sentinel."""
    sealed: bool = False
    """True: a key store, and a ledger of erasures."""
    cold: bool = False
    """True: a cold store, into which conversations go as soon as nothing is said for a second."""

    @property
    def broker(self) -> str:
        """The broker by name, as the table tells it."""
        if not self.brokers:
            return "embedded"
        return "Kafka" if self.brokers == 1 else f"{self.brokers} × Kafka"


@dataclass
class House:
    """A running house; made by `open_house`."""

    directory: Path
    settings: Settings
    variables: Mapping[str, str]
    model: ModelServer
    nursery: Nursery
    redis: ServerProcess | None
    cluster: ValkeyCluster | None
    sentinel: ValkeySentinel | None
    qdrant: ServerProcess
    kafka: KafkaCluster | None
    store: RedisStore
    workers: list[Worker] = field(default_factory=list)
    erased: dict[str, set[str]] = field(default_factory=dict)
    """Conversation key → the ids of what was erased in it."""
    _publisher: KafkaPublisher | None = None

    def worker(self, stage: str) -> Worker:
        """The first process of a stage."""
        return next(worker for worker in self.workers if worker.stage == stage)

    def begin(self, stage: str, start: Starter | None = None, variables: Mapping[str, str] | None = None) -> Worker:
        """Start one more process of a stage; it is started again whenever it ends."""
        log = self.directory / f"{stage}-{len(self.workers)}.log"
        worker = Worker(stage, start or self.nursery.start, {**self.variables, **(variables or {})}, log)
        self.workers.append(worker)
        worker.begin()
        return worker

    async def joined(self, worker: Worker, times: int = 1) -> None:
        """Wait until a worker has said so often that it consumes."""

        async def there() -> bool:
            return worker.ready_count() >= times

        await until(there, _JOINED_S, lambda: f"{worker.stage}: {worker.log.read_text()[-1500:]}")

    async def publish(self, messages: tuple[Message, ...]) -> None:
        """Produce as a patient client does: what was not acknowledged is sent again."""
        async with asyncio.timeout(180):
            while True:
                try:
                    publisher = self._publisher or await self._connect()
                    await publisher.publish(messages)
                except Unavailable:
                    await self._disconnect()
                    await asyncio.sleep(0.5)
                else:
                    return

    async def _connect(self) -> KafkaPublisher:
        publisher = KafkaPublisher(self.settings.kafka_settings, self.settings.names)
        await publisher.start()
        self._publisher = publisher
        return publisher

    async def _disconnect(self) -> None:
        publisher, self._publisher = self._publisher, None
        if publisher is not None:
            await publisher.stop()

    async def stop_workers(self) -> bool:
        """SIGTERM to all; False where one did not end in time."""
        return all(await asyncio.gather(*(worker.stop() for worker in self.workers)))

    @property
    def exits(self) -> Counter[int]:
        """How processes ended so far: code → times."""
        return sum((worker.exits for worker in self.workers), Counter[int]())


@asynccontextmanager
async def open_house(plan: Plan, directory: Path, name: str, nursery: Nursery) -> AsyncIterator[House]:
    """Servers, topics and one process for every stage, all at work; everything is ended with the block.

    ``name`` begins all its topics, keys and collections. Raises `Refused` where a server cannot be had here.
    """
    directory.mkdir(parents=True)
    async with AsyncExitStack() as closing:
        kafka = await _open_kafka(plan, closing)
        cluster = await _open_cluster(plan, directory / "cluster", closing)
        sentinel = await _open_sentinel(plan, directory / "sentinel", closing)
        broker = None if kafka else ServerProcess(tansu(free_port(), directory / "logs"))
        several = cluster or sentinel
        redis = None if several else ServerProcess(_valkey(directory))
        index = ServerProcess(qdrant(free_port(), directory / "qdrant", directory / "logs"))
        servers = [server for server in (broker, redis, index) if server is not None]
        for server in servers:
            closing.push_async_callback(server.stop)
        await asyncio.gather(*(server.start() for server in servers))
        model = await closing.enter_async_context(
            ModelServer(ServerSettings(delay_s=0.02, scripts={"*": plan.answers}, hang_s=60.0))
        )
        bootstrap = f"{HOST}:{broker.server.port}" if broker else kafka.bootstrap if kafka else ""
        redis_url = f"redis://{HOST}:{redis.server.port}/0" if redis else several.url if several else ""
        settings = _settings(bootstrap, redis_url, index, name, kafka=kafka)
        settings = _with_keys(settings, directory) if plan.sealed else settings
        settings = _with_cold(settings, directory) if plan.cold else settings
        await create_topics(settings.kafka_settings, settings.names, PARTITIONS, settings.replication)
        store = await closing.enter_async_context(open_store(settings))
        variables = {**environment(settings), **OWN, "EUNOE_PREFIX": name, "EUNOE_PARTITIONS": str(PARTITIONS)}
        if plan.cold:
            cold = settings.cold
            variables["EUNOE_COLD__AFTER_DAYS"] = str(cold.after_days)
            variables["EUNOE_COLD__SETTLE_SECONDS"] = str(cold.settle_seconds)
            variables["EUNOE_COLD__SWEEP_SECONDS"] = str(cold.sweep_seconds)
        variables |= {"OPENAI_BASE_URL": model.base_url, **plan.variables}
        house = House(directory, settings, variables, model, nursery, redis, cluster, sentinel, index, kafka, store)
        closing.push_async_callback(house._disconnect)
        closing.push_async_callback(house.stop_workers)
        for stage in STAGES:
            house.begin(stage)
        await asyncio.gather(*(house.joined(worker) for worker in house.workers))
        yield house


def _with_cold(settings: Settings, directory: Path) -> Settings:
    folder = directory / COLD
    folder.mkdir()
    cold = ColdSettings(store=str(folder), after_days=1 / 86_400, settle_seconds=1.0, sweep_seconds=0.3)
    return settings.model_copy(update={"cold": cold})


async def _open_kafka(plan: Plan, closing: AsyncExitStack) -> KafkaCluster | None:
    return await closing.enter_async_context(KafkaCluster(plan.brokers)) if plan.brokers else None


async def _open_cluster(plan: Plan, directory: Path, closing: AsyncExitStack) -> ValkeyCluster | None:
    return await asyncio.to_thread(closing.enter_context, valkey_cluster(directory)) if plan.cluster else None


async def _open_sentinel(plan: Plan, directory: Path, closing: AsyncExitStack) -> ValkeySentinel | None:
    return await asyncio.to_thread(closing.enter_context, valkey_sentinel(directory)) if plan.sentinel else None


def _valkey(directory: Path) -> Server:
    return durable(valkey(free_port(), directory / "valkey", directory / "logs", keep=True))


def durable(server: Server) -> Server:
    """A Valkey that has each write on disk before it answers; a full disk shows as an error, not as a signal."""
    words = ["always" if word == "everysec" else word for word in server.command]
    return replace(server, command=("/bin/sh", "-c", 'trap "" XFSZ; exec "$@"', "sh", *words))


def _with_keys(settings: Settings, directory: Path) -> Settings:
    keys = KeySettings(store=SecretStr(str(directory / "keys.sqlite")), kek=SecretStr(b64encode(bytes(32)).decode()))
    return settings.model_copy(update={"keys": keys, "erasures": SecretStr(str(directory / "erasures.sqlite"))})


def _settings(
    bootstrap: str, redis_url: str, index: ServerProcess, name: str, *, kafka: KafkaCluster | None
) -> Settings:
    urls = StackUrls(
        kafka=bootstrap,
        redis_url=redis_url,
        qdrant_url=f"http://{HOST}:{index.server.port}",
        epoch=1,
        pid=1,
    )
    given = Settings(prefix=name, partitions=PARTITIONS, language=Language.OFFLINE)
    settings = on_stack(given, urls)
    if kafka is None:
        return settings
    copies = min(3, len(kafka.pids))
    broker = settings.broker.model_copy(update={"idempotent": True, "embedded": False, "fetch_wait_ms": 500})
    return settings.model_copy(update={"broker": broker, "replication": copies})


__all__ = ["PARTITIONS", "SESSION_TIMEOUT_S", "House", "Plan", "open_house", "open_publisher", "store_keys"]
