"""The test bed of a benchmark: servers, a model with a fixed delay, worker processes with their counters."""

import asyncio
import logging
import secrets
import shutil
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson
import pytest

from eunoe.deploy.clients.connect import connected_settings, environment, on_stack
from eunoe.deploy.clients.shared import open_redis, store_keys
from eunoe.deploy.local.ports import HOST, free_port
from eunoe.deploy.local.servers import Server, ServerProcess
from eunoe.deploy.local.stack import LocalStack
from eunoe.deploy.process.supervisor import WorkerProcess
from eunoe.deploy.settings import Settings
from eunoe.schemas.errors import Refused, Unavailable
from eunoe.streams.admin import create_topics
from eunoe.workers.stores.redis.connection import RedisClient
from eunoe.workers.stores.redis.keys import Keys
from tests.bench.counters import cpu_seconds, rss_mb
from tests.support.apache import kafka_run
from tests.support.needs import Broker, under_test

log = logging.getLogger(__name__)

ALL = ("all",)
NEVER_IDLE_S = "1000000000"
"""Idle time that ends a session, in seconds; so long because the load carries times long past."""
SAMPLE_S = 0.25
START_S = 180.0


@dataclass(frozen=True, slots=True)
class RigPlan:
    """The processes to start."""

    workers: tuple[tuple[str, ...], ...] = (ALL,)
    """The stages of each worker process."""
    delay_s: float | None = 0.2
    """Delay of each answer of the benchmark's model server, in seconds; `None` means the offline models."""
    base_url: str | None = None
    """A model endpoint to use instead of that server."""
    attach: bool = False
    """Whether to use the servers of ``EUNOE_*`` or of an `eunoe up` here, with names of the run's own."""
    variables: tuple[tuple[str, str], ...] = ()
    """Further settings of the workers: ``EUNOE_…``, value."""


@dataclass(slots=True)
class BenchWorker:
    """A worker process and its counters."""

    stages: tuple[str, ...]
    process: WorkerProcess
    meter: Path
    rss_peak_mb: float = 0.0

    @property
    def pid(self) -> int:
        """The process id; 0 before the start."""
        return self.process.pid or 0

    def document(self) -> dict[str, Any]:
        """The counters as last written."""
        document: dict[str, Any] = orjson.loads(self.meter.read_bytes())
        return document

    async def document_after(self, after: float, timeout_s: float = 20.0) -> dict[str, Any]:
        """The counters as written later than ``after`` (seconds since the epoch)."""
        end = time.monotonic() + timeout_s
        while (document := self.document())["at"] <= after:
            if time.monotonic() > end:
                raise Unavailable(f"the worker of {', '.join(self.stages)} writes no counters")
            await asyncio.sleep(0.1)
        return document


@dataclass(slots=True)
class Rig:
    """The running servers and workers of a benchmark."""

    settings: Settings
    redis: RedisClient
    base_url: str | None
    own_model: bool
    variables: dict[str, str]
    directory: Path
    servers: dict[str, int]
    """Name → process id, of the embedded servers and the model server."""
    data: Path | None = None
    """The directory of the embedded servers; `None` where others are used."""
    workers: list[BenchWorker] = field(default_factory=list)

    @property
    def names(self) -> Keys:
        """Names of Redis keys and Qdrant collections."""
        return store_keys(self.settings)

    async def add_worker(self, stages: Sequence[str]) -> BenchWorker:
        """Start one more worker process; returns when its stages consume."""
        meter = self.directory / f"meter-{len(self.workers)}.json"
        variables = {**self.variables, "EUNOE_METER_FILE": str(meter)}
        process = WorkerProcess(stages, variables, self.directory / f"worker-{len(self.workers)}.log")
        worker = BenchWorker(tuple(stages), process, meter)
        self.workers.append(worker)
        await process.start(START_S)
        return worker

    async def add_workers(self, groups: Sequence[Sequence[str]]) -> None:
        """Start several worker processes concurrently."""
        await asyncio.gather(*(self.add_worker(stages) for stages in groups))

    async def stop_workers(self) -> None:
        """Stop all worker processes."""
        await asyncio.gather(*(worker.process.stop() for worker in self.workers))
        self.workers.clear()

    def restarts(self) -> int:
        """The number of restarts of workers."""
        return sum(worker.process.starts - 1 for worker in self.workers)

    def worker_cpu_s(self) -> float:
        """Processor seconds of all workers so far."""
        return sum(cpu_seconds(worker.pid) for worker in self.workers)

    def server_cpu_s(self) -> dict[str, float]:
        """Processor seconds of each server so far."""
        return {name: cpu_seconds(pid) for name, pid in self.servers.items()}

    async def sample_memory(self) -> None:
        """Record the peak of each worker's resident memory; never returns."""
        while True:
            for worker in self.workers:
                worker.rss_peak_mb = max(worker.rss_peak_mb, rss_mb(worker.pid))
            await asyncio.sleep(SAMPLE_S)


