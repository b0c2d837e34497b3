"""Apache Kafka for a whole run of the tests, and the embedded Redis and Qdrant beside it."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from eunoe.deploy.local.children import dies_with_parent
from tests.support import servers

FILES = "EUNOE_TEST_KAFKA_FILES"
"""Where the started broker keeps its records."""
_STOP_S = 20


@contextmanager
def kafka_run(directory: Path) -> Iterator[None]:
    """Start the three servers and name them in the environment, as people name theirs."""
    with ExitStack() as closing:
        made = {
            "EUNOE_REDIS_URL": closing.enter_context(servers.redis_url(directory / "valkey")),
            "EUNOE_QDRANT_URL": closing.enter_context(servers.qdrant_url(directory / "qdrant")),
            "EUNOE_KAFKA": closing.enter_context(_kafka(directory / "kafka", directory / "kafka.log")),
            FILES: str(directory / "kafka" / "broker-1" / "data"),
        }
        os.environ.update(made)
        yield
        for name in made:
            del os.environ[name]


@contextmanager
def _kafka(directory: Path, log: Path) -> Iterator[str]:
    command = [sys.executable, "-m", "tests.support.kafka", "--json", "--directory", str(directory)]
    with (
        log.open("wb") as errors,
        subprocess.Popen(dies_with_parent(command), stdout=subprocess.PIPE, stderr=errors, text=True) as process,
    ):
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            raise RuntimeError(f"Apache Kafka did not start: {log.read_text()}")
        try:
            yield json.loads(line)["bootstrap"]
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(_STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
