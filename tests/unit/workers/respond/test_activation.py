"""Base-level activation: lately and often, at event time, and nothing where it has no weight. Pure."""

from datetime import datetime, timedelta
from math import inf, isfinite

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eunoe.schemas.memory import Memory, Reinforcement
from eunoe.workers.respond.recall.activation import activation, by_activation, uses_of
from eunoe.workers.update.memories import summary_memories
from tests.support.in_memory import START
from tests.support.updates import formed

AGES = st.floats(0, 1e9)
"""Seconds before the ask."""
TIMES = st.lists(AGES, min_size=1, max_size=8)
ASKED = START + timedelta(days=12_000)


def times(ages: list[float]) -> list[datetime]:
    return [ASKED - timedelta(seconds=age) for age in ages]


@given(TIMES, st.randoms())
def test_it_is_finite_and_the_same_in_any_order(ages: list[float], chance):
    level = activation(times(ages), ASKED)
    assert level is not None
    assert isfinite(level)
    chance.shuffle(ages)
    assert activation(times(ages), ASKED) == pytest.approx(level, abs=1e-9)


@given(TIMES, AGES, st.floats(0, 1e9))
def test_more_uses_and_later_ones_raise_it(ages: list[float], more: float, later: float):
    level = activation(times(ages), ASKED) or -inf
    assert (activation(times([*ages, more]), ASKED) or -inf) > level
    nearer = [max(0.0, age - later) for age in ages]
    assert (activation(times(nearer), ASKED) or -inf) >= level - 1e-9


@given(TIMES, st.lists(st.floats(1, 1e9), max_size=4))
def test_what_comes_after_the_ask_changes_nothing(ages: list[float], after: list[float]):
    before = activation(times(ages), ASKED)
    assert activation([*times(ages), *(ASKED + timedelta(seconds=age) for age in after)], ASKED) == before
    assert activation([ASKED + timedelta(seconds=age) for age in after], ASKED) is None


def memory(session: int, *repeated: int) -> Memory:
    notes = tuple(Reinforcement(by=f"m{day}", session=day, at=START + timedelta(days=day)) for day in repeated)
    return summary_memories(formed(session, f"Ann {session}."))[0].model_copy(update={"reinforced": notes})


def test_repetitions_and_recency_move_a_memory_up_as_far_as_their_weight_goes():
    old, recent, repeated = memory(1), memory(9), memory(2, 7, 8)
    assert len(uses_of(repeated)) == 3
    found = [(old, 0.0328), (recent, 0.0320), (repeated, 0.0310)]
    asked = START + timedelta(days=10)
    assert by_activation(found, asked, 0.0, 60) == found
    assert by_activation(found, None, 1.0, 60) == found
    assert [one for one, _ in by_activation(found, asked, 0.1, 60)] == [old, recent, repeated]
    assert [one for one, _ in by_activation(found, asked, 10.0, 60)] == [repeated, recent, old]
    assert [score for _, score in by_activation(found, START - timedelta(days=1), 5.0, 60)] == [0.0328, 0.032, 0.031]
