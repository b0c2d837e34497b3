"""Blend in the pipeline: the ways of an ask, turns that are numbered and listed, failures, what comes twice."""

import pytest

from eunoe.schemas.decisions import Work
from eunoe.schemas.events import Ask, Line, ReplyContext, ReplyRequested
from eunoe.schemas.memory import InsightsProposed, MemoryOrigin
from eunoe.schemas.records import DeadLetterReason
from eunoe.streams.codec import encode
from eunoe.streams.position import LOG_TIME_HEADER, POSITION_HEADER
from eunoe.streams.record import Message
from eunoe.streams.topics import Topic
from eunoe.workers.blend.settings import BlendSettings
from eunoe.workers.derive.in_memory import InMemoryPipeline
from eunoe.workers.intake.settings import BlendMode, IntakeSettings
from eunoe.workers.registry import STAGES, StageSettings
from eunoe.workers.runner.decider import RunnerSettings
from eunoe.workers.stage import ApplyOrder
from eunoe.workers.update.reads import all_memories
from tests.support.in_memory import START, closed, ended, letter_reasons, make_pipeline, utterance

MOVED = "I moved to Lyon in May."
ADOPTED = "I adopted a cat called Tom."


def mode(blend: BlendMode) -> StageSettings:
    return StageSettings(intake=IntakeSettings(blend=blend))


EVERY_TURN = StageSettings(intake=IntakeSettings(blend_unasked=True))


def requested(pipeline: InMemoryPipeline) -> list[ReplyRequested]:
    return [event for event in pipeline.events(Topic.REPLY_REQUESTS) if isinstance(event, ReplyRequested)]


def contexts(pipeline: InMemoryPipeline) -> list[ReplyContext]:
    return [event for event in pipeline.events(Topic.REPLY_CONTEXTS) if isinstance(event, ReplyContext)]


def proposals(pipeline: InMemoryPipeline) -> list[InsightsProposed]:
    return [event for event in pipeline.events(Topic.MEMORIES) if isinstance(event, InsightsProposed)]


def asked(number: int, text: str = "", **more: object):
    return utterance(number, text, ask=Ask(request_id=f"r{number}"), **more)


# ---- the ways of an ask


async def test_before_the_reply_the_context_comes_from_blend_with_its_insights():
    pipeline = make_pipeline()
    await pipeline.produce(asked(1, MOVED))
    assert [(event.turn, event.reply_wanted) for event in requested(pipeline)] == [(1, True)]
    (context,) = contexts(pipeline)
    assert (context.infused, [insight.text for insight in context.insights]) == (True, ["Ann moved to Lyon in May."])
    assert [proposal.insights for proposal in proposals(pipeline)] == [context.insights]
    assert [reply.request_id for reply in pipeline.replies()] == ["r1"]


async def test_after_the_reply_both_go_their_ways():
    pipeline = make_pipeline(mode(BlendMode.AFTER_REPLY))
    await pipeline.produce(asked(1, MOVED), asked(2, ADOPTED))
    assert [(event.turn, event.reply_wanted) for event in requested(pipeline)] == [(1, False), (2, False)]
    assert [(event.infused, event.insights) for event in contexts(pipeline)] == [(False, ()), (False, ())]
    assert [[insight.text for insight in proposal.insights] for proposal in proposals(pipeline)] == [
        ["Ann moved to Lyon in May."],
        ["Ben adopted a cat called Tom."],
    ]
    assert [reply.request_id for reply in pipeline.replies()] == ["r1", "r2"]


async def test_switched_off_nothing_is_blended_or_numbered():
    pipeline = make_pipeline(mode(BlendMode.OFF))
    await pipeline.produce(asked(1, MOVED), ended())
    assert (requested(pipeline), proposals(pipeline)) == ([], [])
    assert [(event.infused, event.insights) for event in contexts(pipeline)] == [(False, ())]
    assert [session.turns for session in closed(pipeline)] == [()]
    assert [reply.request_id for reply in pipeline.replies()] == ["r1"]


@pytest.mark.parametrize("blend", list(BlendMode))
async def test_a_probe_is_never_blended(blend: BlendMode):
    pipeline = make_pipeline(mode(blend))
    probe = Ask(request_id="p", record=False)
    await pipeline.produce(utterance(1, MOVED), utterance(2, ADOPTED, ask=probe), asked(3), ended())
    blended = blend is not BlendMode.OFF
    assert [(event.turn, event.question.utterance_id) for event in requested(pipeline)] == [(1, "u3")] * blended
    assert sorted(reply.request_id for reply in pipeline.replies()) == ["p", "r3"]
    assert [session.turns for session in closed(pipeline)] == [(1,) if blended else ()]
    (context,) = (event for event in contexts(pipeline) if event.request.request_id == "p")
    assert (context.infused, context.insights) == (False, ())


