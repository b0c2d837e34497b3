"""The decision of a failure."""

from typing import Any

import pytest

from eunoe.schemas.decisions import Decision, Work
from eunoe.schemas.events import Ask, ReplyContext, ReplyRequested
from eunoe.schemas.replies import Reply
from eunoe.workers.registry import STAGES
from eunoe.workers.respond.settings import RespondSettings
from eunoe.workers.respond.stage import RespondStage
from eunoe.workers.runner.decider import Decider, DecisionResult
from eunoe.workers.runner.faults import MAX_ERROR_CHARS
from eunoe.workers.runner.metrics import StageMeter
from eunoe.workers.runner.recorded_outcomes import RecordedOutcome
from tests.support.in_memory import START, Stores
from tests.support.runner_bench import QUICK, Lease, Script, closed

LONG = "x" * 900


def asked(form: type[Any], **fields: Any) -> Any:
    question = closed(1).lines[0]
    return form(conversation_id="c", session=1, request=Ask(request_id="r"), question=question, dialogue=(), **fields)


async def failed(name: str, stage: object, event: Any) -> tuple[Decision, list[str]]:
    """The decision after a recorded failure of 900 characters, and the errors that its events carry."""
    work = Work(key="default/c", events=(event,), number=1, log_time=START)
    decider = Decider(STAGES[name], stage, QUICK, StageMeter())
    result = await decider.decide(work, Lease(), RecordedOutcome(failed=LONG, attempts=3))
    assert isinstance(result, DecisionResult)
    told = [getattr(one, "error", None) or getattr(one, "because", None) for one in result.decision.events]
    return result.decision, [error for error in told if error is not None]


@pytest.mark.parametrize(("name", "event"), [
    ("segment", closed(1)),
    ("blend", asked(ReplyRequested, turn=1, reply_wanted=False)),
    ("respond", asked(ReplyContext, infused=False)),
])  # fmt: skip
async def test_events_carry_the_beginning_of_a_long_error_and_the_dead_letter_all_of_it(name: str, event: Any) -> None:
    decision, told = await failed(name, Script(Decision()), event)
    assert told == [LONG[:MAX_ERROR_CHARS]]
    assert decision.rejection is not None
    assert decision.rejection.error == LONG


async def test_a_stage_that_reports_its_failures_itself_gets_no_longer_error() -> None:
    stage = RespondStage(Stores().state, {}, None, RespondSettings())
    decision, told = await failed("respond", stage, asked(ReplyContext, infused=False))
    assert isinstance(decision.events[0], Reply)
    assert told == [LONG[:MAX_ERROR_CHARS]]
