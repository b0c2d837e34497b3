"""A session that failed at a stage, sent back later: everything behind decides it too, and nothing newer gives way."""

import asyncio
from dataclasses import dataclass, field, replace

import pytest

from eunoe.schemas.decisions import Collection, Decision, Outcome, Scope, Work
from eunoe.schemas.events import Ask, ConversationEvent
from eunoe.schemas.records import DeadLetter, DeadLetterReason
from eunoe.streams.dead_letters import read_dead_letter
from eunoe.streams.record import Record
from eunoe.streams.retries import LATE_HEADER, RETRY_HEADER, retry_message
from eunoe.streams.topics import Topic
from eunoe.workers.blend.settings import BlendSettings
from eunoe.workers.compress.reads import read_stats
from eunoe.workers.derive.index_audit import compare_index
from eunoe.workers.link.graph import NAME as LINK
from eunoe.workers.link.graph import VERTICES
from eunoe.workers.registry import STAGES as REGISTERED
from eunoe.workers.registry import StageSettings
from eunoe.workers.runner.backoff import Backoff
from eunoe.workers.runner.decider import RunnerSettings
from eunoe.workers.runner.failure_limit import FailureLimit
from eunoe.workers.tree.nodes import LEAVES
from eunoe.workers.tree.nodes import NAME as TREE
from eunoe.workers.tree.reads import read_tree
from eunoe.workers.update.reads import all_memories, read_memory_stats
from eunoe.workers.update.tables import NAME as UPDATE
from tests.support.in_memory import ended, make_pipeline, utterance
from tests.support.updates import current_memories

KEY = "default/c"
QUICK = RunnerSettings(attempts=1, backoff=Backoff(first=0.001), failures=FailureLimit(share=1.0))
SETTINGS = StageSettings(blend=BlendSettings(wait_s=None))
SESSIONS = 4
STAGES = ["segment", "compress", "summarize", "update", "link", "tree"]


@dataclass
class Failing:
    """A stage that raises at one session until it is mended."""

    inner: object
    session: int
    broken: bool = True
    asked: list[Work] = field(default_factory=list)

    async def decide(self, work: Work) -> Outcome:
        self.asked.append(work)
        outcome: Outcome = await self.inner.decide(work)  # type: ignore[attr-defined]
        if self.broken and work.number == self.session and isinstance(outcome, Decision):
            raise RuntimeError("not this one")
        return outcome


@dataclass
class Plant:
    """A pipeline in which one stage fails at a session."""

    stage: str | None = None
    session: int = 2

    def __post_init__(self) -> None:
        self.stages: dict[str, Failing] = {}
        self.pipeline = make_pipeline(SETTINGS, runner_settings=QUICK, wrap=self._wrap)

    def _wrap(self, name: str, stage: object) -> object:
        self.stages[name] = Failing(stage, self.session, broken=name == self.stage)
        return self.stages[name]

    async def talk(self, *more: ConversationEvent) -> None:
        for session in range(1, SESSIONS + 1):
            await self.pipeline.produce(*spoken(session), ended())

    def letters(self) -> list[tuple[Record, DeadLetter]]:
        records = self.pipeline.log.records(Topic.DEAD_LETTERS)
        return [(record, read_dead_letter(record)[0]) for record in records]

    async def retry(self) -> None:
        for stage in self.stages.values():
            stage.broken = False
        for record, letter in self.letters():
            await self.pipeline.log.publish([retry_message(letter, replace(record, topic=letter.topic))])
        await self.pipeline.run_until_idle()

    async def skipped(self) -> dict[str, set[int]]:
        ledgers = {name: await self.pipeline.store.ledger(Scope(name, KEY)) for name in STAGES}
        return {name: set(ledger.skipped) for name, ledger in ledgers.items() if ledger.skipped}

    async def scan(self, stage: str, table: str) -> dict[str, str]:
        return await self.pipeline.store.scan(stage, KEY, table)

    async def points(self, collection: Collection) -> set[str]:
        return set(await self.pipeline.index.seqs(collection, KEY))


def spoken(session: int) -> list[ConversationEvent]:
    """A session in which Ann asks once; what each session tells is its own."""
    first = session * 10
    place = ("Lyon", "Oslo", "Porto", "Turin")[session - 1]
    ask = Ask(request_id=f"r{session}")
    return [
        utterance(first + 1, f"I moved to {place} in spring, and I work at the harbour there."),
        utterance(first + 2, f"How is {place}? My sister bought {session} horses."),
        utterance(first + 3, f"My {('knee', 'back', 'tooth', 'ear')[session - 1]} hurts since the move.", ask=ask),
    ]


async def all_that_is_known(plant: Plant) -> dict[str, object]:
    """What a late session must bring, wherever it stands."""
    memories = await all_memories(plant.pipeline.store, KEY)
    return {
        "memories": {memory.memory_id: memory.text for memory in memories},
        "places": sorted({(memory.session, memory.index) for memory in memories}),
        "counted": (await read_memory_stats(plant.pipeline.store, KEY)).memories,
        "segments": set(await plant.scan("compress", "segments")),
        "segments counted": (await read_stats(plant.pipeline.store, KEY)).model_dump(),
        "terms": await plant.scan(UPDATE, "terms"),
        "leaves": set(await plant.scan(TREE, LEAVES)),
        "vertices": set(await plant.scan(LINK, VERTICES)),
        "points": [await plant.points(one) for one in (Collection.MEMORIES, Collection.SEGMENTS)],
    }


async def _undisturbed() -> dict[str, object]:
    plant = Plant()
    await plant.talk()
    assert plant.letters() == []
    return await all_that_is_known(plant)


@pytest.fixture(scope="module")
def undisturbed() -> dict[str, object]:
    """What is known where no stage failed: the same for all of them."""
    return asyncio.run(_undisturbed())


