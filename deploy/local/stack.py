"""The embedded stack: broker, Redis and Qdrant as child processes, in a kept or a temporary directory."""

import asyncio
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from eunoe.deploy.local.children import sweeps
from eunoe.deploy.local.kept import KeptData, Secrets, make_kek
from eunoe.deploy.local.lock import DirectoryLock
from eunoe.deploy.local.notice import StackUrls, remove_notice, write_notice
from eunoe.deploy.local.ports import HOST, free_port
from eunoe.deploy.local.private import make_private
from eunoe.deploy.local.servers import BROKER, PortTaken, Server, ServerProcess, qdrant, tansu, valkey
from eunoe.deploy.local.wakeups import Wakeups
from eunoe.streams.cancelling import first_ended

LEDGER = Path("erasures", "ledger.sqlite")
"""The ledger of erasures in the data directory: to be kept, and backed up apart from everything else."""
KEY_STORE = Path("keys", "store.sqlite")
"""The data keys of a kept data directory."""
KEK = Path("keys", "kek")
"""The operator's key that wraps them: to be backed up apart from everything else."""
COLD = Path("cold")
"""The state of idle conversations of a kept data directory."""
_SWEEP_SECONDS = 15.0
_BROKER_STOP_SECONDS = 0.2
_PORT_TRIES = 5

ServerAt = Callable[[int], Server]
"""A server on a port."""


@dataclass(frozen=True, slots=True)
class Ports:
    """Ports of the servers; 0 means any free port."""

    kafka: int = 0
    redis: int = 0
    qdrant: int = 0


