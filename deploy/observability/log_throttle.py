"""Rate limit for the logs of the libraries of Kafka and of HTTP: warnings and above, each message once in ten seconds.

Errors of our own that pass through a library are left out: the process that they end reports them in one line.
"""

import logging
import time
from collections.abc import Callable

from eunoe.schemas.errors import EunoeError

LIBRARIES = ("aiokafka", "faust", "mode", "uvicorn.error")
EVERY_S = 10.0
_MAX_REMEMBERED = 1000


class Throttle(logging.Handler):
    """Passes records to the handlers of the root logger: each message, without its arguments, once in ``every_s``."""

    def __init__(self, every_s: float = EVERY_S, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._every_s = every_s
        self._clock = clock
        self._next: dict[tuple[str, str], float] = {}

    def emit(self, record: logging.LogRecord) -> None:
        """Pass the record on, unless it is about an error of our own, or its message was passed within ``every_s``."""
        if record.exc_info and isinstance(record.exc_info[1], EunoeError):
            return
        key = (record.name, str(record.msg))
        now = self._clock()
        if now < self._next.get(key, 0.0):
            return
        if len(self._next) >= _MAX_REMEMBERED:
            self._next.clear()
        self._next[key] = now + self._every_s
        logging.getLogger().handle(record)


def quiet_libraries() -> None:
    """Put one `Throttle` before each of `LIBRARIES`; levels set elsewhere stay."""
    for name in LIBRARIES:
        logger = logging.getLogger(name)
        if any(isinstance(handler, Throttle) for handler in logger.handlers):
            continue
        if logger.level == logging.NOTSET:
            logger.setLevel(logging.WARNING)
        logger.propagate = False
        logger.addHandler(Throttle())