async def test_turns_are_dense_over_sessions_and_listed_where_they_were_asked():
    pipeline = make_pipeline(StageSettings(intake=IntakeSettings(max_utterances=3)))
    await pipeline.produce(asked(1), utterance(2), asked(3), asked(4), utterance(5), utterance(6), ended())
    await pipeline.produce(utterance(7), ended(), asked(8, session_id="a"), ended("a"))
    await pipeline.produce(asked(9, session_id="b"), ended("b"))
    assert [event.turn for event in requested(pipeline)] == [1, 2, 3, 4, 5]
    assert [session.turns for session in closed(pipeline)] == [(1, 2), (3,), (), (4,), (5,)]
    assert [(proposal.session, proposal.turn) for proposal in proposals(pipeline)] == [
        (1, 1),
        (1, 2),
        (2, 3),
        (4, 4),
        (5, 5),
    ]
    assert [proposal.known_session for proposal in proposals(pipeline)] == [0, 0, 1, 3, 4]
    assert len(pipeline.replies()) == 5


async def test_the_same_ask_again_is_no_other_turn():
    pipeline = make_pipeline()
    await pipeline.produce(asked(1), asked(1), asked(3), ended())
    assert [event.turn for event in requested(pipeline)] == [1, 2]
    assert [session.turns for session in closed(pipeline)] == [(1, 2)]


@pytest.mark.parametrize("blend", [BlendMode.BEFORE_REPLY, BlendMode.AFTER_REPLY])
async def test_what_was_answered_long_ago_is_blended_again_and_not_answered(blend: BlendMode):
    said = [utterance(1), asked(2, MOVED), ended(), asked(3, ADOPTED), ended()]
    live, again = make_pipeline(mode(blend)), make_pipeline(mode(blend), epoch=1)
    await live.produce(*said)
    for offset, event in enumerate(said):
        headers = ((POSITION_HEADER, f"0:{offset}".encode()), (LOG_TIME_HEADER, b"2026-01-01T00:00:01Z"))
        await again.log.publish([Message(Topic.CONVERSATIONS, event.key.encode(), encode(event), headers)])
    await again.run_until_idle()
    assert contexts(again) == []
    assert [event.reply_wanted for event in requested(again)] == [False, False]
    assert proposals(again) == proposals(live)
    assert [session.turns for session in closed(again)] == [(1,), (2,)]


# ---- insights of what asks for nothing


async def test_what_asks_for_nothing_is_blended_only_where_a_setting_says_so():
    said = [utterance(1, MOVED), utterance(2, ADOPTED), ended()]
    without, pipeline = make_pipeline(), make_pipeline(EVERY_TURN)
    await without.produce(*said)
    await pipeline.produce(*said)
    assert (requested(without), proposals(without)) == ([], [])
    assert [(event.turn, event.request, event.reply_wanted) for event in requested(pipeline)] == [
        (1, None, False),
        (2, None, False),
    ]
    assert [[insight.text for insight in proposal.insights] for proposal in proposals(pipeline)] == [
        ["Ann moved to Lyon in May."],
        ["Ben adopted a cat called Tom."],
    ]
    assert (contexts(pipeline), pipeline.replies(), letter_reasons(pipeline.log)) == ([], [], [])
    assert [session.turns for session in closed(pipeline)] == [(1, 2)]
    memories = await all_memories(pipeline.store, "default/c")
    held = [(memory.origin, memory.text) for memory in memories if memory.ending is None]
    assert held == [
        (MemoryOrigin.INSIGHT, "Ann moved to Lyon in May."),
        (MemoryOrigin.INSIGHT, "Ben adopted a cat called Tom."),
    ]
    assert all(memory.ending is not None for memory in memories if memory.origin is MemoryOrigin.SUMMARY)


@pytest.mark.parametrize("blend", [BlendMode.BEFORE_REPLY, BlendMode.AFTER_REPLY])
async def test_asked_turns_and_others_are_numbered_together(blend: BlendMode):
    pipeline = make_pipeline(StageSettings(intake=IntakeSettings(blend=blend, blend_unasked=True)))
    probe = Ask(request_id="p", record=False)
    await pipeline.produce(utterance(1, MOVED), asked(2, ADOPTED), utterance(3, "And you?", ask=probe), ended())
    await pipeline.produce(asked(4), utterance(5), ended())
    first = blend is BlendMode.BEFORE_REPLY
    assert [(event.turn, event.question.utterance_id, event.reply_wanted) for event in requested(pipeline)] == [
        (1, "u1", False),
        (2, "u2", first),
        (3, "u4", first),
        (4, "u5", False),
    ]
    assert [session.turns for session in closed(pipeline)] == [(1, 2), (3, 4)]
    assert sorted(reply.request_id for reply in pipeline.replies()) == ["p", "r2", "r4"]
    told = {
        context.request.request_id: [insight.text for insight in context.insights] for context in contexts(pipeline)
    }
    assert told["r2"] == (["Ann moved to Lyon in May.", "Ben adopted a cat called Tom."] if first else [])


