"""Starts `eunoe` commands as forks of one process, which has imported everything: the client of the fork server."""

import asyncio
import contextlib
import itertools
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, asynccontextmanager, contextmanager
from pathlib import Path

from eunoe.deploy.local.children import dies_with_parent
from eunoe.deploy.process.fork_server import MAX_ORDER, News, Order, begin_fork, serve
from eunoe.schemas.errors import Unavailable

log = logging.getLogger(__name__)

_SERVER = "the fork server"


class Forked:
    """A forked process; used like one of `asyncio.subprocess`."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.ended: Future[int] = Future()

    @property
    def returncode(self) -> int | None:
        """The exit code, negative for a signal; `None` while it runs."""
        return self.ended.result() if self.ended.done() else None

    async def wait(self) -> int:
        """Wait for the end; gives the exit code."""
        return await asyncio.shield(asyncio.wrap_future(self.ended))

    def send_signal(self, number: int) -> None:
        """Send a signal, unless it has ended."""
        if not self.ended.done():
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        """Send SIGKILL, unless it has ended."""
        self.send_signal(signal.SIGKILL)


async def end_process(process: "asyncio.subprocess.Process | Forked | None", timeout_s: float) -> None:
    """Send SIGTERM, then SIGKILL after the timeout; returns when it has ended. `None`: there is none."""
    if process is None or process.returncode is not None:
        return
    with contextlib.suppress(ProcessLookupError):
        process.send_signal(signal.SIGTERM)
    try:
        await asyncio.wait_for(process.wait(), timeout_s)
    except TimeoutError:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


class ForkServer:
    """The server at the other end of a socket; may be used by several event loops, one after the other."""

    def __init__(self, orders: socket.socket) -> None:
        self._orders = orders
        self._tickets = itertools.count()
        self._started: dict[int, Future[Forked]] = {}
        self._running: dict[int, Forked] = {}
        self._lock = threading.Lock()
        self._gone = False
        self._listening = threading.Thread(target=self._listen, name="fork server", daemon=True)
        self._listening.start()

    async def start(
        self,
        words: Sequence[str],
        variables: Mapping[str, str],
        outputs: tuple[int, int],
        directory: Path | None = None,
    ) -> Forked:
        """Start `eunoe` with ``words`` and the environment ``variables``.

        ``outputs``: descriptors for standard output and error; they stay open here. Raises `Unavailable` where the
        server has ended. A cancelled call leaves no process behind: it is killed as soon as it is there.
        """
        started: Future[Forked] = Future()
        order = Order(next(self._tickets), list(words), dict(variables), str(directory or Path.cwd()))
        with self._lock:
            if self._gone:
                raise Unavailable("the fork server has ended", _SERVER)
            self._started[order.ticket] = started
        try:
            socket.send_fds(self._orders, [order.to_bytes()], outputs)
        except OSError as fault:
            raise Unavailable(f"the fork server takes no order: {fault}", _SERVER) from fault
        try:
            return await asyncio.shield(asyncio.wrap_future(started))
        except asyncio.CancelledError:
            started.add_done_callback(_end_unwanted)
            raise

    def close(self) -> None:
        """End the server and all that it started."""
        with contextlib.suppress(OSError):
            self._orders.shutdown(socket.SHUT_RDWR)
        self._listening.join()
        self._orders.close()

    def _listen(self) -> None:
        while sent := _received(self._orders):
            news = News.from_bytes(sent)
            with self._lock:
                if news.ticket is not None:
                    self._running[news.pid] = forked = Forked(news.pid)
                    self._started.pop(news.ticket).set_result(forked)
                elif news.code is not None:
                    self._running.pop(news.pid).ended.set_result(news.code)
        with self._lock:
            self._gone = True
            for waiting in self._started.values():
                waiting.set_exception(Unavailable("the fork server has ended", _SERVER))
            for forked in self._running.values():
                forked.ended.set_result(-signal.SIGKILL)  # as the kernel ends them


def _end_unwanted(started: "Future[Forked]") -> None:
    if started.exception() is None:
        started.result().kill()


def _received(orders: socket.socket) -> bytes:
    try:
        return orders.recv(MAX_ORDER)
    except OSError:
        return b""


async def next_line(said: asyncio.StreamReader) -> bytes:
    """The next line; empty at the end. One that is longer than the stream's buffer is left out but for its end."""
    while True:
        try:
            return await said.readline()
        except ValueError:
            log.debug("a part of a line of more than 64 kB is left out")


@asynccontextmanager
async def read_pipe() -> AsyncIterator[tuple[asyncio.StreamReader, int]]:
    """A pipe: a stream that reads it, and the descriptor of its other end, which the caller closes."""
    read_end, write_end = os.pipe()
    stream = asyncio.StreamReader()
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(stream), os.fdopen(read_end, "rb")
    )
    try:
        yield stream, write_end
    finally:
        transport.close()


@contextmanager
def fork_server(run: Callable[[], None]) -> Iterator[ForkServer | None]:
    """A fork of this process as server, which shares its memory; `None` where there is none: not on Linux.

    ``run`` and what is imported: see `serve`. To be entered before this process has threads of its own or an event
    loop.
    """
    if sys.platform != "linux":
        yield None
        return
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    parent, pid = os.getpid(), os.fork()
    if pid == 0:
        begin_fork(parent, [1, 2], keep=theirs.fileno())
        serve(theirs, run)
    theirs.close()
    server = ForkServer(ours)
    try:
        yield server
    finally:
        server.close()
        os.waitpid(pid, 0)


@contextmanager
def started_fork_server(command: Sequence[str], variables: Mapping[str, str]) -> Iterator[ForkServer]:
    """One that is started from nothing, with an environment of its own: for a process that cannot be forked.

    ``command`` with the number of a socket's descriptor behind it calls `serve`.
    """
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ExitStack() as closing:
        with theirs:
            process = subprocess.Popen(  # noqa: S603 - the command line comes from our own code
                dies_with_parent([*command, str(theirs.fileno())]),
                env=dict(variables),
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
            )
        closing.callback(process.wait)
        server = ForkServer(ours)
        closing.callback(server.close)
        yield server
