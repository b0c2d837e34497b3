"""One Kafka broker or several on loopback, each a KRaft controller too, as children of this process."""

import asyncio
import os
import shutil
import signal
import tempfile
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaError

from eunoe.deploy.local.children import dies_with_parent, sweeps
from eunoe.deploy.local.ports import HOST, free_port
from eunoe.deploy.local.servers import KAFKA_PROBE, Server, ServerProcess
from eunoe.schemas.errors import Refused, Unavailable
from tests.support.kafka.jars import fetch_jars, find_java

START_SECONDS: Final = 120.0
STOP_SECONDS: Final = 30.0
_CLUSTER_ID = "ZXVub2Uta2Fma2EtdGVzdA"
_OPTIONS = ("-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dlog4j2.level=WARN")
_POLL_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class KafkaSecurity:
    """Listeners beside the plain one: SASL_SSL with SCRAM-SHA-512, and SSL that asks for a client's certificate."""

    key_and_certificates: Path
    """PEM: the broker's private key (PKCS 8) and its certificates."""
    authorities: Path
    """PEM: the authorities of clients' certificates."""
    user: str
    password: str


@dataclass(frozen=True, slots=True)
class _Node:
    """One broker: where it listens and where it keeps what it has."""

    number: int
    port: int
    controller_port: int
    directory: Path
    sasl_port: int = 0
    tls_port: int = 0

    @property
    def properties(self) -> Path:
        return self.directory / "server.properties"


