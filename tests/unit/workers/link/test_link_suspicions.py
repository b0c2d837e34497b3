"""What update suspects becomes a Changed link, without a question to anybody."""

import pytest

from eunoe.schemas.events import InsightKind, Provenance
from eunoe.schemas.memory import Change, ChangeKind, MemoriesChanged, Memory, MemoryOrigin, Suspicion
from eunoe.schemas.relations import Relation
from eunoe.streams.topics import Topic
from eunoe.workers.link.graph import Related
from eunoe.workers.link.reads import all_edges, read_timelines
from eunoe.workers.link.settings import TimelineSettings
from eunoe.workers.link.suspicions import suspected_pairs, with_suspicions
from eunoe.workers.link.writes import age_key
from eunoe.workers.update.reads import all_memories
from tests.support.graphs import KEY, START, memory
from tests.support.in_memory import ended, make_pipeline, utterance
from tests.support.updates import Updates, formed, insight, proposed

OLD, NEW = memory("1a", "Ann has two dogs."), memory("2a", "Ann has three dogs.")


def suspected(old: Memory, by: str, session: int = 2) -> Change:
    note = Suspicion(by=by, session=session, because="two values of one thing: dog")
    flagged = old.model_copy(update={"suspected": (*old.suspected, note)})
    return Change(kind=ChangeKind.SUSPECTED, memory=flagged, because=note.because)


def told(*changes: Change, session: int = 2) -> MemoriesChanged:
    added = Change(kind=ChangeKind.ADDED, memory=NEW)
    return MemoriesChanged(conversation_id="c", session=session, changes=(added, *changes), known_from=START)


def judged(relation: Relation) -> Related:
    return Related(age_key(OLD), age_key(NEW), relation, "it shows")


def test_a_suspicion_of_the_feed_is_a_pair():
    (pair,) = suspected_pairs(told(suspected(OLD, "2a")))
    assert (pair.older.memory_id, pair.newer.memory_id, pair.relation) == ("1a", "2a", Relation.CHANGED)
    assert (pair.explanation, pair.suspected, pair.judged) == ("two values of one thing: dog", True, False)


def test_each_suspicion_of_a_memory_is_a_pair_of_its_own():
    earlier = suspected(OLD, "0z").memory
    assert [pair.newer.memory_id for pair in suspected_pairs(told(suspected(earlier, "2a")))] == ["2a"]


@pytest.mark.parametrize("change", [suspected(OLD, "unknown"), suspected(memory("2b", "Ann has one dog."), "2a")])
def test_what_is_not_of_an_earlier_session_or_not_new_is_no_pair(change: Change):
    assert list(suspected_pairs(told(change))) == []


@pytest.mark.parametrize("relation", list(Relation))
def test_a_judged_relation_stays_where_it_leads_from_one_to_the_other(relation: Relation):
    (pair,) = with_suspicions([judged(relation)], suspected_pairs(told(suspected(OLD, "2a"))))
    stays = relation is not Relation.SAME_TOPIC
    assert pair.relation is (relation if stays else Relation.CHANGED)
    assert (pair.suspected, pair.judged) == (True, stays)


async def test_what_update_flags_is_linked_and_both_memories_hold():
    updates = Updates(linked=True)
    await updates.hear(
        formed(1, "Ann has two dogs.", "Ann sails."), formed(2, "Ann bakes."), formed(3, "Ann has three dogs.")
    )
    (edge,) = await all_edges(updates.store, KEY)
    old, _, _, new = await all_memories(updates.store, KEY)
    assert (edge.older, edge.relation, edge.newer) == (old.memory_id, Relation.CHANGED, new.memory_id)
    assert (edge.suspicion, edge.explanation) == (True, "two values of one thing: dog")
    assert edge.made_by == Provenance(code="link/1", model="suspicion")
    assert [note.by for note in old.suspected] == [new.memory_id]
    assert (old.ending, new.ending) == (None, None)
    (timeline,) = await read_timelines(updates.store, KEY, [old.memory_id], TimelineSettings())
    assert (timeline.memories, timeline.relations) == ((old.memory_id, new.memory_id), (Relation.CHANGED,))


async def test_the_link_comes_though_other_memories_are_more_similar():
    updates = Updates(linked=True)
    near = [f"Ann {did} the old house by the lake." for did in ("painted", "sold", "rented")]
    await updates.hear(
        formed(1, "Ann has two dogs.", *near), formed(2, "Ann has three dogs in the old house by the lake.")
    )
    found = {memory.memory_id: memory.text for memory in await all_memories(updates.store, KEY)}
    suspicions = [(found[e.older], e.relation) for e in await all_edges(updates.store, KEY) if e.suspicion]
    assert ("Ann has two dogs.", Relation.CHANGED) in suspicions


async def test_a_sentence_that_repeats_an_insight_lends_it_its_suspicions():
    updates = Updates(linked=True)
    told = insight(InsightKind.NEW, "Ann has three dogs.", 2)
    await updates.hear(
        formed(1, "Ann has two dogs."), proposed(2, 1, told), formed(2, "Ann has three dogs.", turns=(1,))
    )
    old, new, again = await all_memories(updates.store, KEY)
    assert (new.origin, again.ending.by) == (MemoryOrigin.INSIGHT, new.memory_id)
    assert [note.by for note in old.suspected] == [new.memory_id]
    edges = [(edge.older, edge.newer) for edge in await all_edges(updates.store, KEY) if edge.suspicion]
    assert edges == [(old.memory_id, new.memory_id)]


async def test_through_the_whole_pipeline_a_suspicion_is_a_link():
    pipeline = make_pipeline()
    await pipeline.produce(utterance(1, "I have two dogs at home in Lyon."), ended())
    await pipeline.produce(utterance(3, "I walked three dogs of the shelter in Lyon."), ended())
    assert [(edge.relation, edge.suspicion) for edge in await all_edges(pipeline.store, KEY)] == [
        (Relation.CHANGED, True)
    ]
    assert not pipeline.log.records(Topic.DEAD_LETTERS)
