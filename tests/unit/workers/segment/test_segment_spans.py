"""Spans: what tiles a session, how long ones are windowed and put together again."""

from datetime import UTC, datetime
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eunoe.schemas.events import Line, Span
from eunoe.workers.segment.spans import exchanges, spans_from, stitch, windows

AT = datetime(2026, 3, 1, tzinfo=UTC)


def spoken(*speakers: str) -> list[Line]:
    return [Line(utterance_id=f"u{i}", speaker=name, text="words", at=AT) for i, name in enumerate(speakers)]


def pairs(spans: tuple[Span, ...]) -> list[tuple[int, int]]:
    return [(span.first, span.last) for span in spans]


def tiles(spans: tuple[Span, ...], n: int) -> bool:
    return [i for span in spans for i in range(span.first, span.last + 1)] == list(range(n)) and all(
        span.first <= span.last for span in spans
    )


@given(st.integers(0, 60), st.sets(st.integers(-5, 70)))
def test_starts_give_a_tiling(n, starts):
    assert tiles(spans_from(starts, n), n)


@pytest.mark.parametrize(
    ("speakers", "expected"),
    [
        ("ABABA", [(0, 1), (2, 3), (4, 4)]),
        ("AABBAB", [(0, 3), (4, 5)]),
        ("AAA", [(0, 2)]),
        ("ABCBA", [(0, 2), (3, 4)]),
        ("", []),
    ],
)
def test_an_exchange_is_a_turn_and_its_answers(speakers, expected):
    assert pairs(exchanges(spoken(*speakers))) == expected


@given(st.text("ABC", max_size=40))
def test_exchanges_tile(speakers):
    assert tiles(exchanges(spoken(*speakers)), len(speakers))


@given(st.lists(st.integers(1, 50), max_size=60), st.integers(1, 120), st.integers(0, 12))
def test_windows_keep_the_budget_and_reach_everything(costs, budget, overlap):
    found = windows(costs, budget, overlap)
    assert {i for w in found for i in range(w.first, w.last + 1)} == set(range(len(costs)))
    assert all(sum(costs[w.first : w.last + 1]) <= budget or w.first == w.last for w in found)
    for one, next_ in pairwise(found):
        assert one.first < next_.first <= one.last + 1
        assert one.last < next_.last
        assert one.last + 1 - next_.first <= overlap


def test_windows_share_what_fits():
    assert pairs(windows([10] * 10, 50, 2)) == [(0, 4), (3, 7), (6, 9)]
    assert pairs(windows([10] * 4, 40, 2)) == [(0, 3)]
    assert pairs(windows([90, 90], 50, 2)) == [(0, 0), (1, 1)]


def test_neighbours_join_at_a_boundary_common_to_both():
    left = spans_from([3, 6, 8], 10)
    right = [Span(first=5, last=5), Span(first=6, last=8), Span(first=9, last=14)]
    assert pairs(stitch([left, right])) == [(0, 2), (3, 5), (6, 8), (9, 14)]


def test_where_they_agree_on_none_a_segment_runs_across():
    left = spans_from([4, 6], 10)
    right = [Span(first=5, last=8), Span(first=9, last=14)]
    assert pairs(stitch([left, right])) == [(0, 3), (4, 5), (6, 8), (9, 14)]
    assert pairs(stitch([spans_from([7], 10), [Span(first=5, last=14)]])) == [(0, 14)]


@given(st.data(), st.lists(st.integers(1, 50), min_size=1, max_size=60), st.integers(1, 120), st.integers(0, 12))
def test_stitched_windows_tile_the_session(data, costs, budget, overlap):
    parts = []
    for window in windows(costs, budget, overlap):
        n = window.last - window.first + 1
        inner = spans_from(data.draw(st.sets(st.integers(0, n))), n)
        parts.append([Span(first=window.first + s.first, last=window.first + s.last) for s in inner])
    stitched = stitch(parts)
    assert tiles(stitched, len(costs))
    known = {span.first for part in parts for span in part}
    assert {span.first for span in stitched} <= known


@given(st.sets(st.integers(1, 59)), st.integers(5, 30), st.integers(1, 4))
def test_windows_that_agree_stitch_to_what_they_agree_on(starts, budget, overlap):
    cuts = {0, *starts}
    parts = []
    for window in windows([1] * 60, budget, overlap):
        inner = spans_from({cut - window.first for cut in cuts}, window.last - window.first + 1)
        parts.append([Span(first=window.first + s.first, last=window.first + s.last) for s in inner])
    assert {span.first for span in stitch(parts)} == cuts
