"""Several sessions open at once in one conversation: lines, numbers, insights, idle ends, and the same in a replay."""

import json
from collections import defaultdict
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eunoe.schemas.decisions import Scope
from eunoe.schemas.events import Ask, CloseReason, ConversationEvent, ReplyContext, SessionClosed, SessionEnded
from eunoe.schemas.memory import MemoryOrigin
from eunoe.schemas.records import DeadLetterReason
from eunoe.streams.topics import Topic
from eunoe.workers.derive.in_memory import InMemoryPipeline
from eunoe.workers.derive.pipeline import TABLES, Deriver
from eunoe.workers.intake.head import Head
from eunoe.workers.intake.settings import IntakeSettings
from eunoe.workers.intake.state import HEAD
from eunoe.workers.registry import StageSettings
from eunoe.workers.runner.decider import RunnerSettings
from eunoe.workers.runner.recorded_outcomes import RecordedOutcomes
from eunoe.workers.update.reads import all_memories
from tests.support.in_memory import (
    START,
    Stores,
    closed,
    ended,
    letter_reasons,
    make_dependencies,
    make_pipeline,
    utterance,
)

KEY = "default/c"
MOVED, ADOPTED = "I moved to Lyon in May.", "I adopted a cat called Tom."


def ids(session: SessionClosed) -> list[str]:
    return [line.utterance_id for line in session.lines]


def contexts(pipeline: InMemoryPipeline) -> dict[str, ReplyContext]:
    asked = [event for event in pipeline.events(Topic.REPLY_CONTEXTS) if isinstance(event, ReplyContext)]
    return {context.request.request_id: context for context in asked}


def asked(number: int, session_id: str | None, text: str = "", **more: object):
    return utterance(number, text, session_id=session_id, ask=Ask(request_id=f"r{number}", **more))


async def insights(pipeline: InMemoryPipeline) -> list[tuple[int, str]]:
    memories = await all_memories(pipeline.store, KEY)
    return [(memory.session, memory.text) for memory in memories if memory.origin is MemoryOrigin.INSIGHT]


async def test_two_chats_take_in_their_own_lines_and_are_numbered_as_they_close():
    pipeline = make_pipeline()
    said = [utterance(n, session_id="phone" if n % 2 else "laptop") for n in range(1, 7)]
    await pipeline.produce(*said, ended("laptop"), utterance(7, session_id="phone"), ended("phone"))
    assert [(s.session, s.session_id, ids(s)) for s in closed(pipeline)] == [
        (1, "laptop", ["u2", "u4", "u6"]),
        (2, "phone", ["u1", "u3", "u5", "u7"]),
    ]


async def test_an_ask_sees_the_lines_of_its_own_session_only():
    pipeline = make_pipeline()
    await pipeline.produce(
        utterance(1, session_id="a"), utterance(2, session_id="b"), asked(3, "a"), asked(4, "b", record=False)
    )
    seen = {id_: [line.utterance_id for line in context.dialogue] for id_, context in contexts(pipeline).items()}
    assert seen == {"r3": ["u1"], "r4": ["u2"]}


async def test_memory_of_a_closed_chat_is_known_in_one_that_stays_open():
    pipeline = make_pipeline()
    await pipeline.produce(utterance(1, "Hello there.", session_id="a"), utterance(2, MOVED, session_id="b"))
    await pipeline.produce(ended("b"), asked(3, "a", "Where did you move, Ben?"))
    (reply,) = pipeline.replies()
    assert (reply.known_session, reply.cited) == (1, ("u2",))


async def test_insights_stay_in_their_chat_until_it_closes():
    pipeline = make_pipeline()
    await pipeline.produce(asked(1, "a", MOVED), asked(2, "b", ADOPTED), utterance(3, "Nice.", session_id="a"))
    assert [len(context.insights) for context in contexts(pipeline).values()] == [1, 1]
    await pipeline.produce(ended("b"))
    assert await insights(pipeline) == [(1, "Ben adopted a cat called Tom.")]
    await pipeline.produce(ended("a"))
    assert await insights(pipeline) == [(1, "Ben adopted a cat called Tom."), (2, "Ann moved to Lyon in May.")]
    assert [(s.session_id, s.turns, s.own_turns) for s in closed(pipeline)] == [("b", (1, 2), (2,)), ("a", (), (1,))]
    assert await pipeline.store.scan("update", KEY, "carried") == {}


