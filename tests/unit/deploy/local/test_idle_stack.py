"""What an idle stack leaves out: fetches, samples, looks at the broker; and what ends that at once."""

import asyncio
import itertools
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Self

import pytest
from hypothesis import given
from hypothesis import strategies as st
from redis.asyncio import Redis

from eunoe.deploy.local.log_file import LogFile
from eunoe.deploy.local.tansu.activity import TRACE_TARGET, BrokerOutput
from eunoe.deploy.local.tansu.pacing import IDLE_AFTER_S, MAX_REST_S, Pacing, rest_s
from eunoe.deploy.local.wakeups import EVERY_S, Wakeups, receive_wakeups
from eunoe.deploy.observability.monitor import IDLE_ROUNDS, Rounds
from eunoe.deploy.observability.process_costs import sample_tree
from eunoe.workers.runner.metrics import LoopMeter
from tests.bench.idle import costs_of
from tests.unit.deploy.local.test_pacing import Fetched

REPORT = f"INFO serve: {TRACE_TARGET}: 258: enter\n".encode()


@given(st.floats(0, 1e6))
def test_a_consumer_rests_only_where_nothing_came_for_long_and_never_for_more_than_the_bound(idle_s: float):
    assert 0 <= rest_s(idle_s) <= MAX_REST_S
    assert rest_s(idle_s) == 0 or idle_s > IDLE_AFTER_S


def test_rests_double():
    at, rests = IDLE_AFTER_S + 0.1, []
    while not rests or rests[-1] < MAX_REST_S:
        rests.append(rest_s(at))
        at += rests[-1]
    assert rests[:4] == pytest.approx([0.1, 0.2, 0.4, 0.8])


async def idle(pacing: Pacing) -> Fetched:
    """A consumer that rests before its next fetch for `MAX_REST_S`."""
    consumer = Fetched(end=1, reads_ms=0)
    pacing.attach(consumer)
    await consumer.fetch(1)
    pacing._active_at -= IDLE_AFTER_S + 2 * MAX_REST_S
    return consumer


async def test_a_notification_ends_a_rest_and_the_next_fetches_are_frequent_again():
    consumer = await idle(pacing := Pacing(0.001))
    assert pacing._left_s() > MAX_REST_S / 2
    resting = asyncio.create_task(consumer.fetch(1))
    await asyncio.sleep(0)
    pacing.notify()
    await resting
    assert pacing._left_s() < 0.01


async def test_records_end_a_rest():
    consumer = await idle(pacing := Pacing(0.001))
    pacing.notify()
    pacing._active_at -= IDLE_AFTER_S + 2 * MAX_REST_S
    consumer.highwater = 2
    await consumer.fetch(1)
    assert pacing._left_s() < 0.01


async def test_a_consumer_that_somebody_waits_for_does_not_rest():
    waiting = True
    await idle(pacing := Pacing(0.001, may_rest=lambda: not waiting))
    assert pacing._left_s() < 0.01
    waiting = False
    assert pacing._left_s() > MAX_REST_S / 2


async def output(tmp_path: Path, *pieces: bytes) -> tuple[int, bytes]:
    """The number of reports, and the log, of a process that writes these pieces and ends."""
    reports: list[None] = []
    pipe = BrokerOutput(LogFile(tmp_path / "log"), lambda: reports.append(None))
    for piece in pieces:
        os.write(pipe.writer, piece)
        await asyncio.sleep(0.01)
    pipe.detach()
    await asyncio.sleep(0.01)
    pipe.close()
    return len(reports), (tmp_path / "log").read_bytes()


async def test_the_broker_s_reports_are_counted_and_everything_else_is_logged(tmp_path: Path):
    found = await output(tmp_path, b"ready\n" + REPORT[:20], REPORT[20:] + REPORT, b"ERROR x\nlast")
    assert found == (1, b"ready\nERROR x\nlast")


def _fill(writer: int) -> None:
    for _ in itertools.count():
        os.write(writer, REPORT * 100)


async def test_a_broker_whose_reports_nobody_reads_is_not_held_up(tmp_path: Path):
    pipe = BrokerOutput(LogFile(tmp_path / "log"), lambda: None)
    with pytest.raises(BlockingIOError):
        _fill(pipe.writer)
    pipe.detach()
    pipe.close()


async def test_wakeups_reach_this_process_at_once_and_not_more_often_than_needed(monkeypatch: pytest.MonkeyPatch):
    now = [100.0]
    monkeypatch.setattr("eunoe.deploy.local.wakeups.monotonic", lambda: now[0])
    woken: list[float] = []
    wakeups = Wakeups("redis://127.0.0.1:1/0")
    wakeups.listen(lambda: woken.append(now[0]))
    for now[0] in (100.0, 100.1, 100.0 + EVERY_S, 100.1 + EVERY_S):
        wakeups.send()
    await wakeups.close()
    assert woken == [100.0, 100.0 + EVERY_S]
    assert 2 * EVERY_S <= IDLE_AFTER_S  # who is woken does not rest before the next wakeup


class _Messages:
    """A subscription that is lost, as uvloop reports it; the next one works, and ends with a bug."""

    def __init__(self) -> None:
        self._faults = [RuntimeError("a bug"), RuntimeError("unable to perform operation; the handler is closed")]

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None: ...

    async def subscribe(self, _channel: str) -> None:
        if len(self._faults) > 1:
            raise self._faults.pop()

    async def listen(self) -> AsyncIterator[None]:
        yield
        raise self._faults.pop()


async def test_wakeups_go_on_where_uvloop_finds_the_connection_closed(monkeypatch: pytest.MonkeyPatch):
    woken: list[None] = []
    messages = _Messages()
    monkeypatch.setattr("eunoe.deploy.local.wakeups._RETRY_S", 0.0)
    monkeypatch.setattr(Redis, "pubsub", lambda _redis: messages)
    with pytest.raises(RuntimeError, match="a bug"):
        await receive_wakeups("redis://127.0.0.1:1/0", lambda: woken.append(None))
    assert len(woken) == 1


async def test_the_event_loop_is_sampled_seldom_while_there_is_nothing_to_do():
    busy = LoopMeter(interval_s=0.001)
    idle_meter = LoopMeter(interval_s=0.001, is_idle=lambda: True)
    tasks = [asyncio.create_task(meter.run()) for meter in (busy, idle_meter)]
    while sum(busy.busy.document().values()) < 300:  # noqa: ASYNC110 - samples come by the clock
        await asyncio.sleep(0.01)
    for task in tasks:
        task.cancel()
    assert sum(idle_meter.busy.document().values()) < 200


def test_the_ends_of_partitions_are_read_seldom_while_nothing_changes():
    rounds = Rounds()
    assert [rounds.is_due(1, idle=True) for _ in range(2 * IDLE_ROUNDS)] == [True, *[False] * (IDLE_ROUNDS - 1)] * 2
    assert rounds.is_due(2, idle=True)
    assert not rounds.is_due(2, idle=True)
    assert rounds.is_due(2, idle=False)
    assert rounds.is_due(2, idle=False)


def test_a_process_and_its_children_are_sampled():
    if sys.platform != "linux":
        pytest.skip("reads /proc")
    first, *_ = sample_tree(os.getpid())
    assert first.pid == os.getpid()
    assert first.cpu_s > 0
    assert first.pss_mb > 1
    assert sample_tree(2**22 + 1) == []
    cost = costs_of([first], {first.pid: first.cpu_s - 0.5}, 10.0)
    assert [found["cpu %"] for found in cost.values()] == [5.0]
