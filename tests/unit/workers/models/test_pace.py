"""How many calls at once an endpoint is asked."""

from hypothesis import given
from hypothesis import strategies as st

from eunoe.workers.models.endpoint.pace import Pace

LIMIT_S = 60.0


def answered(pace: Pace, *took_s: float, at: float = 59.0) -> None:
    for seconds in took_s:
        pace.answered(at - seconds, at, LIMIT_S)


def test_calls_that_waited_for_others_at_the_endpoint_lower_the_number_to_half_of_what_was_answered():
    pace = Pace(256)
    answered(pace, 20.0, 40.0, 55.0, 58.0)
    assert pace.timed_out(0.0, 60.0, held=16)
    assert pace.allowed == 2


def test_of_calls_that_were_sent_together_only_the_first_lowers_the_number():
    pace = Pace(256)
    answered(pace, *[50.0] * 20)
    assert pace.timed_out(0.0, 60.0, held=64)
    lowered = pace.allowed
    assert pace.timed_out(0.0, 60.1, held=63), "it waited, too"
    assert pace.allowed == lowered == 10


def test_a_call_that_is_slow_while_others_are_answered_early_did_not_wait():
    pace = Pace(256)
    answered(pace, *[2.0] * 9, 59.0)
    assert not pace.timed_out(0.0, 60.0, held=50)
    assert pace.allowed == 256


def test_a_call_that_is_slow_alone_did_not_wait():
    pace = Pace(256)
    answered(pace, 55.0)
    assert not pace.timed_out(0.0, 60.0, held=1)
    assert pace.allowed == 256


def test_where_nothing_is_answered_fewer_are_asked_and_nothing_is_known_of_waiting():
    pace = Pace(256)
    answered(pace, 1.0, at=-5.0)
    assert not pace.timed_out(0.0, 60.0, held=40)
    assert pace.allowed == 1


def test_early_answers_allow_more_again_up_to_the_whole_number():
    pace = Pace(8)
    assert not pace.timed_out(0.0, 60.0, held=8)
    answered(pace, 1.0, 14.0, 16.0, 59.0, at=120.0)
    assert pace.allowed == 3, "late answers allow no more"
    answered(pace, *[1.0] * 20, at=130.0)
    assert pace.allowed == 8


@given(
    st.integers(1, 300),
    st.lists(st.tuples(st.booleans(), st.floats(0.0, 100.0), st.floats(0.1, 100.0), st.integers(1, 300)), max_size=60),
)
def test_at_least_one_call_and_at_most_the_whole_number_is_allowed(
    total: int, events: list[tuple[bool, float, float, int]]
):
    pace, now = Pace(total), 0.0
    for came, passes, took, held in events:
        now += passes
        if came:
            pace.answered(now - took, now, LIMIT_S)
        else:
            pace.timed_out(now - LIMIT_S, now, min(held, total))
        assert 1 <= pace.allowed <= total
