"""Time limits of tests: the alarm of pytest-timeout rings until the test has ended.

It raises its failure in whatever runs at that moment. In the midst of a task the event loop takes that for the end of
this task alone, so that the test went on without a limit, or waited for ever for what the task was to do.
"""

import signal
from collections.abc import Generator
from types import FrameType
from typing import Any, Final

import pytest

AGAIN_S: Final = 60.0
"""Seconds from one alarm to the next, at most: what cleans up after a test that failed has so long."""


class TimeLimits:
    """A plugin for a process of pytest."""

    def __init__(self) -> None:
        self._running = False
        """Whether a test runs, is made ready or cleaned up after; a failure elsewhere would end the session."""

    @pytest.hookimpl(wrapper=True)
    def pytest_timeout_set_timer(self, settings: Any) -> Generator[None, object, object]:
        """Have an alarm that was set ring again and again; pytest-timeout ends all with the test."""
        is_set = yield
        left, _ = signal.getitimer(signal.ITIMER_REAL)
        fail = signal.getsignal(signal.SIGALRM)
        if not left or not callable(fail):
            return is_set

        def ring(number: int, frame: FrameType | None) -> None:
            if self._running:
                fail(number, frame)

        signal.signal(signal.SIGALRM, ring)
        signal.setitimer(signal.ITIMER_REAL, left, min(settings.timeout, AGAIN_S))
        return is_set

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_setup(self) -> Generator[None, object, object]:
        return (yield from self._run())

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_call(self) -> Generator[None, object, object]:
        return (yield from self._run())

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_teardown(self) -> Generator[None, object, object]:
        return (yield from self._run())

    def _run(self) -> Generator[None, object, object]:
        self._running = True
        try:
            return (yield)
        finally:
            self._running = False


def pytest_configure(config: pytest.Config) -> None:
    """Limit the tests of a run that loads this module as its plugin."""
    config.pluginmanager.register(TimeLimits())