async def test_a_chat_by_itself_is_written_as_in_the_first_version():
    pipeline = make_pipeline()
    await pipeline.produce(asked(1, "a", MOVED), ended("a"), asked(2, "b", ADOPTED), ended("b"))
    versions = {
        (record.topic, json.loads(record.value)["schema_version"])
        for topic in (Topic.SESSIONS, Topic.SEGMENTS, Topic.MEMORIES, Topic.REPLY_REQUESTS)
        for record in pipeline.log.records(topic)
    }
    # memories have their kind, which is of version 3; all else is as it was
    expected = {Topic.SESSIONS: {1}, Topic.SEGMENTS: {1}, Topic.MEMORIES: {1, 3}, Topic.REPLY_REQUESTS: {1}}
    assert {topic: {one for name, one in versions if name == topic} for topic in expected} == expected


async def test_a_session_without_an_id_ends_where_a_named_one_opens():
    pipeline = make_pipeline()
    await pipeline.produce(utterance(1), utterance(2, session_id="a"), utterance(3), ended("a"))
    assert [(s.session_id, s.reason, ids(s)) for s in closed(pipeline)] == [
        (None, CloseReason.SUCCEEDED, ["u1"]),
        ("a", CloseReason.ENDED, ["u2", "u3"]),
    ]


async def test_one_session_too_many_closes_the_one_that_was_quiet_longest():
    pipeline = make_pipeline(StageSettings(intake=IntakeSettings(max_open_sessions=2)))
    said = [utterance(n, session_id=id_) for n, id_ in enumerate(["a", "b", "a", "c"], 1)]
    await pipeline.produce(*said)
    assert [(s.session, s.session_id, s.reason) for s in closed(pipeline)] == [(1, "b", CloseReason.SUCCEEDED)]
    await pipeline.produce(utterance(5, session_id="b"), ended("b"), ended("c"))
    assert [(s.session, s.session_id, s.continues) for s in closed(pipeline)] == [
        (1, "b", None), (2, "a", None), (3, "b", 1), (4, "c", None)
    ]  # fmt: skip


async def test_a_full_session_goes_on_as_itself_beside_another():
    pipeline = make_pipeline(StageSettings(intake=IntakeSettings(max_utterances=2)))
    said = [utterance(1, session_id="b"), utterance(2, session_id="a"), *(utterance(n) for n in (3, 4))]
    await pipeline.produce(*said, ended("b"), ended("a"))
    assert [(s.session_id, s.reason, s.continues, ids(s)) for s in closed(pipeline)] == [
        ("a", CloseReason.BOUNDS, None, ["u2", "u3"]),
        ("b", CloseReason.ENDED, None, ["u1"]),
        ("a", CloseReason.ENDED, 1, ["u4"]),
    ]


async def test_each_session_is_idle_by_itself():
    pipeline = make_pipeline(StageSettings(intake=IntakeSettings(idle_seconds=60)))
    clock = pipeline.log._clock
    await pipeline.produce(utterance(1, session_id="a"))
    clock.now += timedelta(seconds=50)  # type: ignore[attr-defined]
    await pipeline.produce(utterance(2, session_id="b"))
    partition = pipeline.log.records(Topic.CONVERSATIONS)[0].partition

    async def close_due() -> str | None:
        (due,) = await pipeline.log_positions.due(partition, START + timedelta(days=1), 10)
        await pipeline.produce(
            SessionEnded(conversation_id="c", at=START, after_utterance_id=due.timer.after_utterance_id)
        )
        return due.timer.after_utterance_id

    clock.now += timedelta(seconds=20)  # type: ignore[attr-defined]
    assert [await close_due(), await close_due()] == ["u1", "u2"]
    assert [(s.session_id, s.reason) for s in closed(pipeline)] == [("a", CloseReason.IDLE)]  # b is not idle yet
    clock.now += timedelta(seconds=60)  # type: ignore[attr-defined]
    await close_due()
    assert [(s.session_id, s.reason) for s in closed(pipeline)] == [("a", CloseReason.IDLE), ("b", CloseReason.IDLE)]
    assert await pipeline.log_positions.due(partition, START + timedelta(days=1), 10) == []


CHATS = st.sampled_from(["a", "b", "c", None])
STEPS = st.lists(st.tuples(st.sampled_from(["say", "ask", "probe", "end"]), CHATS), max_size=30)


def events_of(steps: list[tuple[str, str | None]]) -> list[ConversationEvent]:
    events: list[ConversationEvent] = []
    for number, (what, chat) in enumerate(steps, 1):
        text = (MOVED, ADOPTED, "I sold my car.", "What a day.")[number % 4]
        if what == "end":
            events.append(ended(chat, at=START + timedelta(minutes=number)))
        elif what == "say":
            events.append(utterance(number, text, session_id=chat))
        else:
            events.append(asked(number, chat, text, record=what == "ask"))
    return events


