"""The limit of a stage's own failures."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eunoe.schemas.events import DeadLetterReason
from eunoe.workers.registry import STAGES
from eunoe.workers.runner.failure_limit import FailureLimit, FailureWindow, TooManyFailures
from tests.support.contracts import calm
from tests.unit.test_runner import Bench, Script, closed

LIMIT = FailureLimit(share=0.25, window=40, least=8)


def window(limit: FailureLimit, decisions: list[bool]) -> FailureWindow:
    found = FailureWindow(limit)
    for number, failed in enumerate(decisions):
        found.note(f"acme/c{number}", failed=failed)
    return found


@calm
@given(st.lists(st.booleans(), max_size=120))
def test_it_is_over_when_more_than_the_share_of_the_last_decisions_failed(decisions: list[bool]):
    last = decisions[-LIMIT.window :]
    assert window(LIMIT, decisions).is_over == (sum(last) > 0.25 * max(len(last), 8))


@calm
@given(st.lists(st.booleans(), max_size=120), st.lists(st.booleans(), min_size=40, max_size=80))
def test_what_lies_before_the_window_counts_for_nothing(before: list[bool], after: list[bool]):
    assert window(LIMIT, before + after).is_over == window(LIMIT, after).is_over


@calm
@given(st.lists(st.booleans(), max_size=300))
def test_a_share_of_one_is_no_limit(decisions: list[bool]):
    assert not window(FailureLimit(share=1.0, window=40, least=1), decisions).is_over


async def test_a_stage_that_fails_at_unrelated_conversations_stops_before_it_drains_its_topic():
    bench = Bench(Script(ValueError("bad deploy")), STAGES["segment"])
    with pytest.raises(
        TooManyFailures, match=r"segment failed at 6 of its last 6 conversations.*ValueError at test_runner.py"
    ):
        await bench.handle(*(closed(1, conversation=f"c{number}") for number in range(50)))
    assert bench.letters() == [DeadLetterReason.FAILED] * 5


async def test_one_conversation_that_always_fails_never_stops_a_stage():
    bench = Bench(Script(ValueError("only here")), STAGES["segment"])
    await bench.handle(*map(closed, range(1, 50)))
    assert bench.letters() == [DeadLetterReason.FAILED] * 49
    assert await bench.applied() == 49


async def test_what_clients_did_wrong_is_no_failure_of_the_stage():
    bench = Bench(Script(ValueError("never asked")), STAGES["segment"])
    for _ in range(50):
        await bench.runner.handle(bench.record(b"no json"), None)  # type: ignore[arg-type]
    assert bench.letters() == [DeadLetterReason.NOT_JSON] * 50
