"""Signals to `eunoe up`: each one ends more at once than the one before."""

import asyncio
import os
import signal
from collections.abc import Callable

import pytest

from eunoe.deploy.exits import Exit
from eunoe.deploy.process.stop_signals import AT_ONCE, KILLED, STARTING, StopSignals

Run = Callable[[StopSignals], None]


async def run(begin: Run, said: list[str], ended: list[str]) -> StopSignals:
    """A start, or with ``is_up`` a stop, that takes for ever; signals come as ``begin`` sends them."""
    stops = StopSignals(said.append)
    stops.kills.append(lambda: ended.append("killed"))
    with stops.listening():
        try:
            begin(stops)
            await asyncio.wait_for(asyncio.Event().wait(), 20)
        finally:
            ended.append("closed")
    return stops


def sent(stops: StopSignals) -> None:
    os.kill(os.getpid(), signal.SIGTERM)


async def test_a_start_ends_at_the_first_signal() -> None:
    said, ended = list[str](), list[str]()
    stops = await run(sent, said, ended)
    assert (said, ended, stops.hurried, stops.asked.is_set()) == ([STARTING], ["closed"], False, True)


async def test_a_stop_in_order_ends_at_the_second_signal_and_what_takes_its_time_is_killed() -> None:
    said, ended = list[str](), list[str]()

    def stopping(stops: StopSignals) -> None:
        stops.is_up = True
        stops.take()
        assert (stops.asked.is_set(), ended, stops.hurried) == (True, [], False)
        asyncio.get_running_loop().call_soon(stops.take)

    stops = await run(stopping, said, ended)
    assert (said, ended, stops.hurried) == ([AT_ONCE], ["killed", "closed"], True)


async def test_a_third_signal_ends_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    codes: list[int] = []
    monkeypatch.setattr(os, "_exit", codes.append)
    said: list[str] = []

    def thrice(stops: StopSignals) -> None:
        for _ in range(3):
            stops.take()

    await run(thrice, said, [])
    assert (codes, said) == ([Exit.INTERRUPTED], [STARTING, AT_ONCE, KILLED])


async def test_what_else_cancels_it_is_no_signal() -> None:
    ended: list[str] = []
    task = asyncio.ensure_future(run(lambda _: None, [], ended))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended == ["closed"]
