"""The lifecycle of memories: one-way transitions, nothing lost, no cycles, and views as of a time."""

import random
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eunoe.schemas.events import InsightKind, SessionSkipped
from eunoe.schemas.memory import ChangeKind, MemoryStatus
from eunoe.workers.update.lifecycle import Cause, ForbiddenTransition, Lifecycle, as_of
from eunoe.workers.update.memories import insight_id, summary_memories
from eunoe.workers.update.operator import Operation
from eunoe.workers.update.reads import all_memories, all_steps, history_of, memories_at
from tests.support.in_memory import START
from tests.support.updates import KEY, Updates, current_memories, formed, insight, proposed, replayed

OLD, NEW = summary_memories(formed(1, "Ann a.", "Ann b."))
WHY = Cause(START, "why", NEW.memory_id)


def test_a_memory_ends_once_and_by_what_holds():
    life = Lifecycle(2, [OLD, NEW])
    life.supersede(OLD.memory_id, WHY)
    life.supersede(OLD.memory_id, WHY)
    assert [change.kind for change in life.changes] == [ChangeKind.SUPERSEDED]
    with pytest.raises(ForbiddenTransition, match="superseded"):
        life.retire(OLD.memory_id, WHY)
    with pytest.raises(ForbiddenTransition, match="superseded"):
        life.reinforce(OLD.memory_id, WHY)
    with pytest.raises(ForbiddenTransition, match="is not current"):
        life.supersede(NEW.memory_id, Cause(START, "back", OLD.memory_id))
    with pytest.raises(ForbiddenTransition, match="another memory"):
        life.supersede(NEW.memory_id, WHY)
    with pytest.raises(ForbiddenTransition, match="not known"):
        life.retire("x", WHY)


def test_evidence_and_suspicion_leave_a_memory_current_and_count_once():
    life = Lifecycle(2, [OLD, NEW])
    for _ in range(2):
        life.reinforce(OLD.memory_id, WHY)
        life.suspect(OLD.memory_id, WHY)
    memory = life.get(OLD.memory_id)
    assert memory is not None
    assert memory.status is MemoryStatus.CURRENT
    assert (len(memory.reinforced), len(memory.suspected), memory.suspected[0].because) == (1, 1, "why")
    assert [change.kind for change in life.changes] == [ChangeKind.REINFORCED, ChangeKind.SUSPECTED]


def test_a_memory_as_of_an_earlier_session():
    life = Lifecycle(3, [OLD, NEW])
    life.reinforce(OLD.memory_id, WHY)
    life.retire(OLD.memory_id, WHY)
    memory = life.get(OLD.memory_id)
    assert memory is not None
    assert as_of(memory, 0) is None
    assert as_of(memory, 2) == OLD
    assert as_of(memory, 3) == memory


WORDS = ["sails", "owns a boat", "bakes", "paints", "is ill"]


@st.composite
def conversations(draw: st.DrawFn) -> tuple[list[list[str]], dict[tuple[str, str], str]]:
    """Sessions of sentences, and an operation for every pair of texts."""
    texts = [f"Ann {word}." for word in WORDS]
    sessions = draw(st.lists(st.lists(st.sampled_from(texts), unique=True, max_size=3), min_size=1, max_size=5))
    told = st.sampled_from([*(op.value for op in Operation if op is not Operation.FUSE), "FUSE: Ann does both."])
    script = draw(st.dictionaries(st.tuples(st.sampled_from(texts), st.sampled_from(texts)), told))
    return sessions, script


@given(conversations())
async def test_nothing_is_lost_and_no_succession_comes_back(drawn: tuple[list[list[str]], dict[tuple[str, str], str]]):
    sessions, script = drawn
    updates = Updates(script=script)
    await updates.hear(*(formed(number, *texts) for number, texts in enumerate(sessions, 1)))
    memories = {memory.memory_id: memory for memory in await all_memories(updates.store, KEY)}
    fusions = [memory for memory in memories.values() if memory.origin == "fusion"]
    assert len(memories) == sum(map(len, sessions)) + len(fusions)
    for memory in memories.values():
        assert memory.ending is None or memory.ending.because
        seen = [memory.memory_id]
        while (ending := memories[seen[-1]].ending) is not None and ending.by is not None:
            assert ending.by in memories
            assert ending.by not in seen
            seen.append(ending.by)
    holding = {memory.memory_id for memory in await current_memories(updates.store, KEY)}
    assert holding == {id_ for id_, memory in memories.items() if memory.ending is None}
    assert len(updates.model.asked) <= len(sessions)


