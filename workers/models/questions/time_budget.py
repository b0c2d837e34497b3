"""The time that the model may take for one decision, in seconds in flight: waiting for a free slot does not count."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from time import perf_counter


class TimeBudget:
    """Counts the seconds in which at least one call of a decision is in flight.

    ``limit_s``: the seconds of a decision.
    """

    def __init__(self, limit_s: float) -> None:
        self._limit_s = limit_s
        self._spent_s = 0.0
        self._in_flight = 0
        self._since = 0.0

    @property
    def left_s(self) -> float:
        """Seconds left; 0 or less means that nothing is asked any more."""
        running = perf_counter() - self._since if self._in_flight else 0.0
        return self._limit_s - self._spent_s - running

    @contextmanager
    def running(self) -> Iterator[None]:
        """Count the time of the body; calls side by side count once."""
        if not self._in_flight:
            self._since = perf_counter()
        self._in_flight += 1
        try:
            yield
        finally:
            self._in_flight -= 1
            if not self._in_flight:
                self._spent_s += perf_counter() - self._since


_CURRENT: ContextVar[TimeBudget | None] = ContextVar("eunoe_time_budget", default=None)


def current_budget() -> TimeBudget | None:
    """The budget of the decision that is being made; `None` outside of one."""
    return _CURRENT.get()


@contextmanager
def decision_time(limit_s: float | None) -> Iterator[TimeBudget | None]:
    """Bound the time of all questions of the body together; inside another such block the outer one counts.

    `None` means no bound.
    """
    outer = _CURRENT.get()
    if outer is not None or limit_s is None:
        yield outer
        return
    token = _CURRENT.set(budget := TimeBudget(limit_s))
    try:
        yield budget
    finally:
        _CURRENT.reset(token)