@pytest.mark.parametrize("session", [1, 2, SESSIONS])
@pytest.mark.parametrize("stage", STAGES)
async def test_a_session_that_is_sent_back_is_known_everywhere(stage: str, session: int, undisturbed: dict):
    plant = Plant(stage, session)
    await plant.talk()
    ((_, letter),) = plant.letters()
    assert (letter.stage, letter.reason, letter.number) == (stage, DeadLetterReason.FAILED, session)
    assert stage == "link" or await all_that_is_known(plant) != undisturbed
    assert session in (await plant.skipped())[stage]
    await plant.retry()
    assert await plant.skipped() == {}
    assert await all_that_is_known(plant) == undisturbed
    assert len(plant.letters()) == 1
    applied = {name: (await plant.pipeline.store.ledger(Scope(name, KEY))).applied for name in STAGES}
    assert set(applied.values()) == {SESSIONS}


@pytest.mark.parametrize("stage", STAGES)
async def test_it_is_decided_once_however_often_it_is_sent_back(stage: str):
    plant = Plant(stage)
    await plant.talk()
    await plant.retry()
    asked = {name: len(failing.asked) for name, failing in plant.stages.items()}
    tables = {name: dict(table) for name, table in plant.pipeline.store._tables.items()}
    await plant.retry()
    assert {name: len(failing.asked) for name, failing in plant.stages.items()} == asked
    assert {name: dict(table) for name, table in plant.pipeline.store._tables.items()} == tables


async def test_only_the_stage_that_set_it_aside_decides_it():
    plant = Plant("summarize")
    await plant.talk()
    before = {name: len(failing.asked) for name, failing in plant.stages.items()}
    await plant.retry()
    again = {name for name, failing in plant.stages.items() if len(failing.asked) > before[name]}
    assert again == {"summarize", "update", "link", "tree"}
    sent_back = [record for record in plant.pipeline.log.records(Topic.SEGMENTS) if RETRY_HEADER in record.headers]
    assert [record.headers[RETRY_HEADER] for record in sent_back] == [b"summarize:2"]
    assert sum(LATE_HEADER in record.headers for record in plant.pipeline.log.records(Topic.CHANGES)) == 1


async def test_a_late_session_that_fails_again_is_set_aside_again_and_can_be_sent_back_again():
    plant = Plant("update")
    await plant.talk()
    record, letter = plant.letters()[0]
    await plant.pipeline.log.publish([retry_message(letter, replace(record, topic=letter.topic))])
    await plant.pipeline.run_until_idle()
    assert [one.number for _, one in plant.letters()] == [2, 2]
    assert 2 in (await plant.skipped())["update"]
    skips = [event for event in plant.pipeline.events(Topic.CHANGES) if event.type_tag() == "session_skipped"]
    assert len(skips) == 1
    await plant.retry()
    assert await plant.skipped() == {}


async def test_nothing_that_holds_gives_way_to_a_late_session():
    """Oslo was told in session 2; that Ann lives in Turin is newer, whenever Oslo comes."""
    for stage in ("segment", "summarize", "update"):
        plant = Plant(stage)
        await plant.talk()
        store = plant.pipeline.store
        before = {memory.memory_id for memory in await current_memories(store, KEY)}
        await plant.retry()
        after = {memory.memory_id for memory in await current_memories(store, KEY)}
        assert before <= after
        born_late = [memory for memory in await all_memories(store, KEY) if memory.session == 2]
        assert born_late


async def test_what_comes_late_hangs_in_the_tree_as_the_session_it_is_and_changes_what_stands_now():
    plant = Plant("tree")
    await plant.talk()
    await plant.retry()
    nodes = await read_tree(plant.pipeline.store, KEY)
    late = [node for node in nodes.values() if node.entry and node.created == 2]
    assert late
    assert {node.changed for node in late} == {SESSIONS}
    points = {one.id: one for one in await plant.pipeline.index.points(Collection.TREE, KEY)}
    assert {(points[node.node_id].born, points[node.node_id].seq) for node in late} == {(2, SESSIONS)}


@pytest.mark.parametrize("stage", STAGES)
async def test_the_index_agrees_with_the_documents_after_a_late_session_and_a_second_filling_changes_nothing(
    stage: str,
):
    plant = Plant(stage)
    await plant.talk()
    await plant.retry()
    pipeline = plant.pipeline
    assert await compare_index(pipeline.store, pipeline.index, KEY, REGISTERED) == []
    for spec in REGISTERED.values():
        for indexed in spec.tables.indexed:
            assert spec.restore_points is not None
            there = await pipeline.index.points(indexed.collection, KEY)
            made = sorted(await spec.restore_points(pipeline.dependencies, KEY), key=lambda point: point.id)
            assert [point.model_copy(update={"seq": 1}) for point in made] == [
                point.model_copy(update={"seq": 1}) for point in there
            ]
            await pipeline.index.upsert(made)
    assert await compare_index(pipeline.store, pipeline.index, KEY, REGISTERED) == []


async def test_an_intake_letter_that_is_sent_back_takes_a_place_of_its_own():
    plant = Plant()
    pipeline = make_pipeline(SETTINGS, runner_settings=QUICK)
    await pipeline.produce(utterance(1, "x" * 40_000))
    (record,) = pipeline.log.records(Topic.DEAD_LETTERS)
    letter, _ = read_dead_letter(record)
    await pipeline.log.publish([retry_message(letter, replace(record, topic=letter.topic))])
    await pipeline.run_until_idle()
    offsets = [read_dead_letter(one)[0].offset for one in pipeline.log.records(Topic.DEAD_LETTERS)]
    assert offsets == [0, 1]
    assert plant.letters() == []
