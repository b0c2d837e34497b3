"""The judgement of a soak test, its figures over time, and its plot."""

import random
from dataclasses import replace
from pathlib import Path

import pytest

from eunoe.deploy.evaluate.soak.plan import SoakLimits
from eunoe.deploy.evaluate.soak.plot import draw_soak
from eunoe.deploy.evaluate.soak.samples import SoakRecord, SoakSample, Timed
from eunoe.deploy.evaluate.soak.talk import question, utterance
from eunoe.deploy.evaluate.soak.verdict import judge
from eunoe.streams.client import MAX_TEXT_BYTES

SECONDS = 1000.0


def steady() -> SoakRecord:
    """A run of which nothing can be said against."""
    return SoakRecord(
        samples=[
            SoakSample(float(at), at, 3 if at < SECONDS else 0, 0, {"worker memory": 200.0, "broker": 10.0 + at}, {})
            for at in range(10, int(SECONDS) + 20, 10)
        ],
        asks=[Timed(float(at), 0.1) for at in range(1, 1000, 5)],
        fresh=[Timed(float(at), 2.0) for at in range(1, 1000, 20)],
    )


def failed(record: SoakRecord) -> list[str]:
    """The conditions that a run did not keep."""
    return [one.what for one in judge(record, SoakLimits(), SECONDS) if not one.held]


def test_a_steady_run_holds_although_the_servers_that_keep_the_data_grow():
    assert failed(steady()) == []
    assert len(judge(steady(), SoakLimits(), SECONDS)) == 10


def changed_last(record: SoakRecord, **changes: object) -> None:
    record.samples[-1] = replace(record.samples[-1], **changes)


def test_what_is_lost_or_left_is_named():
    record = steady()
    record.failures.append("3 s: no answer")
    record.unremembered = 1
    changed_last(record, dead_letters=2, lag=7)
    assert failed(record) == [
        "events and asks that failed", "dead letters", "sessions not remembered at the end", "records left at the end",
    ]  # fmt: skip


def test_what_is_slow_all_the_time_is_named():
    record = steady()
    record.asks = [Timed(one.at_s, 3.0) for one in record.asks]
    record.fresh = [Timed(one.at_s, 90.0) for one in record.fresh]
    assert failed(record) == ["asks, 95 %, ms", "session to memory, 95 %, s"]


def test_what_becomes_slower_is_named():
    record = steady()
    record.asks = [Timed(one.at_s, 0.1 + one.at_s / SECONDS) for one in record.asks]
    record.fresh = [Timed(one.at_s, 2.0 + 30 * one.at_s / SECONDS) for one in record.fresh]
    assert failed(record) == [
        "asks, 95 %, ms, second quarter to last", "session to memory, 95 %, s, second quarter to last",
    ]  # fmt: skip


@pytest.mark.parametrize(("mb_at_the_end", "held"), [(20.0, True), (120.0, False)])
def test_memory_of_a_worker_that_grows_is_named_beyond_a_slack(mb_at_the_end: float, held: bool):
    record = steady()
    record.samples = [
        replace(one, memory_mb={"worker memory": 200 + mb_at_the_end * one.at_s / SECONDS}) for one in record.samples
    ]
    assert failed(record) == ([] if held else ["memory of worker memory, MB, second quarter to last"])


def test_records_that_pile_up_are_named():
    record = steady()
    record.samples = [replace(one, lag=round(one.at_s) if one.at_s < SECONDS else 0) for one in record.samples]
    assert failed(record) == ["records left, median of the last quarter"]


def test_the_burst_of_sessions_that_end_with_the_traffic_is_not_compared():
    record = steady()
    record.fresh += [Timed(SECONDS + 8, 8.0) for _ in range(5)]
    assert failed(record) == []


def test_a_run_without_an_answer_does_not_hold():
    assert failed(SoakRecord()) == ["asks, 95 %, ms", "session to memory, 95 %, s"]


def test_figures_are_of_the_time_since_the_sample_before():
    record = SoakRecord(
        samples=[SoakSample(10.0, 1, 0, 0), SoakSample(20.0, 2, 0, 0), SoakSample(30.0, 2, 0, 0)],
        asks=[Timed(5.0, 0.1), Timed(15.0, 0.2), Timed(16.0, 0.4)],
    )
    rows = record.document()["samples"]
    assert [row["ask_p50_ms"] for row in rows] == [100.0, 300.0, None]
    assert [row["freshness_p50_s"] for row in rows] == [None] * 3


def test_a_run_is_drawn(tmp_path: Path):
    draw_soak(steady(), tmp_path / "soak.png")
    assert (tmp_path / "soak.png").read_bytes().startswith(b"\x89PNG")


def test_generated_texts_are_of_two_kinds_and_the_same_for_a_seed():
    short, long = (utterance(random.Random(4), long=long) for long in (False, True))
    assert len(short) < 400
    assert 1_500 < len(long) < MAX_TEXT_BYTES
    assert utterance(random.Random(4), long=True) == long
    assert question(random.Random(4)) == question(random.Random(4))
