"""Worker processes and servers that a test may stop, kill and start again, one by one."""

import asyncio
import json
import re
import signal
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Mapping
from contextlib import ExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from eunoe.deploy.clients.shared import open_publisher, open_store
from eunoe.deploy.local.ports import free_port
from eunoe.deploy.process.forked import Forked
from eunoe.deploy.settings import Settings, reveal
from eunoe.deploy.settings.sections import BrokerSettings
from eunoe.schemas.events import SessionEnded, Utterance
from eunoe.streams.admin import create_topics
from eunoe.streams.codec import encode
from eunoe.streams.record import Message
from eunoe.streams.topics import Topic
from tests.support.command import start, until
from tests.support.given import own_prefix
from tests.support.servers import QdrantProcess
from tests.support.tansu import tansu
from tests.support.valkeys import Valkey, durable

PARTITIONS = 4
START_S = 90.0


@dataclass(slots=True)
class Worker:
    """`eunoe worker` with its log in a file."""

    stages: tuple[str, ...]
    log: Path
    variables: Mapping[str, str]
    port: int = field(default_factory=free_port)
    process: asyncio.subprocess.Process | Forked | None = None

    async def start(self) -> None:
        """Start it; it may not be ready yet."""
        with self.log.open("ab") as log:
            words = ("worker", *self.stages, "--health", str(self.port))
            self.process = await start(words, self.log.parent, self.variables, log.fileno(), log.fileno())

    def said(self) -> str:
        """Its log so far."""
        return self.log.read_text()

    def lines_with(self, text: str) -> int:
        """How many lines of its log have a text."""
        return sum(text in line for line in self.said().splitlines())

    async def health(self, page: str) -> tuple[int, Any]:
        """Status and document of ``live`` or ``ready``; (0, {}) where nobody answers."""

        def ask() -> tuple[int, Any]:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/{page}", timeout=10) as answer:
                    return answer.status, json.loads(answer.read())
            except urllib.error.HTTPError as error:
                with error:
                    return error.code, json.loads(error.read())
            except OSError:
                return 0, {}

        return await asyncio.to_thread(ask)

    async def until_status(self, page: str, status: int, timeout_s: float = START_S) -> None:
        """Wait until a page answers so."""

        async def there() -> bool:
            assert self.process is not None
            assert self.process.returncode is None, self.said()
            return (await self.health(page))[0] == status

        await until(there, timeout_s, self.said)

    async def metrics(self) -> str:
        """The page ``metrics``."""

        def ask() -> str:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=10) as answer:
                return str(answer.read().decode())

        return await asyncio.to_thread(ask)

    async def metric(self, pattern: str) -> float:
        """The sum of all samples whose line matches."""
        lines = (await self.metrics()).splitlines()
        return sum(float(line.rpartition(" ")[2]) for line in lines if re.match(pattern, line))

    async def ended(self, timeout_s: float = 60.0) -> int:
        """Its exit code."""
        assert self.process is not None
        return await asyncio.wait_for(self.process.wait(), timeout_s)

    async def stop(self, number: signal.Signals = signal.SIGTERM, timeout_s: float = 60.0) -> int:
        """Send a signal and wait for the end; prints its log where it did not end well."""
        assert self.process is not None
        self.process.send_signal(number)
        code = await self.ended(timeout_s)
        if code:
            print(self.said())
        return code

    def kill(self) -> None:
        """SIGKILL, where it still runs."""
        if self.process is not None and self.process.returncode is None:
            with suppress(ProcessLookupError):
                self.process.kill()

    async def over(self) -> None:
        """Kill it where it still runs, and wait for its end."""
        self.kill()
        if self.process is not None:
            await self.process.wait()


