"""Starts worker processes quickly: a process that has imported everything once and forks for each.

Run as ``python -m tests.faults.nursery``. Reads a line of JSON for each worker, {"ticket", "words", "variables",
"log"}, answers {"ticket", "pid"}, and {"pid", "code"} when one has ended (a signal as a negative code). What runs in
the fork is `eunoe` with these words, as in a process of its own.
"""

import ctypes
import gc
import json
import os
import selectors
import signal
import sys
import traceback
from typing import Any

import eunoe.deploy.cli.worker
from eunoe.deploy.cli.main import main as eunoe

_SET_PARENT_DEATH_SIGNAL = 1


def main() -> None:
    """Serve until standard input ends; then end, and the workers with it."""
    gc.freeze()
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    _say({"ready": os.getpid()})
    _serve(reader)


def _serve(woken: int) -> None:
    selector = selectors.DefaultSelector()
    selector.register(0, selectors.EVENT_READ)
    selector.register(woken, selectors.EVENT_READ)
    rest = b""
    while True:
        for chosen, _ in selector.select():
            found = os.read(chosen.fd, 65_536)
            if chosen.fd == woken:
                _reap()
                continue
            if not found:
                return
            *lines, rest = (rest + found).split(b"\n")
            for line in lines:
                _start(json.loads(line))


def _start(order: dict[str, Any]) -> None:
    mother = os.getpid()
    pid = os.fork()
    if pid == 0:
        _become(order, mother)
    _say({"ticket": order["ticket"], "pid": pid})


def _become(order: dict[str, Any], mother: int) -> None:
    """Be the worker; never returns."""
    code = 70
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        ctypes.CDLL(None).prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != mother:
            os._exit(1)
        os.setsid()
        _redirect(order["log"])
        os.environ.update(order["variables"])
        sys.argv = ["eunoe", *order["words"]]
        eunoe()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def _redirect(log: str) -> None:
    nothing = os.open(os.devnull, os.O_RDONLY)
    written = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(nothing, 0)
    os.dup2(written, 1)
    os.dup2(written, 2)
    os.closerange(3, 256)


def _reap() -> None:
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if not pid:
            return
        _say({"pid": pid, "code": os.waitstatus_to_exitcode(status)})


def _say(told: dict[str, Any]) -> None:
    os.write(1, json.dumps(told).encode() + b"\n")


if __name__ == "__main__":
    main()
