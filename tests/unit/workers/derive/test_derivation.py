"""A conversation derived from its records is what the live stages made of it."""

import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import pytest

from eunoe.schemas.decisions import Collection, Scope
from eunoe.schemas.errors import Unavailable
from eunoe.schemas.events import Ask, ConversationEvent
from eunoe.schemas.model_ports import AnswerT, Prompt
from eunoe.streams.topics import Topic
from eunoe.workers.derive.in_memory import InMemoryPipeline
from eunoe.workers.derive.pipeline import TABLES, Derived, Deriver
from eunoe.workers.intake.settings import BlendMode, IntakeSettings
from eunoe.workers.registry import MEMORY_STAGES, STAGES, StageSettings
from eunoe.workers.runner.backoff import Backoff
from eunoe.workers.runner.decider import RunnerSettings
from eunoe.workers.runner.recorded_outcomes import RecordedOutcomes
from eunoe.workers.runner.runner import Runner
from eunoe.workers.stores.state.memory_store import MemoryStore
from tests.support.in_memory import Stores, ended, make_dependencies, make_pipeline, produce_raw, utterance
from tests.support.whole_state import read_digest

KEY = "default/c"
DERIVED_STAGES = {name: STAGES[name] for name in MEMORY_STAGES}

TOLD = (
    "I moved to Oslo last week and I work as a nurse at the hospital now.",
    "My sister Clara is getting married in June and I am invited.",
    "I quit my job at the hospital because of the night shifts.",
    "I moved from Oslo to Bergen and I bought a small boat.",
    "Clara broke her leg, so the wedding is put off until autumn.",
)


def conversation() -> list[ConversationEvent]:
    """Five sessions with asked turns and a probe, and an open one."""
    events: list[ConversationEvent] = []
    for session, text in enumerate(TOLD):
        events += [
            utterance(4 * session + 1, text),
            utterance(4 * session + 2, "Tell me more about it."),
            utterance(4 * session + 3, "Where do I live now?", ask=Ask(request_id=f"r{session}")),
            utterance(4 * session + 4, "And my sister?", ask=Ask(request_id=f"p{session}", record=False)),
            ended(),
        ]
    return [*events, utterance(90, "One more thing: I adopted a cat.", ask=Ask(request_id="open"))]


async def derive(pipeline: InMemoryPipeline, settings: StageSettings) -> Derived:
    deriver = Deriver(make_dependencies(Stores(), settings), RunnerSettings(), RecordedOutcomes())
    records = [record for record in pipeline.log.records(Topic.CONVERSATIONS) if record.key == KEY.encode()]
    return await deriver.derive(KEY, records, epoch=0)


async def live(settings: StageSettings, events: Sequence[ConversationEvent]) -> InMemoryPipeline:
    pipeline = make_pipeline(settings)
    for event in events:
        await pipeline.produce(event)
    return pipeline


@pytest.mark.parametrize("mode", BlendMode)
async def test_what_is_derived_is_what_was_made_live(mode: BlendMode):
    settings = StageSettings(intake=IntakeSettings(blend=mode))
    pipeline = await live(settings, conversation())
    derived = await derive(pipeline, settings)
    restored = MemoryStore()
    state = pipeline.store
    assert await restored.swap(KEY, TABLES, derived.standing, await restored.ledger(Scope("intake", KEY)))
    made = await read_digest(state, KEY, DERIVED_STAGES, log_times=True)
    assert (await read_digest(restored, KEY, DERIVED_STAGES, log_times=True)).state == made.state
    assert derived.standing == await state.export(KEY, TABLES)
    assert made.counts["update/memories"] >= 4
    assert derived.sessions == 5
    assert derived.failed == 0


async def test_points_and_timer_are_those_of_the_live_stores():
    pipeline = await live(StageSettings(), conversation())
    derived = await derive(pipeline, StageSettings())
    points = {collection: await pipeline.index.points(collection, KEY) for collection in Collection}
    assert {collection: list(rows) for collection, rows in derived.points.items()} == points
    assert all(points.values()), "none is compared with nothing"
    assert derived.timer is not None
    assert derived.timer.after_utterance_id == "u90"


async def test_the_end_of_the_last_session_is_kept_where_none_is_open():
    pipeline = await live(StageSettings(), conversation()[:-1])
    derived = await derive(pipeline, StageSettings())
    assert derived.timer is not None
    assert derived.timer.after_utterance_id is None
    assert derived.timer.since == await pipeline.log_positions.last_active(KEY)


async def test_a_conversation_of_which_nothing_is_left_has_no_timer():
    pipeline = await live(StageSettings(), [ended(), utterance(1, conversation="other")])
    assert (await derive(pipeline, StageSettings())).timer is None


async def test_nobody_is_answered_again_and_the_stages_words_are_kept():
    pipeline = await live(StageSettings(), conversation())
    derived = await derive(pipeline, StageSettings())
    assert len(pipeline.replies()) == 11
    assert {record.topic for record in derived.records} == {
        Topic.SESSIONS, Topic.SEGMENTS, Topic.MEMORIES, Topic.CHANGES, Topic.REPLY_REQUESTS
    }  # fmt: skip
    live_changes = [record.value for record in pipeline.log.records(Topic.CHANGES)]
    assert [record.value for record in derived.records if record.topic == Topic.CHANGES] == live_changes


async def test_records_that_were_set_aside_live_are_set_aside_again():
    pipeline = await live(StageSettings(), conversation()[:3])
    await produce_raw(pipeline, b"not json", KEY.encode())
    await produce_raw(pipeline, b"{}", KEY.encode())
    for event in conversation()[3:]:
        await pipeline.produce(event)
    derived = await derive(pipeline, StageSettings())
    assert derived.standing == await pipeline.store.export(KEY, TABLES)


async def test_positions_are_those_of_the_log():
    pipeline = await live(StageSettings(), conversation())
    derived = await derive(pipeline, StageSettings())
    (last,) = [r for r in pipeline.log.records(Topic.CONVERSATIONS) if b'"u90"' in r.value]
    assert derived.standing.ledgers["intake"].applied == last.offset + 1


class Away:
    """A model whose endpoint does not answer."""

    name = "away"

    def __init__(self) -> None:
        self.asked = 0

    async def answer(self, prompt: Prompt, form: type[AnswerT], *, urgent: bool = False) -> AnswerT:
        self.asked += 1
        raise Unavailable("no answer", "the model")


async def test_a_derivation_rests_between_its_questions_to_a_model_that_is_away():
    pipeline = await live(StageSettings(), conversation())
    away, patient = Away(), RunnerSettings(retry_limit_s=0.3, backoff=Backoff(first=0.05))
    deriver = Deriver(replace(make_dependencies(Stores(), StageSettings()), language=away), patient, RecordedOutcomes())
    with pytest.raises(Unavailable, match="no answer"):
        await deriver.derive(KEY, pipeline.log.records(Topic.CONVERSATIONS), epoch=0)
    assert away.asked < 10


@contextmanager
def without_garbage_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def runners() -> int:
    return sum(isinstance(thing, Runner) for thing in gc.get_objects())


async def test_the_runners_of_a_derived_conversation_are_freed_without_the_garbage_collector():
    settings = StageSettings()
    told = await live(settings, conversation())
    with without_garbage_collector():
        before = runners()
        derived = await derive(told, settings)
        assert runners() == before
    assert derived.sessions == len(TOLD)