@dataclass(slots=True)
class House:
    """A broker, a durable Redis, a Qdrant, topics; and workers as the test wants them."""

    directory: Path
    settings: Settings
    redis: Valkey | None
    qdrant: QdrantProcess
    workers: list[Worker] = field(default_factory=list)

    async def worker(self, *stages: str, ready: bool = True, **variables: str) -> Worker:
        """Start a worker; with ``ready`` wait until it is."""
        log = self.directory / f"worker-{len(self.workers)}.log"
        worker = Worker(stages, log, {**_variables(self.settings), **variables})
        self.workers.append(worker)
        await worker.start()
        if ready:
            await worker.until_status("ready", 200)
        return worker

    async def produce(self, conversations: int, first: int = 0) -> None:
        """A session of two utterances in each conversation, ended."""
        messages = [message for number in range(first, first + conversations) for message in _session(number)]
        async with open_publisher(self.settings) as publisher:
            for start in range(0, len(messages), 300):
                await publisher.publish(messages[start : start + 300])

    async def applied(self, stage: str) -> dict[str, int]:
        """By conversation: how many sessions a stage has applied."""
        from eunoe.schemas.decisions import Scope  # noqa: PLC0415

        async with open_store(self.settings) as store:
            keys = await store.conversations()
            return {key: (await store.ledger(Scope(stage, key))).applied for key in keys}

    async def until_applied(self, stage: str, conversations: int, timeout_s: float = 120.0) -> None:
        """Wait until a stage has applied the first session of so many conversations."""

        async def there() -> bool:
            found = await self.applied(stage)
            return sum(number >= 1 for number in found.values()) >= conversations

        await until(there, timeout_s, lambda: "".join(worker.said()[-3000:] for worker in self.workers))


def _session(number: int) -> list[Message]:
    name = f"c{number}"
    at = "2026-03-01T09:30:00Z"
    say = {"conversation_id": name, "speaker": "Ann", "at": at}
    texts = (f"My dog number {number} is called Rex{number}.", f"We moved to house {number} last week.")
    events: list[Utterance | SessionEnded] = [
        Utterance.model_validate({**say, "utterance_id": f"{name}-{place}", "text": text})
        for place, text in enumerate(texts)
    ]
    events.append(SessionEnded.model_validate({"conversation_id": name, "at": at}))
    return [Message(Topic.CONVERSATIONS, event.key.encode(), encode(event)) for event in events]


def _variables(settings: Settings) -> dict[str, str]:
    broker = settings.broker
    return {
        "EUNOE_KAFKA": settings.kafka or "",
        "EUNOE_REDIS_URL": reveal(settings.redis_url) or "",
        "EUNOE_QDRANT_URL": settings.qdrant_url or "",
        "EUNOE_PREFIX": settings.prefix,
        "EUNOE_PARTITIONS": str(PARTITIONS),
        "EUNOE_BROKER__IDEMPOTENT": "false",
        "EUNOE_BROKER__EMBEDDED": "true",
        "EUNOE_SHUTDOWN_SECONDS": "50",
        "EUNOE_BROKER__SESSION_TIMEOUT_MS": str(broker.session_timeout_ms),
        "EUNOE_BROKER__HEARTBEAT_INTERVAL_MS": str(broker.heartbeat_interval_ms),
    }


@asynccontextmanager
async def house(directory: Path, redis_url: str | None = None) -> AsyncIterator[House]:
    """Everything started, but no worker; ``redis_url``: a Redis that is there already."""
    with ExitStack() as closing:
        kafka = closing.enter_context(tansu())
        redis = None if redis_url else durable(directory / "redis")
        if redis is not None:
            closing.callback(redis.kill)
            redis.start()
            redis_url = f"redis://127.0.0.1:{redis.port}/0"
        qdrant = QdrantProcess(directory / "qdrant", free_port())
        closing.callback(qdrant.stop)
        qdrant.start()
        settings = Settings(
            kafka=kafka,
            redis_url=redis_url,
            qdrant_url=qdrant.url,
            prefix=own_prefix(),
            partitions=PARTITIONS,
            broker=BrokerSettings(
                idempotent=False, embedded=True, session_timeout_ms=6_000, heartbeat_interval_ms=1_000
            ),
        )
        await create_topics(settings.kafka_settings, settings.names, PARTITIONS)
        made = House(directory, settings, redis, qdrant)
        try:
            yield made
        finally:
            for worker in made.workers:
                await worker.over()