class KafkaCluster:
    """``async with KafkaCluster(3) as kafka``: brokers 1, 2, 3, started and stopped together.

    Without ``directory`` they keep what they have in one that goes with them, even when this process is killed.
    """

    def __init__(
        self,
        brokers: int = 1,
        directory: Path | None = None,
        port: int | None = None,
        security: KafkaSecurity | None = None,
    ) -> None:
        """``brokers``: 1, or 3 and more, with three copies of each record where a topic asks for them.

        ``port``: where the first broker listens; unless given, all of them take free ports.
        ``security``: adds secured listeners, for one broker.
        """
        if brokers < 1:
            raise Refused(f"a cluster has one broker or more, not {brokers}")
        self._count = brokers
        self._given = directory
        self._port = port
        self._security = security
        self._nodes: dict[int, _Node] = {}
        self._processes: dict[int, ServerProcess] = {}
        self._starts: dict[int, int] = {}
        self._java: tuple[str, ...] = ()
        self._closing = AsyncExitStack()

    @property
    def bootstrap(self) -> str:
        """All brokers, ``host:port`` with commas."""
        return ",".join(f"{HOST}:{node.port}" for node in self._nodes.values())

    @property
    def sasl_bootstrap(self) -> str:
        """The listener that asks for a login."""
        return f"localhost:{self._nodes[1].sasl_port}"

    @property
    def tls_bootstrap(self) -> str:
        """The listener that asks for a client's certificate."""
        return f"localhost:{self._nodes[1].tls_port}"

    @property
    def pids(self) -> dict[int, int]:
        """The process of each broker that runs, by its number (1, 2, 3 …)."""
        return {number: process.pid for number, process in self._processes.items() if process.running and process.pid}

    async def start(self) -> Self:
        """Format and start all brokers; returns when each answers and knows all others.

        Raises `Refused` where Java or Maven is missing, `Unavailable` where the jars cannot be fetched or a broker
        does not come up; then nothing is left running.
        """
        try:
            await self._start()
        except BaseException:
            await self._closing.aclose()
            raise
        return self

    async def stop(self) -> None:
        """End all brokers at once, without ceremony where they keep nothing."""
        await self._closing.aclose()

    async def kill(self, number: int) -> None:
        """SIGKILL to a broker, as a crash does; returns when it is gone."""
        process = self._processes.pop(number)
        if process.running and process.pid is not None:
            os.kill(process.pid, signal.SIGKILL)
        await process.stop()

    async def halt(self, number: int) -> None:
        """SIGTERM to a broker: it hands over what it leads and ends; SIGKILL after 30 s."""
        await self._processes.pop(number).stop(STOP_SECONDS)

    async def restart(self, number: int) -> None:
        """Start a broker that was ended, over its ports and its data; returns when it answers and is known."""
        if number in self.pids:
            raise Refused(f"broker {number} runs: end it first")
        await self._start_node(self._nodes[number])
        await self._until_known()

    async def in_sync(self, topic: str) -> dict[int, set[int]]:
        """For each partition of ``topic``, the brokers that have all of it. Raises `Unavailable`."""
        (described,) = await self._asked(lambda admin: admin.describe_topics([topic]))
        return {entry["partition"]: set(entry["isr"]) for entry in described["partitions"]}

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(self, *fault: object) -> None:
        await self.stop()

    async def _start(self) -> None:
        directory = await self._open_directory()
        java = await asyncio.to_thread(find_java)
        jars = await asyncio.to_thread(fetch_jars)
        self._java = (java, *_OPTIONS, "-cp", f"{jars}/*")
        ports = [free_port() for _ in range(2 * self._count)]
        for number in range(1, self._count + 1):
            port, controller_port = ports.pop(), ports.pop()
            first = number == 1 and self._port
            more = (free_port(), free_port()) if self._security else (0, 0)
            self._nodes[number] = _Node(number, first or port, controller_port, directory / f"broker-{number}", *more)
        for node in self._nodes.values():
            node.directory.mkdir(parents=True)
            node.properties.write_text(_properties(node, list(self._nodes.values()), self._security))
        self._closing.push_async_callback(self._end_all)
        await _all(self._format(node) for node in self._nodes.values())
        await _all(self._start_node(node) for node in self._nodes.values())
        await self._until_known()

    async def _open_directory(self) -> Path:
        if self._given is not None:
            if self._given.exists() and any(self._given.iterdir()):
                raise Refused(f"{self._given} is not empty: a cluster begins in a directory of its own")
            return self._given.absolute()
        directory = Path(tempfile.mkdtemp(prefix="eunoe-kafka-"))
        self._closing.callback(shutil.rmtree, directory, ignore_errors=True)
        sweeper = await asyncio.create_subprocess_exec(*sweeps(directory), stdin=asyncio.subprocess.PIPE)
        self._closing.push_async_callback(_end, sweeper)
        return directory

    async def _format(self, node: _Node) -> None:
        command = [*self._java, "kafka.tools.StorageTool", "format"]
        command += ["-t", _CLUSTER_ID, "-c", str(node.properties)]
        if (security := self._security) is not None:
            command += ["--add-scram", f"SCRAM-SHA-512=[name={security.user},password={security.password}]"]
        process = await asyncio.create_subprocess_exec(
            *dies_with_parent(command),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        told, _ = await process.communicate()
        if process.returncode != 0:
            raise Unavailable(f"Kafka did not format {node.directory}:\n{told.decode(errors='replace')[-1000:]}")

    async def _start_node(self, node: _Node) -> None:
        self._starts[node.number] = start = self._starts.get(node.number, 0) + 1
        server = Server(
            name=f"kafka-{node.number}",
            port=node.port,
            command=(*self._java, "kafka.Kafka", str(node.properties)),
            log=node.directory / f"start-{start}.log",
            probe=KAFKA_PROBE,
            is_ready=lambda answer: answer[4:8] == b"\0\0\0\1",
        )
        self._processes[node.number] = process = ServerProcess(server)
        try:
            await process.start(START_SECONDS)
        except BaseException:
            del self._processes[node.number]
            raise

    async def _until_known(self) -> None:
        """Wait until the brokers tell of all that run: what is asked of three copies then finds three brokers."""
        try:
            async with asyncio.timeout(START_SECONDS):
                while await self._known() != set(self.pids):  # noqa: ASYNC110 - it happens in other processes
                    await asyncio.sleep(_POLL_SECONDS)
        except TimeoutError:
            raise Unavailable(f"the brokers at {self.bootstrap} do not find each other") from None

    async def _known(self) -> set[int]:
        try:
            described = await self._asked(lambda admin: admin.describe_cluster())
        except Unavailable:
            return set()
        return {broker["node_id"] for broker in described["brokers"]}

    async def _asked(self, question: Any) -> Any:
        servers = [f"{HOST}:{self._nodes[number].port}" for number in self.pids]
        admin = AIOKafkaAdminClient(bootstrap_servers=servers)
        try:
            await admin.start()
            return await question(admin)
        except (KafkaError, OSError) as error:
            raise Unavailable(f"no answer from the brokers at {self.bootstrap}: {error!r}") from error
        finally:
            await admin.close()

    async def _end_all(self) -> None:
        """Data that goes is given no time; kept data is written out."""
        patience = 0.0 if self._given is None else STOP_SECONDS
        processes, self._processes = self._processes, {}
        await asyncio.gather(*(process.stop(patience) for process in processes.values()))


def _properties(node: _Node, nodes: Sequence[_Node], security: KafkaSecurity | None) -> str:
    copies = min(3, len(nodes))
    settings = {
        "process.roles": "broker,controller",
        "node.id": node.number,
        "controller.quorum.voters": ",".join(f"{each.number}@{HOST}:{each.controller_port}" for each in nodes),
        "listeners": f"PLAINTEXT://{HOST}:{node.port},CONTROLLER://{HOST}:{node.controller_port}",
        "advertised.listeners": f"PLAINTEXT://{HOST}:{node.port}",
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "log.dirs": node.directory / "data",
        "auto.create.topics.enable": "false",
        "default.replication.factor": copies,
        "min.insync.replicas": max(1, copies - 1),
        "offsets.topic.replication.factor": copies,
        "offsets.topic.num.partitions": 4,
        "transaction.state.log.replication.factor": copies,
        "transaction.state.log.min.isr": max(1, copies - 1),
        "transaction.state.log.num.partitions": 4,
        "share.coordinator.state.topic.replication.factor": copies,
        "share.coordinator.state.topic.min.isr": max(1, copies - 1),
        # a member that comes need not wait for others that might
        "group.initial.rebalance.delay.ms": 0,
        "broker.session.timeout.ms": 6000,
        "num.network.threads": 2,
        "num.io.threads": 4,
        "log.cleaner.dedupe.buffer.size": 16_777_216,
        "log.retention.check.interval.ms": 2_000,
    }
    if security is not None:
        settings |= _secured(node, security)
    return "".join(f"{name}={value}\n" for name, value in settings.items())


def _secured(node: _Node, security: KafkaSecurity) -> dict[str, object]:
    plain = f"PLAINTEXT://{HOST}:{node.port}"
    secured = f"SASL_SSL://localhost:{node.sasl_port},SSL://localhost:{node.tls_port}"
    module = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
    return {
        "listeners": f"{plain},{secured},CONTROLLER://{HOST}:{node.controller_port}",
        "advertised.listeners": f"{plain},{secured}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL_SSL:SASL_SSL,SSL:SSL,CONTROLLER:PLAINTEXT",
        "sasl.enabled.mechanisms": "SCRAM-SHA-512",
        "listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config": module,
        "listener.name.ssl.ssl.client.auth": "required",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": security.key_and_certificates,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": security.authorities,
    }


async def _all(works: Any) -> None:
    """Run all side by side; the first fault ends the others."""
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _end(sweeper: asyncio.subprocess.Process) -> None:
    if sweeper.stdin is not None:
        sweeper.stdin.close()
    await sweeper.wait()
