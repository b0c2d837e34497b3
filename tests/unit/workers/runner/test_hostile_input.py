"""Single records that a producer may send and that once stopped a stage: they are dead letters, and work goes on."""

import dataclasses
from typing import Any

import pytest

from eunoe.schemas.decisions import Decision, Outcome, Work
from eunoe.schemas.events import SessionSkipped
from eunoe.schemas.records import DeadLetterReason, GenerationPromoted
from eunoe.schemas.replies import Reply
from eunoe.schemas.versions import ContractError
from eunoe.streams.codec import decode, encode
from eunoe.streams.position import LOG_TIME_HEADER, POSITION_HEADER
from eunoe.streams.record import Message
from eunoe.streams.topics import DEFAULT_MAX_BYTES, Topic
from eunoe.workers.derive.in_memory import InMemoryPipeline, as_message
from eunoe.workers.registry import StageSettings
from eunoe.workers.respond.settings import RespondSettings
from eunoe.workers.runner.decider import RunnerSettings
from eunoe.workers.runner.failure_limit import FailureLimit
from eunoe.workers.stage import Stage
from tests.support.in_memory import START, ended, make_pipeline, produce_raw, utterance

EDGES = ("0001-01-01T00:00:00+01:00", "9999-12-31T23:59:59-01:00", "0001-01-01T00:00:00+23:59")
"""Times of the calendar's first and last hours: in UTC they lie outside of it."""


async def answered(pipeline: InMemoryPipeline, conversation: str = "bystander") -> Reply:
    """The reply to an ask of another conversation, which nothing may keep from it."""
    ask = utterance(1, "What did I say?", conversation=conversation, ask={"request_id": f"r-{conversation}"})
    await pipeline.produce(ask)
    return next(reply for reply in pipeline.replies() if reply.request_id == f"r-{conversation}")


def reasons(pipeline: InMemoryPipeline) -> list[str]:
    """The reasons of all dead letters, in their order."""
    found = (record.headers["eunoe-dead-letter"] for record in pipeline.log.records(Topic.DEAD_LETTERS))
    return [decode(header).reason for header in found]  # type: ignore[attr-defined]


@pytest.mark.parametrize("at", EDGES)
async def test_a_time_at_the_edge_of_the_calendar(at: str) -> None:
    value = encode(utterance(1)).replace(b'"2026-01-01T00:01:00Z"', f'"{at}"'.encode())
    assert at.encode() in value
    with pytest.raises(ContractError) as caught:
        decode(value)
    assert caught.value.reason is DeadLetterReason.INVALID
    pipeline = make_pipeline()
    await produce_raw(pipeline, value, b"default/c")
    assert reasons(pipeline) == ["invalid"]
    assert (await answered(pipeline)).request_id


@pytest.mark.parametrize("at", ["9999-12-31T00:00:00Z", "0001-01-02T00:00:00Z", "1700-01-01T00:00:00Z"])
async def test_a_time_beyond_all_clocks(at: str) -> None:
    pipeline = make_pipeline()
    await pipeline.produce(utterance(1, "Tomorrow we move to Lyon.", at=at), utterance(2), ended())
    assert reasons(pipeline) == ["invalid"]
    assert (await answered(pipeline)).error is None


async def test_a_position_that_was_never_given() -> None:
    pipeline = make_pipeline()
    claim = as_message(utterance(1))
    headers = ((POSITION_HEADER, b"8388607:1099511627774"), (LOG_TIME_HEADER, b"2026-01-01T00:00:00Z"))
    await pipeline.log.publish([Message(claim.topic, claim.key, claim.value, headers)])
    await pipeline.produce(utterance(2), ended())
    assert reasons(pipeline) == ["invalid"]
    assert [event.lines[0].utterance_id for event in pipeline.events(Topic.SESSIONS)] == ["u2"]  # type: ignore[attr-defined]
    assert (await answered(pipeline)).request_id


@pytest.mark.parametrize("conversation", ["x" * 200, "記" * 200, "é" * 100, "a/b:{c}@" * 25])
async def test_a_long_conversation_id_fails_and_waits_like_any_other(conversation: str) -> None:
    def failing(name: str, stage: object) -> object:
        return Raising() if name == "segment" else stage

    class Raising:
        async def decide(self, work: object) -> object:
            raise ValueError("a fault of the stage")

    pipeline = make_pipeline(wrap=failing, runner_settings=RunnerSettings(attempts=1, failures=FailureLimit(share=1.0)))
    await pipeline.produce(utterance(1, conversation=conversation), ended(conversation=conversation))
    assert "failed" in reasons(pipeline)
    names = [event.request for event in pipeline.events(Topic.ANSWERS)]  # type: ignore[attr-defined]
    assert names
    assert all(len(name) <= 200 for name in names)
    assert (await answered(pipeline)).request_id


