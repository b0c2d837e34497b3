"""From counters to figures. Pure."""

from collections import Counter
from typing import Any

import pytest

from eunoe.schemas.errors import Refused
from tests.bench.bench_compare import compare
from tests.bench.bench_peers import summary
from tests.bench.commands import _numbers
from tests.bench.growth import growth_plot
from tests.bench.life import life_blocks, life_plots
from tests.bench.load import LoadPlan
from tests.bench.pipeline import CounterDelta, CounterSnapshot, figures_of
from tests.bench.scale import scale_plot
from tests.bench.watch import Watch


def meter(events: int, calls: int, late: dict[str, int]) -> dict[str, Any]:
    stage = {"events": events, "waiting_s": 0.0, "deciding_s": events * 0.5, "applying_s": 0.0, "publishing_s": 0.0}
    loop = {"late_ms": late, "late_longest_ms": 7.0, "busy_ms": late, "busy_longest_ms": 5.0}
    models = {"calls": calls, "corrections": 1, "invalid": 0, "prompt_tokens": 100 * calls, "in_flight_s": calls * 0.2}
    return {"stages": {"link": stage}, "loop": loop, "models": {**models, "in_flight_peak": 9}}


def reading(at: float, cpu: float, redis: dict[str, int], *meters: dict[str, Any]) -> CounterSnapshot:
    return CounterSnapshot(
        at, cpu, {"tansu": cpu / 2}, Counter(redis), Counter({"PUT /points": int(at)}), list(meters), {}
    )


BEFORE = reading(10.0, 1.0, {"hget": 5}, meter(2, 4, {"1": 5}), meter(1, 0, {"1": 1}))
AFTER = reading(20.0, 3.0, {"hget": 45, "evalsha": 20}, meter(6, 20, {"1": 100, "50": 1}), meter(1, 0, {"1": 1}))


def test_the_figures_of_a_run_are_differences_over_its_sessions():
    load = LoadPlan(conversations=2, sessions=2, turns=5)
    ended = {(key, number): 10.0 for key in load.keys for number in (1, 2)}
    durable = {place: 11.0 + 3 * place[1] for place in ended}
    watch = Watch(None, None, load.keys, durable=durable, commands=30)
    found = figures_of(load, CounterDelta(BEFORE, AFTER), watch, ended)
    assert (found["seconds"], found["sessions_per_s"], found["utterances_per_s"]) == (7.0, 0.57, 2.9)
    assert found["session_latency_s_p99"] == pytest.approx(7.0, abs=0.1)
    assert found["model_calls_per_session"] == 4.0
    assert found["prompt_tokens_per_session"] == 400.0
    assert found["cpu_s_per_session"] == 0.5
    assert found["redis_commands_per_session"] == 7.5  # the watch's own 30 apart
    assert found["redis_commands"] == {"evalsha": 5.0, "hget": 2.5}
    assert found["qdrant_requests_per_session"] == 2.5
    assert found["stages"]["link"]["events"] == 4
    assert found["event_loop_lag_ms_p99"] in {1.0, 50.0}
    assert found["in_flight_peak"] == 9


def test_two_revisions_are_compared_round_by_round():
    base = [{"cpu_s_per_session": 1.0, "digest": "a"}, {"cpu_s_per_session": 4.0, "digest": "a"}]
    here = [{"cpu_s_per_session": 0.5, "digest": "a"}, {"cpu_s_per_session": 1.0, "digest": "a"}]
    row = compare(base, here)["cpu_s_per_session"]
    assert (row["ratio"], row["least"], row["most"]) == (0.375, 0.25, 0.5)


def test_peers_are_compared_round_by_round():
    ours = {"sessions_per_s": 60.0, "model_calls_per_session": 5, "correcting_retries_per_session": 0.1,
            "prompt_tokens_per_session": 3000, "in_flight_peak": 90}  # fmt: skip
    theirs = {"sessions_per_s": 20.0, "chat_calls_per_session": 1, "prompt_tokens_per_session": 9000,
              "peak_in_flight": 6}  # fmt: skip
    found = summary([ours, {**ours, "sessions_per_s": 40.0}], [theirs, theirs])
    assert found["ratio of sessions/s"] == {"median": 2.5, "least": 2.0, "most": 3.0}
    assert found["rows"]["correcting retries per session"] == {"eunoe": 0.1, "mem0": None}


def test_plots_have_a_line_each():
    growth = growth_plot({"by_stage": {"link": {"10": 5.0, "100": 6.0}}})
    assert [(line.label, list(line.x), list(line.y)) for line in growth.series] == [("link", [10, 100], [5.0, 6.0])]
    scale = scale_plot({"throughput": {"1": {"sessions_per_s": 2.0, "per_process": 2.0}}})
    assert [line.label for line in scale.series] == ["sessions/s", "per process"]


def test_numbers_between_commas():
    assert _numbers("1, 20,3") == (1, 20, 3)
    for wrong in ("", "1,,2", "0", "-1", "a"):
        with pytest.raises(Refused):
            _numbers(wrong)


def test_the_conversations_of_a_life_are_played_in_parts_of_bounded_size_and_all_of_them():
    for conversations in (2, 7, 400, 20_001):
        blocks = life_blocks(LoadPlan(conversations, 10, name="life"))
        assert sum(block.conversations for block in blocks) == conversations
        assert max(block.conversations for block in blocks) <= 200
        assert len({key for block in blocks for key in block.keys}) == conversations


def test_the_plots_of_a_life_leave_out_what_is_no_step():
    sizes = {"redis_mb": 2.0, "qdrant_mb": 3.0, "cold_mb": 0.5, "worker_peak_mb": 200.0}
    asked = {"ask_p50_ms": 9.0, "ask_p95_ms": 12.0, "ask_p99_ms": 15.0, "freeze_ms": 20.0, "thaw_ms": 30.0}
    long = asked | {"worker_peak_mb": 250.0}
    figures = {"conversations": {"10": sizes, "10, all cold": sizes, "20": sizes}, "long": {"5": long, "50": long}}
    where, memory, long_memory, asks, way = life_plots(figures)
    assert [series.x for series in (*where.series, *memory.series)] == [[10.0, 20.0]] * 4
    assert [(series.x, series.y) for series in long_memory.series] == [([5.0, 50.0], [250.0, 250.0])]
    assert [(series.label, series.x, series.y) for series in way.series] == [
        ("freeze_ms", [5.0, 50.0], [20.0, 20.0]),
        ("thaw_ms", [5.0, 50.0], [30.0, 30.0]),
    ]
    assert {series.label for series in asks.series} == {"ask_p50_ms", "ask_p95_ms", "ask_p99_ms"}