async def test_switched_off_the_setting_of_every_turn_means_nothing():
    pipeline = make_pipeline(StageSettings(intake=IntakeSettings(blend=BlendMode.OFF, blend_unasked=True)))
    await pipeline.produce(utterance(1, MOVED), asked(2), ended())
    assert (requested(pipeline), proposals(pipeline)) == ([], [])
    assert [session.turns for session in closed(pipeline)] == [()]


async def test_the_words_of_the_responder_are_no_turn_and_no_evidence():
    pipeline = make_pipeline(EVERY_TURN)
    await pipeline.produce(
        utterance(1, "Hello there!"), utterance(2, MOVED, reply_id="y"), utterance(3, "Oh, nice."), ended()
    )
    assert [event.question.utterance_id for event in requested(pipeline)] == ["u1", "u3"]
    assert [line.reply_id for line in requested(pipeline)[1].dialogue] == [None, "y"]
    assert [proposal.insights for proposal in proposals(pipeline)] == [(), ()]
    assert await all_memories(pipeline.store, "default/c") == []


# ---- order, failures, what comes twice


class Failing:
    """A stage that never decides."""

    async def decide(self, work: Work) -> None:
        raise ValueError("the blender is broken")


async def test_a_failing_blend_proposes_nothing_and_lets_the_asker_have_a_reply():
    pipeline = make_pipeline(
        runner_settings=RunnerSettings(attempts=2), wrap=lambda name, stage: Failing() if name == "blend" else stage
    )
    await pipeline.produce(asked(1, MOVED), ended(), utterance(2), ended())
    (proposal,) = proposals(pipeline)
    assert (proposal.session, proposal.turn, proposal.insights) == (1, 1, ())
    assert "ValueError at test_blend_pipeline.py" in proposal.because
    assert [(event.infused, event.insights) for event in contexts(pipeline)] == [(False, ())]
    assert [reply.request_id for reply in pipeline.replies()] == ["r1"]
    assert letter_reasons(pipeline.log) == [DeadLetterReason.FAILED]
    assert (await pipeline.store.scan("update", "default/c", "stats"))["stats"].count('"session":2') == 1


async def test_a_turn_that_comes_again_is_blended_once():
    pipeline = make_pipeline()
    await pipeline.produce(asked(1, MOVED), asked(2, ADOPTED))
    before = [encode(event) for event in (*proposals(pipeline), *contexts(pipeline), *pipeline.replies())]
    state = await pipeline.store.scan("blend", "default/c", "turns")
    for record in pipeline.log.records(Topic.REPLY_REQUESTS):
        await pipeline.log.publish([Message(Topic.REPLY_REQUESTS, record.key, record.value)])
    await pipeline.run_until_idle()
    assert [encode(event) for event in (*proposals(pipeline), *contexts(pipeline), *pipeline.replies())] == before
    assert await pipeline.store.scan("blend", "default/c", "turns") == state


def request(turn: int | None) -> Message:
    event = ReplyRequested(
        conversation_id="c",
        session=1,
        turn=turn,
        request=Ask(request_id="r"),
        question=Line(utterance_id="u", speaker="Ann", text=MOVED, at=START),
    )
    return Message(Topic.REPLY_REQUESTS, event.key.encode(), encode(event))


@pytest.mark.parametrize(
    ("turn", "reason"), [(2, DeadLetterReason.HELD), (None, DeadLetterReason.INVALID), (0, DeadLetterReason.INVALID)]
)
async def test_a_turn_out_of_order_is_set_aside(turn: int | None, reason: DeadLetterReason):
    pipeline = make_pipeline()
    await pipeline.log.publish([request(turn)])
    await pipeline.run_until_idle()
    assert letter_reasons(pipeline.log) == [reason]
    assert proposals(pipeline) == []


def test_blend_is_ordered_by_turns():
    spec = STAGES["blend"]
    assert (spec.order, spec.order.is_gapless) == (ApplyOrder.TURN, True)
    assert (spec.inputs, spec.outputs) == ((Topic.REPLY_REQUESTS,), (Topic.MEMORIES, Topic.REPLY_CONTEXTS))
    assert [order for order in ApplyOrder if order.is_gapless] == [ApplyOrder.SESSION, ApplyOrder.TURN]


async def test_an_ask_that_opens_a_session_waits_for_the_one_that_it_closes():
    """The session before is closed by the very utterance that asks, so its memory is yet to be made."""
    one_open = IntakeSettings(max_open_sessions=1)
    pipeline = make_pipeline(StageSettings(blend=BlendSettings(wait_s=None), intake=one_open))
    await pipeline.produce(utterance(1, MOVED, session_id="a"), asked(3, MOVED, session_id="b"))
    (proposal,) = proposals(pipeline)
    assert proposal.known_session == 1
    assert [(insight.kind.value, len(insight.replaces)) for insight in proposal.insights] == [("redundant", 1)]