class Verbose:
    """A stage whose decision is more than a topic takes."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage

    async def decide(self, work: Work[Any]) -> Outcome:
        decision = await self._stage.decide(work)
        if not isinstance(decision, Decision) or "bystander" in work.key:
            return decision
        return dataclasses.replace(decision, events=tuple(map(_swollen, decision.events)))


def _swollen(event: Any) -> Any:
    more = "x" * DEFAULT_MAX_BYTES
    if isinstance(event, Reply):
        return event.model_copy(update={"context": more})
    line = event.lines[0].model_copy(update={"text": more})
    return event.model_copy(update={"lines": (line, *event.lines[1:])})


@pytest.mark.parametrize("stage", ["intake", "segment", "respond"])
async def test_a_decision_that_is_too_large_is_a_failed_one(stage: str) -> None:
    """It is never committed: an outbox that cannot be sent would hold its conversation for ever."""
    pipeline = make_pipeline(wrap=lambda name, built: Verbose(built) if name == stage else built)
    ask = utterance(1, "What did I say?", ask={"request_id": "r1"})
    await pipeline.produce(ask, utterance(2), ended())
    assert "failed" in reasons(pipeline)
    if stage == "respond":
        (reply,) = pipeline.replies()
        assert "too large" in (reply.error or "")
    if stage == "segment":
        assert [type(event) for event in pipeline.events(Topic.SEGMENTS)] == [SessionSkipped]
    assert (await answered(pipeline)).error is None
    await pipeline.produce(utterance(3), ended())
    assert len(pipeline.events(Topic.SEGMENTS)) == (0 if stage == "intake" else 2)


async def test_a_budget_beyond_all_measure_counts_as_the_largest() -> None:
    pipeline = make_pipeline(StageSettings(respond=RespondSettings(max_budget_tokens=20)))
    await pipeline.produce(*[utterance(number, "My sister has moved to Lyon. " * 5) for number in range(1, 9)], ended())
    await pipeline.produce(utterance(9, "Where is my sister?", ask={"request_id": "r", "budget_tokens": 1_000_000}))
    (reply,) = pipeline.replies()
    assert reply.context_tokens <= 20


@pytest.mark.parametrize("nonce", [None, "guessed", "used"])
async def test_a_promotion_that_nobody_announced(nonce: str | None) -> None:
    pipeline = make_pipeline()
    pipeline.log_positions.announced["used"] = "v2"
    promoted = GenerationPromoted(generation="v2", at=START, nonce=nonce)
    for partition in range(pipeline.log.partitions):
        if nonce == "used":  # read in the log, and produced again
            assert await pipeline.log_positions.was_announced(partition, 999, "v2", nonce)
        await produce_raw(pipeline, encode(promoted), None, partition)
    assert reasons(pipeline) == ["invalid"] * pipeline.log.partitions
    assert (await answered(pipeline)).error is None


async def test_an_end_that_a_producer_repeats_closes_no_later_session() -> None:
    pipeline, end = make_pipeline(), ended()
    await pipeline.produce(utterance(1), end, utterance(2), end, utterance(3), ended())
    sessions = pipeline.events(Topic.SESSIONS)
    assert [[line.utterance_id for line in session.lines] for session in sessions] == [["u1"], ["u2", "u3"]]  # type: ignore[attr-defined]


async def test_a_request_id_that_is_used_again_gets_an_answer_again() -> None:
    pipeline = make_pipeline()
    await pipeline.produce(utterance(1, "My sister lives in Lyon."), utterance(3, "My brother lives in Oslo."), ended())
    for number, question in ((5, "Where does my sister live?"), (7, "Where does my brother live?")):
        await pipeline.produce(utterance(number, question, ask={"request_id": "r", "record": False}))
    replies = pipeline.replies()
    assert [reply.request_id for reply in replies] == ["r", "r"]
    assert ["Lyon" in replies[0].text, "Oslo" in replies[1].text] == [True, True]
    assert replies[0].reply_id != replies[1].reply_id, "both can be uttered"
    await pipeline.produce(utterance(7, "Where does my brother live?", ask={"request_id": "r", "record": False}))
    assert len(pipeline.replies()) == 2, "the same utterance again is a producer's repetition"


async def test_nobody_is_told_what_an_exception_quotes(caplog: pytest.LogCaptureFixture) -> None:
    class Quoting:
        async def decide(self, work: Work[Any]) -> Outcome:
            raise ValueError(f"cannot read {work.events[0]!r}")

    pipeline = make_pipeline(wrap=lambda name, stage: Quoting() if name == "respond" else stage)
    await pipeline.produce(utterance(1, "My secret is 4711.", ask={"request_id": "r"}))
    (reply,) = pipeline.replies()
    assert (reply.error or "").startswith("ValueError at test_hostile_input.py:")
    (letter,) = pipeline.log.records(Topic.DEAD_LETTERS)
    assert b"4711" not in letter.headers["eunoe-dead-letter"]
    assert "ValueError" in caplog.text
    assert "4711" not in caplog.text
