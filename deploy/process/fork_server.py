"""A process that has imported everything once, and forks for each `eunoe` command that it is asked to run (Linux).

A fork is there in milliseconds instead of seconds of imports, and shares its libraries' memory with all others. Orders
come over a socket that keeps message boundaries, each with the descriptors of standard output and error;
`eunoe.deploy.process.forked` has the other end.
"""

import ctypes
import gc
import json
import logging
import os
import selectors
import signal
import socket
import sys
import traceback
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Final, NoReturn, Self

from eunoe.deploy.exits import Exit

MAX_ORDER: Final = 1 << 20
"""Bytes of an order at most; nearly all of it is the environment."""
_OUTPUTS: Final = 2
"""Standard output and error."""
_SET_PARENT_DEATH_SIGNAL: Final = 1


@dataclass(frozen=True, slots=True)
class Order:
    """A command to run."""

    ticket: int
    words: list[str]
    """The command line after `eunoe`."""
    variables: dict[str, str]
    """The whole environment."""
    directory: str

    def to_bytes(self) -> bytes:
        """As it is sent."""
        return json.dumps(asdict(self)).encode()

    @classmethod
    def from_bytes(cls, sent: bytes) -> Self:
        """Inverse of `to_bytes`."""
        return cls(**json.loads(sent))


@dataclass(frozen=True, slots=True)
class News:
    """The message of a server: the process id of an order, or the exit code of a process."""

    pid: int
    ticket: int | None = None
    code: int | None = None
    """A signal that ended it as a negative number."""

    def to_bytes(self) -> bytes:
        """As it is sent."""
        return json.dumps(asdict(self)).encode()

    @classmethod
    def from_bytes(cls, sent: bytes) -> Self:
        """Inverse of `to_bytes`."""
        return cls(**json.loads(sent))


def serve(orders: socket.socket, run: Callable[[], None]) -> NoReturn:
    """Run orders until the other end closes its socket; then end, and all forks with this process.

    ``run`` runs the command of ``sys.argv`` in a fork, and raises ``SystemExit`` with its exit code. To be called
    before this process has threads of its own or an event loop.
    """
    from setproctitle import setproctitle  # noqa: PLC0415 - Linux alone has it

    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which stops the forks in order
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    setproctitle("eunoe fork server")
    gc.collect()
    gc.freeze()  # or the collector would write to all pages, and so copy them
    with selectors.DefaultSelector() as selector:
        selector.register(orders, selectors.EVENT_READ)
        selector.register(reader, selectors.EVENT_READ)
        while True:
            ready = {chosen.fd for chosen, _ in selector.select()}
            if reader in ready:
                os.read(reader, 4096)
                _tell_ends(orders)
            if orders.fileno() in ready and not _take_order(orders, run):
                os._exit(Exit.OK)


def _take_order(orders: socket.socket, run: Callable[[], None]) -> bool:
    """Fork for the next order; gives whether there will be more."""
    sent, descriptors, _, _ = socket.recv_fds(orders, MAX_ORDER, _OUTPUTS)
    if not sent:
        return False
    order, parent = Order.from_bytes(sent), os.getpid()
    pid = os.fork()
    if pid == 0:
        _run(order, descriptors, parent, run)
    for descriptor in descriptors:
        os.close(descriptor)
    orders.send(News(pid, ticket=order.ticket).to_bytes())
    return True


def _tell_ends(orders: socket.socket) -> None:
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if not pid:
            return
        orders.send(News(pid, code=os.waitstatus_to_exitcode(status)).to_bytes())


def _run(order: Order, descriptors: list[int], parent: int, run: Callable[[], None]) -> NoReturn:
    from setproctitle import setproctitle  # noqa: PLC0415 - see above

    code: int = Exit.SOFTWARE
    try:
        begin_fork(parent, descriptors)
        os.chdir(order.directory)
        os.environ.clear()
        os.environ.update(order.variables)
        logging.getLogger("eunoe").setLevel(logging.NOTSET)
        sys.argv = ["eunoe", *order.words]
        setproctitle(" ".join(sys.argv))
        run()
        code = Exit.OK
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else Exit.FAILED
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def begin_fork(parent: int, outputs: list[int], keep: int | None = None) -> None:
    """Make a fork a process of its own, killed with its parent: a session, no standard input, no open files.

    ``parent`` is its parent's process id; ``outputs`` are descriptors for standard output and error; ``keep`` is one
    more that stays open.
    """
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    ctypes.CDLL(None).prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(Exit.FAILED)
    os.setsid()
    os.umask(0o077)  # data and logs are for their owner alone
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for number, descriptor in enumerate(outputs, start=1):
        os.dup2(descriptor, number)
    last = os.sysconf("SC_OPEN_MAX")
    kept = last if keep is None else keep
    os.closerange(1 + _OUTPUTS, kept)
    os.closerange(kept + 1, last)
