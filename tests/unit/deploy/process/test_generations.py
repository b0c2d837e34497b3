"""Several generations on one log: who answers, and what a rebuild obeys."""

from datetime import timedelta

from eunoe.deploy.process.standalone import with_topics
from eunoe.schemas.events import Ask, SessionSkipped
from eunoe.schemas.records import GenerationPromoted, RecordedAnswer
from eunoe.streams.codec import encode
from eunoe.streams.topics import Topic, TopicNames
from eunoe.workers.derive.in_memory import InMemoryPipeline
from eunoe.workers.intake.idle import IdleCloser
from eunoe.workers.registry import STAGES
from eunoe.workers.runner.inbound import LogPlace
from eunoe.workers.runner.recorded_outcomes import RecordedOutcomes
from eunoe.workers.stores.records.answers import MemoryAnswers
from eunoe.workers.stores.records.generations import Generation, GenerationState, Listed
from eunoe.workers.stores.records.promotions import last_promoted
from eunoe.workers.stores.state.memory_store import MemoryLogPositions
from tests.support.in_memory import START, ended, make_pipeline, produce_raw, utterance
from tests.support.whole_state import read_digest
from tests.unit.workers.intake.test_idle import IDLE, Times, closer

LOGGED = [
    utterance(1, "I moved to Oslo last week and I work as a nurse at the hospital now.", ask=Ask(request_id="r1")),
    "v2",
    utterance(2, "And I like tea.", ask=Ask(request_id="r2")),
    utterance(3, "Where do I live?", ask=Ask(request_id="r3", record=False)),
    ended(),
    "v1",
    utterance(4, "Back again.", ask=Ask(request_id="r4")),
]


async def replay(pipeline: InMemoryPipeline) -> list[str]:
    """The requests that a generation answers of one and the same log."""
    for entry in LOGGED:
        if isinstance(entry, str):
            pipeline.log_positions.announced[f"to {entry}"] = entry
            promoted = encode(GenerationPromoted(generation=entry, at=START, nonce=f"to {entry}"))
            for partition in range(pipeline.log.partitions):
                await produce_raw(pipeline, promoted, None, partition)
        else:
            await pipeline.produce(entry)
    assert pipeline.log.records(Topic.DEAD_LETTERS) == []
    return [reply.request_id for reply in pipeline.replies()]


async def test_each_ask_is_answered_by_exactly_one_generation():
    assert await replay(make_pipeline(generation="v1")) == ["r1", "r4"]
    assert await replay(make_pipeline(generation="v2")) == ["r2", "r3"]
    assert await replay(make_pipeline(generation="v3")) == []


async def test_all_generations_remember_the_same_whoever_answers():
    pipelines = [make_pipeline(generation=name) for name in ("v1", "v2", "v3")]
    for pipeline in pipelines:
        await replay(pipeline)
    digests = [await read_digest(pipeline.store, "default/c", STAGES) for pipeline in pipelines]
    assert digests[0].state["update"]["tables"]["memories"]
    remembered = [{**digest.state, "respond": {}} for digest in digests]
    assert remembered[0] == remembered[1] == remembered[2]


def test_the_last_promotion_before_a_position_counts():
    promotions = {10: "v2", 7: "v3", 12: "v1"}
    assert [last_promoted(promotions, at) for at in (7, 8, 11, 12, 13, None)] == [None, "v3", "v2", "v2", "v1", "v1"]


async def test_only_the_generation_that_answers_closes_idle_sessions():
    times = Times(START + timedelta(hours=1))
    idle, _ = await closer(times, [0])
    log_positions = idle.log_positions
    assert isinstance(log_positions, MemoryLogPositions)
    await log_positions.promote(0, 5, "v2")
    for name, closes in (("v1", 0), ("v2", 1)):
        place = LogPlace(0, 1, name, is_first=name == "v1")
        other = IdleCloser(
            log_positions,
            idle.publisher,
            idle.caught_up,
            IDLE,
            lambda: times.now,
            lambda: times.ticks,
            may_close=place.answers,
        )
        assert await other.sweep() == closes


class Failing:
    """Lets a stage fail while ``broken``."""

    broken = True

    def __init__(self, name: str, stage: object) -> None:
        self.name, self.stage = name, stage

    async def decide(self, work: object) -> object:
        if self.name == "summarize" and self.broken:
            raise ValueError("no model today")
        return await self.stage.decide(work)  # type: ignore[attr-defined]


async def test_a_failure_is_recorded_and_a_rebuild_obeys_it():
    live = make_pipeline(wrap=Failing)
    events = [utterance(1, "I moved to Oslo last week and I work as a nurse at the hospital now."), ended()]
    await live.produce(*events)
    kept = MemoryAnswers()
    for record in live.log.records(Topic.ANSWERS):
        answer = RecordedAnswer.from_json(record.value)
        await kept.put(answer.request, answer.text)
    rebuilt, anew = make_pipeline(outcomes=RecordedOutcomes(kept)), make_pipeline()
    for pipeline in (rebuilt, anew):
        await pipeline.produce(*events)
    skipped = [event for event in rebuilt.events(Topic.MEMORIES) if isinstance(event, SessionSkipped)]
    assert [event.session for event in skipped] == [1]
    assert skipped[0].error.startswith("ValueError at test_generations.py:")
    assert await rebuilt.store.scan("update", "default/c", "memories") == {}
    assert await anew.store.scan("update", "default/c", "memories") != {}


def test_eunoe_up_has_topics_of_each_complete_generation_of_its_log() -> None:
    def made(name: str, state: GenerationState, log: int = 1) -> Listed:
        return Listed(name, False, Generation(name=name, state=state, made_at=START, source="v1", log=log))

    known = [
        Listed("v1", False, None),
        made("v2", GenerationState.BUILT),
        made("v3", GenerationState.BUILT),
        made("v4", GenerationState.BUILDING),
        made("v5", GenerationState.PARTIAL),
        made("v6", GenerationState.BUILT, log=0),
    ]
    assert with_topics(known, TopicNames(generation="v2", log=1)) == ["v1", "v3"]