@given(conversations())
async def test_views_as_of_a_time_are_the_replayed_feed(drawn: tuple[list[list[str]], dict[tuple[str, str], str]]):
    sessions, script = drawn
    updates = Updates(script=script)
    await updates.hear(*(formed(number, *texts) for number, texts in enumerate(sessions, 1)))
    for number in range(len(sessions) + 1):
        then = await memories_at(updates.store, KEY, START + timedelta(days=number, hours=1))
        assert {memory.memory_id: memory for memory in then} == replayed(updates.told(), number)
    kinds = [(step.kind, step.memory_id) for row in await all_steps(updates.store, KEY) for step in row.steps]
    feed = [change for event in updates.told() for change in event.changes]
    assert kinds == [(change.kind, change.memory.memory_id) for change in feed]


SCRIPT = {("Ann lives in Lyon.", "Ann moved to Oslo."): "REPLACE", ("Ann has a cold.", "Ann is well."): "DELETE"}
EVENTS = [
    formed(1, "Ann lives in Lyon.", "Ann has a cold."),
    proposed(2, 1, insight(InsightKind.NEW, "Ann likes tea.", 2)),
    proposed(2, 2, insight(InsightKind.UPDATED, "Ann is a baker.", 2)),
    formed(2, "Ann moved to Oslo.", "Ann likes tea.", turns=(1, 2)),
    SessionSkipped(conversation_id="c", session=3, stage="summarize", error="x", turns=(3,)),
    proposed(3, 3),
    formed(4, "Ann is well."),
]


@pytest.mark.parametrize("seed", range(10))
async def test_any_order_and_repetition_leave_the_same(seed: int):
    plain, disturbed = Updates(script=SCRIPT), Updates(script=SCRIPT)
    await plain.hear(*EVENTS)
    assert await plain.current() == ["Ann likes tea.", "Ann is a baker.", "Ann moved to Oslo."]
    choose = random.Random(seed)
    events = EVENTS * choose.randint(1, 3)
    choose.shuffle(events)
    await disturbed.hear(*events)
    assert disturbed.everything() == plain.everything()


async def test_points_follow_and_keep_the_vector_of_their_birth():
    updates = Updates(script=SCRIPT)
    await updates.hear(*EVENTS[:1])
    points = {p.text: p for p in updates.stores.index.all_points()}
    await updates.hear(*EVENTS[1:])
    after = {p.text: p for p in updates.stores.index.all_points() if p.born == 1}
    assert [(text, point.seq) for text, point in sorted(after.items())] == [
        ("Ann has a cold.", 4),
        ("Ann lives in Lyon.", 2),
    ]
    assert all(
        points[text].dense == point.dense and points[text].sparse == point.sparse for text, point in after.items()
    )


async def test_a_history_tells_reasons_and_evidence_of_the_whole_succession():
    updates = Updates(script=SCRIPT)
    await updates.hear(*EVENTS)
    known = await updates.memories()
    history = await history_of(updates.store, KEY, known["Ann moved to Oslo."].memory_id)
    assert [(entry.session, entry.kind.value, entry.memory.text, entry.by and entry.by.text) for entry in history] == [
        (1, "added", "Ann lives in Lyon.", None),
        (2, "added", "Ann moved to Oslo.", None),
        (2, "superseded", "Ann lives in Lyon.", "Ann moved to Oslo."),
    ]
    assert history[-1].because.startswith("why")
    assert history[-1].by.evidence[0].utterance_id == "u2.0"
    assert await history_of(updates.store, KEY, "unknown") == []
    assert insight_id(KEY, 2, 1, 0) == known["Ann likes tea."].memory_id
