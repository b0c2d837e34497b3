"""Forks of this process that run `eunoe` commands.

Run as ``python -m eunoe.deploy.cli.forking DESCRIPTOR`` it serves the socket with that descriptor.
"""

import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from eunoe.deploy.cli import gateway, worker  # noqa: F401 - imported here once, for all forks
from eunoe.deploy.cli.main import main
from eunoe.deploy.cli.output import look_again
from eunoe.deploy.process.fork_server import serve
from eunoe.deploy.process.forked import ForkServer, fork_server
from eunoe.workers.registry import load_stages

load_stages()  # as all above: here once, for all forks


@contextmanager
def forks_of_this() -> Iterator[ForkServer | None]:
    """A server of forks of this process, workers and gateways first of all; `None` where there is none.

    To be entered before this process has threads of its own or an event loop.
    """
    with fork_server(_run) as server:
        yield server


def _run() -> None:
    look_again()
    main()


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])), _run)
