"""The limit of a stage's own failures."""

from dataclasses import replace
from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eunoe.deploy.process.self_test import self_test
from eunoe.schemas.events import SessionClosed
from eunoe.schemas.model_ports import AnswerT, Prompt
from eunoe.schemas.records import DeadLetterReason
from eunoe.workers.registry import STAGES, StageSettings
from eunoe.workers.runner.failure_limit import FailureLimit, FailureWindow, TooManyFailures
from eunoe.workers.runner.ordinary import is_ordinary
from tests.support.contracts import calm
from tests.support.in_memory import START, Stores, make_dependencies
from tests.support.runner_bench import Bench, Script, closed

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
        TooManyFailures, match=r"segment failed at 6 of its last 6 conversations.*ValueError at runner_bench.py"
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
        await bench.runner.handle(bench.record(b"no json"), None)
    assert bench.letters() == [DeadLetterReason.NOT_JSON] * 50


def odd(number: int) -> SessionClosed:
    event = closed(1, conversation=f"c{number}")
    return event.model_copy(update={"lines": (event.lines[0].model_copy(update={"text": "'" * 40}),)})


@pytest.mark.parametrize("passes", [True, False])
async def test_odd_events_stop_a_stage_only_if_it_fails_its_self_test_too(passes: bool):
    tests = []

    async def self_test() -> bool:
        tests.append(passes)
        return passes

    bench = Bench(Script(ValueError("only odd texts")), STAGES["segment"])
    bench.runner._decider._self_test = self_test
    if passes:
        await bench.handle(*map(odd, range(30)))
        assert bench.letters() == [DeadLetterReason.FAILED] * 30
        assert len(tests) == 1, "one result counts for a minute"
    else:
        with pytest.raises(TooManyFailures):
            await bench.handle(*map(odd, range(30)))
        assert bench.letters() == [DeadLetterReason.FAILED] * 5


async def test_ordinary_events_of_several_conversations_stop_it_whatever_the_self_test_says():
    async def passes() -> bool:
        return True

    bench = Bench(Script(ValueError("bad prompt")), STAGES["segment"])
    bench.runner._decider._self_test = passes
    with pytest.raises(TooManyFailures):
        await bench.handle(*(closed(1, conversation=f"c{number}") for number in range(30)))


@pytest.mark.parametrize(
    ("text", "at", "ordinary"),
    [
        ("I moved to Lyon because I found a job: “nurse”!!! 😀", START, True),
        ("昨日、リヨンに引っ越しました。", START, True),
        ("x" * 65, START, False),
        ("?" * 9, START, False),
        ("a\u202eb", START, False),
        ("fine. " * 1_000, START, False),
        ("fine", START.replace(year=2125), False),
    ],
)
def test_ordinary_texts_and_times(text: str, at: datetime, ordinary: bool):
    event = closed(1)
    line = event.lines[0].model_copy(update={"text": text, "at": at})
    assert is_ordinary((event.model_copy(update={"lines": (line,)}),), START) is ordinary


class Unasked:
    """A language model that must not be asked."""

    name = "unasked"

    async def answer(self, prompt: Prompt, form: type[AnswerT], *, urgent: bool = False) -> AnswerT:
        raise AssertionError("the self-test asked the model")


@pytest.mark.parametrize("name", STAGES)
async def test_every_stage_passes_its_self_test_and_fails_it_when_it_raises(name: str, monkeypatch: pytest.MonkeyPatch):
    dependencies = make_dependencies(Stores(), StageSettings(), language=Unasked())
    assert await self_test(dependencies, name)()
    broken = replace(STAGES[name], build=lambda _: Script(ValueError("bad deploy")))
    monkeypatch.setattr("eunoe.workers.derive.in_memory.STAGES", {**STAGES, name: broken})
    assert not await self_test(dependencies, name)()