def in_chats(steps: list[tuple[str, str | None]], most: int) -> list[tuple[str | None, list[str]]]:
    """The sessions that the steps give, in the order of their ends, the open ones last: a model of the rules."""
    open_: dict[str | None, list[str]] = {}  # the one spoken in last is last
    done: list[tuple[str | None, list[str]]] = []
    for number, (what, chat) in enumerate(steps, 1):
        own = chat if chat is not None or not open_ else [*open_][-1]
        if what == "end" and own in open_:
            done.append((own, open_.pop(own)))
        elif what in ("say", "ask"):
            if own not in open_:
                if None in open_:
                    done.append((None, open_.pop(None)))
                if len(open_) == most:
                    quiet = next(iter(open_))
                    done.append((quiet, open_.pop(quiet)))
            open_[own] = [*open_.pop(own, []), f"u{number}"]
    return [*done, *open_.items()]


@given(STEPS, st.integers(1, 3))
@settings(deadline=None, max_examples=60)
async def test_any_order_of_chats_keeps_every_line_in_its_session_and_derives_the_same_again(
    steps: list[tuple[str, str | None]], most: int
):
    chosen = StageSettings(intake=IntakeSettings(max_open_sessions=most))
    pipeline = make_pipeline(chosen)
    for event in events_of(steps):
        await pipeline.produce(event)
    (text,) = await pipeline.store.fetch("intake", KEY, HEAD, [HEAD])
    head = Head() if text is None else Head.from_json(text)
    await pipeline.produce(*(ended(session.session_id) for session in head.open))
    sessions = closed(pipeline)
    assert [session.session for session in sessions] == list(range(1, len(sessions) + 1))
    assert [(session.session_id, ids(session)) for session in sessions][: head.closed] == in_chats(steps, most)[
        : head.closed
    ]
    assert sorted(map(ids, sessions)) == sorted(lines for _, lines in in_chats(steps, most))
    await everything_is_applied(pipeline, len(sessions))
    await turns_belong_to_their_sessions(pipeline)
    await the_same_is_derived_again(pipeline, chosen)


async def everything_is_applied(pipeline: InMemoryPipeline, sessions: int) -> None:
    applied = {(await pipeline.store.ledger(Scope(stage, KEY))).applied for stage in ("update", "link", "tree")}
    assert applied == {sessions}
    assert await pipeline.store.scan("update", KEY, "carried") == {}
    assert await pipeline.store.scan("intake", KEY, "lines") == {}
    assert set(letter_reasons(pipeline.log)) <= {DeadLetterReason.UNKNOWN_SESSION}


async def turns_belong_to_their_sessions(pipeline: InMemoryPipeline) -> None:
    """Every memory of an insight is of the session that holds its evidence, and no turn is in two sessions."""
    lines = {session.session: set(ids(session)) for session in closed(pipeline)}
    memories = await all_memories(pipeline.store, KEY)
    for memory in memories:
        assert {line.utterance_id for line in memory.evidence} <= lines[memory.session]
    of_turn: defaultdict[int, int] = defaultdict(int)
    for session in closed(pipeline):
        for turn in session.turns if session.own_turns is None else session.own_turns:
            of_turn[turn] += 1
    assert set(of_turn.values()) <= {1}
    assert sorted(of_turn) == list(range(1, len(of_turn) + 1))


async def the_same_is_derived_again(pipeline: InMemoryPipeline, chosen: StageSettings) -> None:
    deriver = Deriver(make_dependencies(Stores(), chosen), RunnerSettings(), RecordedOutcomes())
    records = [record for record in pipeline.log.records(Topic.CONVERSATIONS) if record.key == KEY.encode()]
    if records:
        derived = await deriver.derive(KEY, records, epoch=0)
        assert derived.standing == await pipeline.store.export(KEY, TABLES)


@pytest.mark.parametrize("most", [1, 2])
async def test_more_open_sessions_than_allowed_never_stay(most: int):
    pipeline = make_pipeline(StageSettings(intake=IntakeSettings(max_open_sessions=most)))
    await pipeline.produce(*(utterance(n, session_id=f"s{n}") for n in range(1, 6)))
    (text,) = await pipeline.store.fetch("intake", KEY, HEAD, [HEAD])
    assert text is not None
    assert [session.session_id for session in Head.from_json(text).open] == [f"s{n}" for n in range(6 - most, 6)]
