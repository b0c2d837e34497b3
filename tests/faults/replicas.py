"""The servers, a worker and the gateway replicas of a load, and what can be done to them."""

import asyncio
import signal
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import aiohttp

from eunoe.deploy.clients.connect import environment as variables_of
from eunoe.deploy.gateway.keys import KeyFile, KeyPlan, KeyScope, new_key
from eunoe.deploy.local.children import dies_with_parent
from eunoe.deploy.local.ports import HOST, free_port
from eunoe.deploy.local.servers import ServerProcess, qdrant, tansu
from eunoe.deploy.settings import Settings
from eunoe.streams.admin import create_topics
from eunoe.workers.registry import STAGES
from tests.faults.house import _settings, _valkey
from tests.support.command import COMMAND, environment, until
from tests.support.kafka.cluster import KafkaCluster

PARTITIONS = 6
START_S = 120.0


@dataclass
class Child:
    """A command, of eunoe unless named, in a process of its own, which is ready when its log or its address says so."""

    words: tuple[str, ...]
    variables: Mapping[str, str]
    log: Path
    url: str | None = None
    command: tuple[str, ...] = tuple(COMMAND)
    process: asyncio.subprocess.Process | None = field(default=None, repr=False)

    async def start(self) -> None:
        """Start it; returns when it is ready."""
        with self.log.open("ab") as output:
            self.process = await asyncio.create_subprocess_exec(
                *dies_with_parent([*self.command, *self.words]),
                env=environment({"PYTHONUNBUFFERED": "1", **self.variables}),
                stdout=output,
                stderr=output,
            )
        await until(self._is_ready, START_S, lambda: self.log.read_text()[-1500:])

    async def _is_ready(self) -> bool:
        if self.url is None:
            return "ready" in self.log.read_text()
        try:
            async with aiohttp.ClientSession() as session, session.get(self.url) as found:
                return found.status == 200
        except OSError:
            return False

    def kill(self) -> None:
        """SIGKILL."""
        assert self.process is not None
        self.process.send_signal(signal.SIGKILL)

    async def stop(self) -> None:
        """SIGTERM, and SIGKILL where it does not end."""
        if self.process is None or self.process.returncode is not None:
            return
        self.process.send_signal(signal.SIGTERM)
        try:
            await asyncio.wait_for(self.process.wait(), 30)
        except TimeoutError:
            self.process.kill()
            await self.process.wait()


@dataclass
class Replicas:
    """A running stack with gateways; made by `open_replicas`."""

    settings: Settings
    gateways: list[Child]
    redis: ServerProcess
    kafka: KafkaCluster | None
    key: str

    @property
    def urls(self) -> list[str]:
        """The addresses of the gateways."""
        return [gateway.url for gateway in self.gateways if gateway.url]

    async def kill_gateway(self) -> None:
        """Kill -9 of the first replica, which a supervisor starts again."""
        self.gateways[0].kill()
        await asyncio.sleep(3)
        await self.gateways[0].start()

    async def restart_redis(self) -> None:
        """Redis ends and starts again with all that it held."""
        await self.redis.stop()
        await self.redis.start()

    async def kill_broker(self) -> None:
        """Kill -9 of one of three brokers, which comes back later."""
        if self.kafka is None:
            return
        await self.kafka.kill(2)
        await asyncio.sleep(15)
        await self.kafka.restart(2)


@asynccontextmanager
async def open_replicas(directory: Path, brokers: int, *, echo: bool, stages: bool = True) -> AsyncIterator[Replicas]:
    """Servers, a worker that replies, one that builds the memory, and two gateways; everything ends with the block.

    ``brokers``: 0 for the embedded broker, else so many of Apache Kafka. With ``echo`` a stand-in replies; without
    ``stages`` there is no worker at all.
    """
    async with AsyncExitStack() as closing:
        kafka = await closing.enter_async_context(KafkaCluster(brokers)) if brokers else None
        redis = ServerProcess(_valkey(directory))
        index = ServerProcess(qdrant(free_port(), directory / "qdrant", directory / "logs"))
        broker = None if kafka else ServerProcess(tansu(free_port(), directory / "logs"))
        for server in filter(None, (redis, index, broker)):
            closing.push_async_callback(server.stop)
            await server.start()
        bootstrap = kafka.bootstrap if kafka else f"{HOST}:{broker.server.port}" if broker else ""
        settings = _settings(bootstrap, f"redis://{HOST}:{redis.server.port}/0", index, "load", kafka=kafka)
        await create_topics(settings.kafka_settings, settings.names, PARTITIONS, settings.replication)
        secret, kept = new_key(KeyPlan("default", frozenset(KeyScope)), datetime.now(UTC))
        KeyFile(directory / "keys.json").add(kept)
        own = {
            **variables_of(settings),
            "EUNOE_PREFIX": "load",
            "EUNOE_PARTITIONS": str(PARTITIONS),
            "EUNOE_LANGUAGE": "offline",
            "EUNOE_GATEWAY__KEYS": str(directory / "keys.json"),
            "EUNOE_GATEWAY__RATE": "100000",
            "EUNOE_GATEWAY__BURST": "100000",
        }
        replying = ("intake",) if echo else ("intake", "blend", "respond")
        building = tuple(stage for stage in STAGES if stage not in ("intake", "blend", "respond"))
        workers = [
            Child(("worker", *some), own, directory / f"worker-{some[0]}.log")
            for some in (replying, building)
            if stages
        ]
        if echo:
            stand_in = (sys.executable, "-m", "tests.faults.echo")
            workers.append(Child((), own, directory / "echo.log", command=stand_in))
        gateways = []
        for number in range(2):
            address = f"127.0.0.1:{free_port()}"
            log = directory / f"gateway-{number}.log"
            gateways.append(Child(("gateway", "--address", address), own, log, f"http://{address}"))
        children = [*workers, *gateways]
        for child in children:
            closing.push_async_callback(child.stop)
        await asyncio.gather(*(child.start() for child in children))
        sys.stderr.write("servers, worker and gateways are ready\n")
        yield Replicas(settings, gateways, redis, kafka, secret)