@asynccontextmanager
async def open_rig(plan: RigPlan, settings: Settings) -> AsyncIterator[Rig]:
    """Start servers with topics, the model server and the workers; stop all in reverse order."""
    async with AsyncExitStack() as closing:
        directory = closing.enter_context(_logs())
        servers: dict[str, int] = {}
        settings, data = await _servers(plan, settings, servers, closing)
        await create_topics(settings.kafka_settings, settings.names, settings.partitions, settings.replication)
        base_url = plan.base_url
        if base_url is None and plan.delay_s is not None:
            base_url, servers["models"] = await start_model_server(plan.delay_s, directory, closing)
        redis = await closing.enter_async_context(open_redis(settings))
        variables = {**_variables(settings, base_url), **dict(plan.variables)}
        rig = Rig(settings, redis, base_url, plan.base_url is None, variables, directory, servers, data)
        closing.push_async_callback(rig.stop_workers)
        await rig.add_workers(plan.workers)
        sampling = asyncio.create_task(rig.sample_memory())
        closing.callback(sampling.cancel)
        yield rig


@contextmanager
def _logs() -> Iterator[Path]:
    """A temporary directory, kept if the run fails."""
    directory = Path(tempfile.mkdtemp(prefix="eunoe-bench-"))
    failed = False
    try:
        yield directory
    except Exception:
        failed = True
        log.error("the run failed; the logs of its workers are in %s", directory)  # noqa: TRY400 - its caller logs the reason
        raise
    finally:
        if not failed:
            shutil.rmtree(directory, ignore_errors=True)


async def _servers(
    plan: RigPlan, settings: Settings, pids: dict[str, int], closing: AsyncExitStack
) -> tuple[Settings, Path | None]:
    """The settings with the addresses of the servers, and the directory of embedded ones."""
    if plan.attach or _started_kafka(closing):
        own = {"prefix": f"bench-{secrets.token_hex(4)}", "cold": settings.cold}
        return connected_settings().model_copy(update=own), None
    stack = await closing.enter_async_context(LocalStack(None))
    pids.update(stack.pids)
    return on_stack(settings, stack.urls), stack.directory


def _started_kafka(closing: AsyncExitStack) -> bool:
    """Whether the run is to be on Apache Kafka, which then runs until its end, with Redis and Qdrant beside it."""
    try:
        if under_test() is not Broker.KAFKA:
            return False
        directory = closing.enter_context(tempfile.TemporaryDirectory())
        closing.enter_context(kafka_run(Path(directory)))
    except pytest.UsageError as fault:
        raise Refused(str(fault)) from None
    except RuntimeError as fault:
        raise Unavailable(f"{fault}; python -m tests.support.kafka --fetch fetches it") from None
    return True


async def start_model_server(delay_s: float, logs: Path, closing: AsyncExitStack) -> tuple[str, int]:
    """A process of `tests.support.model_server.server`; returns its base URL and process id."""
    port = free_port()
    command = (sys.executable, "-m", "tests.support.model_server.server", "--port", str(port), "--delay", str(delay_s))
    hello = f"GET /stats HTTP/1.1\r\nHost: {HOST}\r\nConnection: close\r\n\r\n".encode()
    server = ServerProcess(
        Server("models", port, command, logs / "models.log", hello, lambda answer: b" 200 " in answer[:16])
    )
    closing.push_async_callback(server.stop)
    await server.start()
    return f"http://{HOST}:{port}/v1", server.pid or 0


def _variables(settings: Settings, base_url: str | None) -> dict[str, str]:
    asked = {"EUNOE_LANGUAGE": "offline"}
    if base_url is not None:
        asked = {"EUNOE_LANGUAGE": "openai", "OPENAI_BASE_URL": base_url}
    names = {"EUNOE_PREFIX": settings.prefix, "EUNOE_GENERATION": settings.names.generation}
    return {**environment(settings), **names, **asked, "EUNOE_INTAKE__IDLE_SECONDS": NEVER_IDLE_S}
