"""Single records that a producer may send and that once stopped a stage: they are dead letters, and work goes on."""

import pytest

from eunoe.schemas.events import DeadLetterReason, Reply
from eunoe.schemas.versions import ContractError
from eunoe.streams.codec import decode, encode
from eunoe.streams.position import LOG_TIME_HEADER, POSITION_HEADER
from eunoe.streams.record import Message
from eunoe.streams.topics import Topic
from eunoe.workers.runner.decider import RunnerSettings
from eunoe.workers.runner.failure_limit import FailureLimit
from tests.support.house import House, as_message, ended, utterance

EDGES = ("0001-01-01T00:00:00+01:00", "9999-12-31T23:59:59-01:00", "0001-01-01T00:00:00+23:59")
"""Times of the calendar's first and last hours: in UTC they lie outside of it."""


async def answered(house: House, conversation: str = "bystander") -> Reply:
    """The reply to an ask of another conversation, which nothing may keep from it."""
    ask = utterance(1, "What did I say?", conversation=conversation, ask={"request_id": f"r-{conversation}"})
    await house.say(ask)
    return next(reply for reply in house.replies() if reply.request_id == f"r-{conversation}")


def reasons(house: House) -> list[str]:
    """The reasons of all dead letters, in their order."""
    found = (record.headers["eunoe-dead-letter"] for record in house.log.records(Topic.DEAD_LETTERS))
    return [decode(header).reason for header in found]  # type: ignore[attr-defined]


@pytest.mark.parametrize("at", EDGES)
async def test_a_time_at_the_edge_of_the_calendar(at: str) -> None:
    value = encode(utterance(1)).replace(b'"2026-01-01T00:01:00Z"', f'"{at}"'.encode())
    assert at.encode() in value
    with pytest.raises(ContractError) as caught:
        decode(value)
    assert caught.value.reason is DeadLetterReason.INVALID
    house = House()
    await house.produce(value, b"default/c")
    assert reasons(house) == ["invalid"]
    assert (await answered(house)).request_id


async def test_a_position_that_was_never_given() -> None:
    house = House()
    claim = as_message(utterance(1))
    headers = ((POSITION_HEADER, b"8388607:1099511627774"), (LOG_TIME_HEADER, b"2026-01-01T00:00:00Z"))
    await house.log.publish([Message(claim.topic, claim.key, claim.value, headers)])
    await house.say(utterance(2), ended())
    assert reasons(house) == ["invalid"]
    assert [event.lines[0].utterance_id for event in house.events(Topic.SESSIONS)] == ["u2"]  # type: ignore[attr-defined]
    assert (await answered(house)).request_id


@pytest.mark.parametrize("conversation", ["x" * 200, "記" * 200, "é" * 100, "a/b:{c}@" * 25])
async def test_a_long_conversation_id_fails_and_waits_like_any_other(conversation: str) -> None:
    def failing(name: str, stage: object) -> object:
        return Raising() if name == "segment" else stage

    class Raising:
        async def decide(self, work: object) -> object:
            raise ValueError("a fault of the stage")

    house = House(wrap=failing, runner_settings=RunnerSettings(attempts=1, failures=FailureLimit(share=1.0)))
    await house.say(utterance(1, conversation=conversation), ended(conversation=conversation))
    assert "failed" in reasons(house)
    names = [event.request for event in house.events(Topic.ANSWERS)]  # type: ignore[attr-defined]
    assert names
    assert all(len(name) <= 200 for name in names)
    assert (await answered(house)).request_id