class LocalStack:
    """``async with LocalStack(directory) as stack``: the three servers, started and stopped together.

    With ``data`` `None` they use a temporary directory, which is removed even when this process is killed. A kept
    directory has the data of Redis and Qdrant; the broker starts empty each time (see `eunoe.deploy.local.journal`).
    """

    def __init__(self, data: Path | None, ports: Ports | None = None) -> None:
        self._given = None if data is None else data.absolute()
        self._ports = ports or Ports()
        self._closing = AsyncExitStack()
        self._servers: dict[str, ServerProcess] = {}
        self._urls: StackUrls | None = None
        self._wakeups: Wakeups | None = None
        self._directory = Path()
        self._drained = False
        self._clean_start = True

    @property
    def urls(self) -> StackUrls:
        """Addresses of the servers; raises ``RuntimeError`` before the start."""
        if self._urls is None:
            raise RuntimeError("stack not started")
        return self._urls

    @property
    def kafka(self) -> str:
        """Address of the broker, ``host:port``."""
        return self.urls.kafka

    @property
    def redis_url(self) -> str:
        """URL of Valkey, with its password."""
        return self.urls.redis_url

    @property
    def qdrant_url(self) -> str:
        """URL of the embedded Qdrant."""
        return self.urls.qdrant_url

    @property
    def epoch(self) -> int:
        """Number of this start of the data directory: 1, 2, 3 …"""
        return self.urls.epoch

    @property
    def clean_start(self) -> bool:
        """Whether the stop before was clean; otherwise the derived state must be deleted and derived again."""
        return self._clean_start

    @property
    def directory(self) -> Path:
        """Directory of data and logs."""
        return self._directory

    @property
    def kept(self) -> KeptData | None:
        """Facts of the data directory; `None` for a temporary one."""
        return None if self._given is None else KeptData(self._given)

    @property
    def pids(self) -> dict[str, int]:
        """Server → process id."""
        return {name: process.pid for name, process in self._servers.items() if process.pid is not None}

    async def start(self) -> Self:
        """Start all servers; returns when all answer.

        Raises `Refused` when the directory is in use, a port is taken or a binary is missing, `Unavailable` when a
        server does not answer. No server is left running then.
        """
        try:
            with self.unchanged():
                await self._start()
        except BaseException:
            await self._closing.aclose()
            raise
        return self

    async def stop(self) -> None:
        """Stop all; mark a clean stop if `mark_drained` was called, and Redis and Qdrant ended by themselves."""
        self._urls = None
        await self._closing.aclose()

    @contextmanager
    def unchanged(self) -> Iterator[None]:
        """A part of a start in which nothing is derived: a fault in it leaves the directory as clean as it was."""
        try:
            yield
        except BaseException:
            self._drained = self._clean_start
            raise

    def mark_drained(self) -> None:
        """Note that all stages and the journal are drained; call it just before `stop`."""
        self._drained = True

    async def stop_broker(self) -> None:
        """Stop the broker before the others: from then on nobody produces. It keeps nothing that a kill could harm."""
        await self._servers[BROKER].stop(_BROKER_STOP_SECONDS)

    async def failed(self) -> None:
        """Wait until one of the servers has ended and raise `Unavailable`."""
        await first_ended(*(process.ended() for process in self._servers.values()))

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def _start(self) -> None:
        epoch = await self._open_directory()
        logs = self._directory / "logs"
        keep = self._given is not None
        ports = self._ports
        kept = self.kept
        login = Secrets.make() if kept is None else kept.secrets()
        password, key = login.redis_password, login.qdrant_key
        valkey_at = partial(valkey, directory=self._directory / "valkey", logs=logs, keep=keep, password=password)
        qdrant_at = partial(
            qdrant,
            directory=self._directory / "qdrant",
            logs=logs,
            api_key=key,
            replaceable=not self._clean_start,
        )
        commands = ((partial(tansu, logs=logs), ports.kafka), (valkey_at, ports.redis), (qdrant_at, ports.qdrant))
        broker, redis, index = await self._start_servers(commands)
        cold = (self._directory / COLD).absolute()
        if keep:
            cold.mkdir(mode=0o700, exist_ok=True)
        self._urls = StackUrls(
            kafka=broker,
            redis_url=f"redis://:{password}@{redis}/0",
            qdrant_url=f"http://{index}",
            qdrant_api_key=key,
            epoch=epoch,
            pid=os.getpid(),
            erasures=str(self._directory / LEDGER),
            keys=str(self._directory / KEY_STORE) if keep else None,
            kek_file=str(self._directory / KEK) if keep else None,
            cold=str(cold) if keep else None,
        )
        self._closing.callback(remove_notice, self._directory)
        self._wakeups = Wakeups(self._urls.redis_url)
        self._closing.push_async_callback(self._wakeups.close)

    def wake(self, notify: Callable[[], None]) -> None:
        """Call ``notify`` when the broker takes records, if it was idle; other processes are told by Valkey."""
        if self._wakeups is None:
            raise RuntimeError("stack not started")
        self._wakeups.listen(notify)

    def _took_records(self) -> None:
        if self._wakeups is not None:
            self._wakeups.send()

    def announce(
        self,
        gateway: str | None = None,
        *,
        stores: Mapping[str, str | None] | None = None,
        model_endpoint: str | None = None,
        generation: str | None = None,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        """Write the notice by which other commands find the stack: clients are admitted from now on.

        ``gateway`` is the URL of the HTTP gateway; ``stores``: fields of `StackUrls` that name other stores than those
        of its directory; ``model_endpoint``, ``generation`` and ``settings``: see `StackUrls`.
        """
        more = {"gateway": gateway, "model_endpoint": model_endpoint, "generation": generation, **(stores or {})}
        write_notice(self._directory, self.urls.model_copy(update={**more, "settings": dict(settings or {})}))

    async def _open_directory(self) -> int:
        """Lock the directory and count the start; returns the epoch."""
        if self._given is None:
            self._directory = Path(tempfile.mkdtemp(prefix="eunoe-"))
            await self._sweep_at_end(self._directory)
            self._closing.enter_context(DirectoryLock(self._directory))
            self._closing.push_async_callback(self._stop_servers)
            return 1
        self._directory = self._given
        self._closing.enter_context(DirectoryLock(self._given))
        make_private(self._directory)
        remove_notice(self._directory)
        make_kek(self._directory / KEK, self._directory / KEY_STORE)
        epoch, self._clean_start = KeptData(self._given).begin()
        self._closing.push_async_callback(self._stop_servers)  # also where none was started: it writes the marker
        return epoch

    async def _sweep_at_end(self, directory: Path) -> None:
        """Remove the directory when the stack stops, and also when this process is killed."""
        self._closing.callback(shutil.rmtree, directory, ignore_errors=True)
        sweeper = await asyncio.create_subprocess_exec(*sweeps(directory), stdin=asyncio.subprocess.PIPE)
        self._closing.push_async_callback(_end_sweeper, sweeper)

    async def _start_servers(self, commands: Iterable[tuple[ServerAt, int]]) -> list[str]:
        """Start the servers side by side, each on its port; returns their addresses in the same order."""
        starts = [asyncio.create_task(self._start_server(server_at, port)) for server_at, port in commands]
        try:
            return await asyncio.gather(*starts)
        finally:
            for start in starts:
                start.cancel()
            await asyncio.gather(*starts, return_exceptions=True)

    async def _start_server(self, server_at: ServerAt, given: int) -> str:
        """Start a server on the port ``given``, or for 0 on one that nobody takes meanwhile; returns its address."""
        for last in (False,) * (_PORT_TRIES - 1) + (True,):
            server = server_at(given or free_port())
            process = self._servers[server.name] = ServerProcess(server, self._took_records)
            try:
                await process.start()
            except PortTaken:
                if given or last:
                    raise
            else:
                break
        return f"{HOST}:{server.port}"

    async def _stop_servers(self) -> None:
        ended = await asyncio.gather(*(process.stop() for process in self._servers.values()))
        by_themselves = [one for name, one in zip(self._servers, ended, strict=True) if name != BROKER]
        drained, self._drained = self._drained, False
        kept = self.kept
        if drained and kept is not None and all(by_themselves):
            kept.mark_clean()


async def _end_sweeper(sweeper: asyncio.subprocess.Process) -> None:
    """Close the input of the sweeper and wait for its end."""
    if sweeper.stdin is not None:
        sweeper.stdin.close()
    try:
        await asyncio.wait_for(sweeper.wait(), _SWEEP_SECONDS)
    except TimeoutError:
        sweeper.kill()
        await sweeper.wait()
