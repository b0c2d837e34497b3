"""Generated conversations, and reports."""

import pytest

from eunoe.schemas.events import SessionEnded, Utterance
from tests.bench.load import LoadPlan, Talk, rounds, session_events
from tests.bench.pipeline import cut
from tests.bench.report import Plot, Series, as_markdown, grid, write_report


def test_the_same_seed_says_the_same_and_another_does_not():
    plan = LoadPlan(conversations=2, sessions=2, turns=3)
    assert list(rounds(plan)) == list(rounds(plan))
    assert list(rounds(plan)) != list(rounds(LoadPlan(conversations=2, sessions=2, turns=3, seed=2)))
    assert len(plan.keys) == 2


def test_a_session_is_its_utterances_and_its_end_and_goes_on_where_the_last_one_ended():
    plan = LoadPlan(conversations=1, sessions=2, turns=3, talk=Talk.TOPICS)
    first, second = rounds(plan)
    assert [type(event) for event in first] == [Utterance] * 3 + [SessionEnded]
    assert first[-1].at < second[0].at
    assert second == list(session_events(plan, 0, 2))
    ids = [event.utterance_id for event in (*first, *second) if isinstance(event, Utterance)]
    assert len(set(ids)) == 6


def test_a_report_says_where_and_how_it_was_measured(tmp_path):
    plot = Plot("cost", "sessions", "ms", [Series("all", [1, 10], [2.0, 2.5])])
    path = write_report(tmp_path, "growth", {"turns": 10}, {"cpu": 1.5, "stages": {"link": {"events": 3}}}, plot)
    text = path.read_text()
    assert "| cpu | 1.5 |" in text
    assert "| link | 3 |" in text
    assert '{"turns":10}' in text
    assert (tmp_path / "growth.png").stat().st_size > 1000
    assert (tmp_path / "growth.json").exists()


@pytest.mark.parametrize(("x", "scale"), [([1, 10], "linear"), ([10, 100, 1_000], "log"), ([0, 50], "linear")])
def test_the_axis_of_a_plot_is_logarithmic_where_it_spans_much(x, scale):
    assert Plot("cost", "sessions", "ms", [Series("all", x, x)]).scale == scale


def test_a_table_of_single_values_has_two_columns():
    where = dict.fromkeys(("at", "commit", "python", "system", "cores", "processor", "memory_gb", "load_1min"), "x")
    document = {"benchmark": "b", "surroundings": where, "settings": {}, "figures": {"redis": {"hget": 2}}}
    text = as_markdown(document, None)
    assert "| hget | 2 |" in text
    assert "| figure | value |" not in text, "no single figure, no table of them"


def test_a_percentile_lies_between_the_values():
    assert cut([1.0], 99) == 1.0
    assert cut([0.0, 10.0], 50) == 5.0
    assert cut([], 50) == 0.0


def test_rows_and_single_figures_make_one_table():
    heads, rows = grid({"idle": {"p50": 1.0}, "busy": {"p50": 2.0, "p95": 3.0}, "ratio": 2.0})
    assert heads == ["p50", "p95"]
    assert rows == {"idle": ["1.0", ""], "busy": ["2.0", "3.0"], "ratio": ["2.0", ""]}
    assert grid({"hget": 2}) == (["value"], {"hget": ["2"]})
