"""What is counted of a committed decision."""

import asyncio
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from eunoe.schemas.base import Contract
from eunoe.schemas.decisions import Decision, Scope, Work
from eunoe.schemas.events import Ask, Line, Provenance, ReplyContext, SessionSegmented, SessionSkipped, Strategy
from eunoe.schemas.memory import MemoriesFormed, MemoryDraft
from eunoe.schemas.replies import Freshness, Reply
from eunoe.streams.record import Record
from eunoe.streams.topics import Topic
from eunoe.streams.tracing import current
from eunoe.workers.models.questions.metering import DecidedBy, ItemCounts, ItemOutcome, count_items, noting_answers
from eunoe.workers.registry import STAGES
from eunoe.workers.runner.inbound import OrderedEvent
from eunoe.workers.runner.metrics import SessionOutcome, StageMeter
from eunoe.workers.runner.observer import Observer
from tests.support.in_memory import START

MADE_BY = Provenance(code="x/1", model="none")
SAID = Line(utterance_id="u1", speaker="Ann", text="I moved to Lyon.", at=START)
ANSWERED = Line(utterance_id="u2", speaker="assistant", text="You moved.", at=START, reply_id="r")


def counted(stage: str, event: Any, *made: Contract, by: DecidedBy = DecidedBy.MODEL) -> StageMeter:
    """The counters of a stage after one decision on an event."""
    meter = StageMeter()
    observer = Observer(STAGES[stage], meter, lambda: START + timedelta(seconds=5))
    work: Work[Any] = Work("default/c", (event,), 1, START)
    record = Record(Topic.SEGMENTS, 0, 0, b"default/c", b"", round(START.timestamp() * 1000))
    ordered = OrderedEvent(event, record, Scope(stage, "default/c"), 1, START, replayed=False)
    observer.committed(ordered, work, (Decision(events=made), by), current())
    return meter


def segmented(*lines: Line) -> SessionSegmented:
    return SessionSegmented(conversation_id="c", session=1, lines=lines, known_from=START, spans=(), made_by=MADE_BY)


def formed(*drafts: MemoryDraft) -> MemoriesFormed:
    return MemoriesFormed(conversation_id="c", session=1, drafts=drafts, known_from=START, made_by=MADE_BY)


@pytest.mark.parametrize(
    ("lines", "drafts", "outcome"),
    [
        ((SAID,), (MemoryDraft(speaker="Ann", text="Ann moved to Lyon.", evidence=(SAID,)),), SessionOutcome.MEMORIES),
        ((SAID, ANSWERED), (), SessionOutcome.NONE_FOUND),
        ((ANSWERED,), (), SessionOutcome.NO_EVIDENCE),
    ],
)
def test_a_session_counts_by_what_it_gave(lines: tuple[Line, ...], drafts: tuple[Any, ...], outcome: SessionOutcome):
    meter = counted("summarize", segmented(*lines), formed(*drafts))
    assert {one: count for one, count in meter.sessions.items() if count} == {outcome: 1}
    assert meter.freshness.sum_s == 5


def test_a_session_that_is_passed_on_as_skipped_counts_at_the_summary_alone():
    skipped = SessionSkipped(conversation_id="c", session=1, stage="segment", error="x")
    assert counted("summarize", skipped, skipped).sessions[SessionOutcome.SKIPPED] == 1
    assert counted("update", skipped, skipped).sessions[SessionOutcome.SKIPPED] == 0


@pytest.mark.parametrize(("closed", "behind"), [(4, "0"), (5, "1"), (6, "2"), (9, "more"), (3, "0")])
def test_a_reply_counts_by_what_it_knew(closed: int, behind: str):
    asked = ReplyContext(conversation_id="c", session=9, request=Ask(request_id="r"), question=SAID, infused=True)
    reply = Reply(
        conversation_id="c", reply_id="p", request_id="r", speaker="assistant", text="Lyon", strategy=Strategy.FUSED,
        known_session=4, freshness=Freshness(session=4, closed=closed), made_by=MADE_BY,
    )  # fmt: skip
    assert counted("respond", asked, reply).replies["true", behind] == 1
    failed = reply.model_copy(update={"freshness": None, "error": "x"})
    assert not any(counted("respond", asked, failed).replies.values())


def test_a_decision_counts_by_who_made_it():
    assert counted("update", segmented(SAID), by=DecidedBy.FALLBACK).decisions[DecidedBy.FALLBACK] == 1


@pytest.mark.parametrize(
    ("outcomes", "by"),
    [
        ((), DecidedBy.OFFLINE),
        ((ItemOutcome.MODEL, ItemOutcome.SALVAGED), DecidedBy.MODEL),
        ((ItemOutcome.MODEL, ItemOutcome.OFFLINE, ItemOutcome.CORRECTED), DecidedBy.FALLBACK),
    ],
)
async def test_the_answers_that_a_decision_had_tell_who_made_it(outcomes: tuple[ItemOutcome, ...], by: DecidedBy):
    model: Any = SimpleNamespace(items=ItemCounts())

    async def ask(outcome: ItemOutcome) -> None:
        count_items(model, "update/1", outcome)

    with noting_answers() as answers:
        await asyncio.gather(*(ask(outcome) for outcome in outcomes))  # in tasks of their own
    count_items(model, "update/1", ItemOutcome.OFFLINE)  # of another decision
    assert answers.by is by
