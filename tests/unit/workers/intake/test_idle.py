"""Idle closing: which sessions are ended, and how often."""

from dataclasses import dataclass
from datetime import datetime, timedelta

import pytest

from eunoe.schemas.decisions import Commit, Outbox, Scope, Timer
from eunoe.schemas.events import SessionEnded
from eunoe.streams.codec import decode
from eunoe.streams.memory_log import MemoryLog
from eunoe.streams.topics import Topic
from eunoe.workers.intake.idle import REPEAT_S, IdleCloser
from eunoe.workers.intake.settings import IntakeSettings
from eunoe.workers.runner.outbox import Sender
from eunoe.workers.stores.state.memory_store import MemoryLogPositions
from tests.support.in_memory import START, ended, make_pipeline, utterance

IDLE = IntakeSettings(idle_seconds=60)


@dataclass
class Times:
    now: datetime = START
    ticks: float = 0.0


async def closer(times: Times, partitions: list[int]) -> tuple[IdleCloser, MemoryLog]:
    log_positions, log = MemoryLogPositions(), MemoryLog()
    await log_positions.schedule(0, "default/a", Timer(after_utterance_id="u1", since=START))
    await log_positions.schedule(1, "t/b%20c", Timer(after_utterance_id="u2", since=START + timedelta(seconds=30)))
    made = IdleCloser(log_positions, log, lambda: partitions, IDLE, lambda: times.now, lambda: times.ticks)
    return made, log


def ends(log: MemoryLog) -> list[SessionEnded]:
    return [decode(record.value) for record in log.records(Topic.CONVERSATIONS)]


async def test_a_session_is_ended_when_its_time_has_passed_and_not_before():
    times = Times(START + timedelta(seconds=59))
    idle, log = await closer(times, [0, 1])
    assert await idle.sweep() == 0
    times.now = START + timedelta(seconds=61)
    assert await idle.sweep() == 1
    (end,) = ends(log)
    assert (end.conversation_id, end.after_utterance_id) == ("a", "u1")


async def test_names_come_back_from_the_key():
    idle, log = await closer(Times(START + timedelta(days=1)), [1])
    await idle.sweep()
    (end,) = ends(log)
    assert (end.tenant, end.conversation_id) == ("t", "b c")


async def test_partitions_that_are_not_caught_up_are_left_alone():
    idle, log = await closer(Times(START + timedelta(days=1)), [])
    assert await idle.sweep() == 0
    assert ends(log) == []


async def test_an_end_is_repeated_only_after_a_while():
    times = Times(START + timedelta(days=1))
    idle, log = await closer(times, [0])
    counts = []
    for ticks in (0.0, 1.0, REPEAT_S - 1, REPEAT_S + 1):
        times.ticks = ticks
        counts.append(await idle.sweep())
    assert counts == [1, 0, 0, 1]
    assert len(ends(log)) == 2


async def test_an_end_that_the_log_does_not_confirm_is_repeated_more_and_more_seldom():
    """Where the clock of a worker is an hour ahead of that of the log: each end stays in the log for ever."""
    pipeline, times = make_pipeline(partitions=1), Times(START + timedelta(hours=1))
    await pipeline.produce(utterance(1))
    idle = IdleCloser(pipeline.log_positions, pipeline.log, lambda: [0], IntakeSettings(), lambda: times.now)
    idle.clock = lambda: times.ticks
    for _ in range(90):  # a quarter of an hour
        times.ticks += 10
        times.now += timedelta(seconds=10)
        await idle.sweep()
        await pipeline.run_until_idle()
    assert len(ends(pipeline.log)) - 1 == 5
    assert pipeline.log.records(Topic.SESSIONS) == []


@pytest.mark.parametrize("back_s", [0, 1800, 3600])
async def test_a_clock_that_is_set_forward_ends_no_session_before_it_was_idle(back_s: int):
    """As on one machine, where it is the clock of the log, too: then nothing else would tell."""
    times = Times(START + timedelta(seconds=10))
    idle, log = await closer(times, [0, 1])
    assert await idle.sweep() == 0
    times.now += timedelta(hours=1)
    for _ in range(5):
        times.ticks += 10
        times.now += timedelta(seconds=10)
        assert await idle.sweep() == 0
    times.now -= timedelta(seconds=back_s)
    times.ticks += 20
    times.now += timedelta(seconds=20)
    assert await idle.sweep() == (1 if back_s == 3600 else 2)
    assert {end.conversation_id for end in ends(log)} == ({"a"} if back_s == 3600 else {"a", "b c"})


async def test_a_clock_that_runs_a_little_fast_ends_sessions_in_time():
    times = Times(START)
    idle, _ = await closer(times, [0])
    for _ in range(6):
        assert await idle.sweep() == 0
        times.ticks += 10
        times.now += timedelta(seconds=11)
    assert await idle.sweep() == 1


async def test_a_process_that_reads_its_clocks_late_holds_no_short_idle_time_back():
    times = Times(START)
    idle, _ = await closer(times, [0])
    idle.settings = IntakeSettings(idle_seconds=1.5)
    assert await idle.sweep() == 0
    times.ticks += 2.0
    times.now += timedelta(seconds=2.9)
    assert await idle.sweep() == 1


async def test_an_outbox_that_is_sent_late_moves_no_timer_back():
    pipeline = make_pipeline(partitions=1)
    sent: list[Outbox] = []
    commit = pipeline.store.commit

    async def noting(scope: Scope, made: Commit) -> str | None:
        sent.extend([made.outbox] if made.outbox is not None and scope.stage == "intake" else [])
        return await commit(scope, made)

    pipeline.store.commit = noting
    await pipeline.produce(utterance(1))
    await pipeline.produce(ended())
    await pipeline.produce(utterance(2))
    sender = Sender(pipeline.store, pipeline.index, pipeline.log_positions, pipeline.log)
    for outbox in sent[:-1]:  # as a process does that slept before it sent them
        await sender.send(Scope("intake", utterance(1).key), outbox)
    (due,) = await pipeline.log_positions.due(0, START + timedelta(days=1), 9)
    assert due.timer.after_utterance_id == "u2"
