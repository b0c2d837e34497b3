"""The one writer of memories: what it adds, and that order, repetition and gaps make no difference."""

import random
from collections import Counter
from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eunoe.schemas.decisions import Collection, Park, Scope, Work
from eunoe.schemas.events import Line, Provenance, SessionSkipped
from eunoe.schemas.memory import ChangeKind, MemoriesChanged, MemoriesFormed, MemoryDraft, MemoryStatus
from eunoe.schemas.ports import Search
from eunoe.streams.codec import decode, encode
from eunoe.streams.memory_log import MemoryConsumer, MemoryLog
from eunoe.streams.record import Message
from eunoe.streams.topics import Topic
from eunoe.workers.registry import STAGES
from eunoe.workers.runner.decider import RunnerSettings
from eunoe.workers.runner.inbound import LogPlace
from eunoe.workers.runner.outbox import Sender
from eunoe.workers.runner.parts import RunnerContext
from eunoe.workers.runner.runner import Runner
from eunoe.workers.text.terms import query_vector, terms
from eunoe.workers.update.gathering import arrange, missing
from eunoe.workers.update.offline import OfflineOperator
from eunoe.workers.update.reads import (
    all_memories,
    read_memories,
    read_memory_frequencies,
    read_memory_stats,
)
from eunoe.workers.update.settings import UpdateSettings
from eunoe.workers.update.stage import UpdateStage
from tests.support.in_memory import START, HashEmbedder, Stores, ended, make_pipeline, utterance
from tests.support.updates import current_memories

SPEC = replace(STAGES["update"], in_order=())
"""The stage; a session that comes before its predecessor waits here: nothing before it was lost."""
KEY = "default/c"
MADE = Provenance(code="summarize/1", model="m")


def formed(session: int, *texts: str, conversation: str = "c") -> MemoriesFormed:
    at = START + timedelta(days=session)
    drafts = tuple(
        MemoryDraft(
            speaker="Ann Lee",
            text=text,
            evidence=(Line(utterance_id=f"u{session}.{n}", speaker="Ann Lee", text="said", at=at),),
        )
        for n, text in enumerate(texts)
    )
    return MemoriesFormed(
        conversation_id=conversation, session=session, drafts=drafts, known_from=at, turns=(), made_by=MADE
    )


def skipped(session: int) -> SessionSkipped:
    return SessionSkipped(conversation_id="c", session=session, stage="summarize", error="x")


class Room:
    """Stage update alone, on a log."""

    def __init__(self, settings: UpdateSettings | None = None) -> None:
        self.log, self.stores = MemoryLog(partitions=1), Stores()
        sender = Sender(self.stores.state, self.stores.index, self.stores.log_positions, self.log)
        settings = settings or UpdateSettings()
        stage = UpdateStage(self.stores.state, self.stores.index, HashEmbedder(), OfflineOperator(), settings)
        self.runner = Runner(
            SPEC, stage, sender, self.stores.state, LogPlace(0, 1), RunnerContext(settings=RunnerSettings())
        )
        self.consumer = MemoryConsumer(self.log)
        self.consumer.subscribe("update", SPEC.inputs, self.runner.handle)

    async def hear(self, *events: MemoriesFormed | SessionSkipped) -> None:
        await self.log.publish([Message(Topic.MEMORIES, event.key.encode(), encode(event)) for event in events])
        await self.consumer.run_until_idle()

    def told(self) -> list[MemoriesChanged]:
        return [decode(record.value) for record in self.log.records(Topic.CHANGES)]

    async def applied(self) -> int:
        return (await self.stores.state.ledger(Scope("update", KEY))).applied

    def everything(self) -> tuple[object, object, object]:
        points = self.stores.index.all_points()
        tables = {repr(name): dict(rows) for name, rows in self.stores.state._tables.items() if rows}
        return tables, points, [event.to_json() for event in self.told()]


async def test_every_draft_becomes_a_memory_that_holds():
    room = Room()
    await room.hear(formed(1, "Ann Lee moved to Lyon.", "Ann Lee has a dog."), formed(2, "Ann Lee has a dog."))
    memories = await all_memories(room.stores.state, KEY)
    assert [(memory.session, memory.index, memory.text) for memory in memories] == [
        (1, 0, "Ann Lee moved to Lyon."),
        (1, 1, "Ann Lee has a dog."),
        (2, 0, "Ann Lee has a dog."),
    ]
    assert len({memory.memory_id for memory in memories}) == 3
    assert [memory.status for memory in memories] == [*[MemoryStatus.CURRENT] * 2, MemoryStatus.SUPERSEDED]
    assert (memories[2].ending.by, memories[1].reinforced[0].by) == (memories[1].memory_id, memories[2].memory_id)
    assert memories[0].at == memories[0].known_from == START + timedelta(days=1)
    assert (memories[0].made_by, memories[0].evidence[0].utterance_id) == (MADE, "u1.0")
    assert await current_memories(room.stores.state, KEY) == memories[:2]


async def test_the_change_feed_tells_every_session_in_order():
    room = Room()
    await room.hear(formed(1, "Ann Lee a.", "Ann Lee b."), formed(2), formed(3, "Ann Lee c."))
    told = room.told()
    assert [(event.session, len(event.changes)) for event in told] == [(1, 2), (2, 0), (3, 1)]
    assert {change.kind for event in told for change in event.changes} == {ChangeKind.ADDED}
    assert [memory for event in told for memory in event.added] == await all_memories(room.stores.state, KEY)


async def test_a_skipped_session_is_applied_and_changes_nothing():
    room = Room()
    await room.hear(formed(1, "Ann Lee a."), skipped(2), formed(3, "Ann Lee c."))
    assert await room.applied() == 3
    empty = room.told()[1]
    assert (empty.session, empty.changes, empty.known_from) == (2, (), START + timedelta(days=1))
    stats = await read_memory_stats(room.stores.state, KEY)
    assert (stats.memories, stats.session, stats.speakers) == (2, 3, ("Ann Lee",))


async def test_a_first_session_that_was_skipped_is_told_too():
    room = Room()
    await room.hear(skipped(1))
    assert [(event.session, event.changes) for event in room.told()] == [(1, ())]


SESSIONS = [formed(1, "Ann Lee sails."), formed(2, "Ann Lee sails.", "Ann Lee owns a boat."), skipped(3), formed(4)]


@pytest.mark.parametrize("seed", range(12))
async def test_repeated_and_early_sessions_leave_the_same_memory(seed: int):
    plain, disturbed = Room(), Room()
    await plain.hear(*SESSIONS)
    choose = random.Random(seed)
    events = SESSIONS * choose.randint(1, 3)
    choose.shuffle(events)
    for event in events:
        await disturbed.hear(event)
    assert disturbed.everything() == plain.everything()
    assert not disturbed.log.records(Topic.DEAD_LETTERS)


async def test_what_comes_early_waits_for_its_turn():
    room = Room()
    await room.hear(formed(2, "Ann Lee b."))
    assert (await room.applied(), room.told()) == (0, [])
    await room.hear(formed(1, "Ann Lee a."))
    assert [event.session for event in room.told()] == [1, 2]


async def test_nothing_of_a_session_is_parked_and_one_summary_completes_it():
    stores = Stores()
    stage = UpdateStage(stores.state, stores.index, HashEmbedder(), OfflineOperator(), UpdateSettings())
    assert isinstance(await stage.decide(Work(KEY, (), 1, START)), Park)
    assert missing(())
    assert not missing([skipped(1)])
    assert arrange([skipped(1)]).formed is None
    assert arrange([skipped(1), formed(1)]).formed == formed(1)


async def test_memories_are_found_by_their_words_without_the_speakers_names():
    room = Room()
    await room.hear(formed(1, "Ann Lee moved to Lyon.", "Ann Lee has a dog."), formed(2, "Ann Lee feeds the dog."))
    store, index = room.stores.state, room.stores.index
    wanted = terms("Ann's dog", drop=["Ann Lee"])
    frequencies = await read_memory_frequencies(store, KEY, {*wanted, "lee"})
    assert frequencies == {"dog": 2}
    stats = await read_memory_stats(store, KEY)
    sparse = query_vector(wanted, frequencies, stats.memories)
    (hits,) = await index.search([Search(Collection.MEMORIES, KEY, 5, sparse=sparse)])
    found = await read_memories(store, KEY, [hit.id for hit in hits])
    assert {memory.text for memory in found} == {"Ann Lee has a dog.", "Ann Lee feeds the dog."}
    (earlier,) = await index.search([Search(Collection.MEMORIES, KEY, 5, sparse=sparse, born_before=2)])
    assert [hit.id for hit in earlier] == [found_.memory_id for found_ in found if found_.session == 1]


async def test_vectors_are_those_of_the_text_without_names():
    room = Room()
    await room.hear(formed(1, "Ann Lee has a dog."))
    (vector,) = await HashEmbedder().embed(["has a dog."])
    (hits,) = await room.stores.index.search([Search(Collection.MEMORIES, KEY, 1, dense=vector.tobytes())])
    assert hits[0].score == pytest.approx(1.0, abs=1e-5)
    seqs = await room.stores.index.seqs(Collection.MEMORIES, KEY)
    assert list(seqs.values()) == [1]


async def test_conversations_share_nothing():
    room = Room()
    await room.hear(formed(1, "Ann Lee a."), formed(1, "Ann Lee x.", conversation="d"))
    assert [memory.text for memory in await all_memories(room.stores.state, KEY)] == ["Ann Lee a."]
    assert [memory.text for memory in await all_memories(room.stores.state, "default/d")] == ["Ann Lee x."]
    assert await read_memories(room.stores.state, KEY, []) == []


@given(st.lists(st.lists(st.sampled_from(["sails far", "owns boats", "bakes"]), max_size=4), min_size=1, max_size=5))
async def test_counts_are_those_of_all_memories(sessions: list[list[str]]):
    room = Room()
    await room.hear(*(formed(n, *(f"Ann Lee {text}." for text in told)) for n, told in enumerate(sessions, 1)))
    everything = [text for told in sessions for text in told]
    stats = await read_memory_stats(room.stores.state, KEY)
    assert (stats.memories, stats.session) == (len(everything), len(sessions))
    known = await read_memory_frequencies(room.stores.state, KEY, {"boat", "bake"})
    counted = {"boat": everything.count("owns boats"), "bake": everything.count("bakes")}
    assert known == {term: count for term, count in counted.items() if count}


async def test_what_people_say_becomes_memory_through_the_whole_pipeline():
    pipeline = make_pipeline()
    await pipeline.produce(
        utterance(1, "I moved to Lyon with my sister Clara."),
        utterance(2, "I moved to Oslo with my brother Tom.", reply_id="r1"),
        ended(),
        utterance(3, "Good morning!"),
        ended(),
        utterance(5, "I quit my job at the bakery in Lyon."),
        ended(),
    )
    memories = await all_memories(pipeline.store, KEY)
    assert [(memory.session, memory.text) for memory in memories] == [
        (1, "Ann moved to Lyon with their sister Clara."),
        (3, "Ann quit their job at the bakery in Lyon."),
    ]
    assert [memory.evidence[0].utterance_id for memory in memories] == ["u1", "u5"]
    told = [event for event in pipeline.events(Topic.CHANGES) if isinstance(event, MemoriesChanged)]
    assert [(event.session, len(event.added)) for event in told] == [(1, 1), (2, 0), (3, 1)]


async def test_a_session_that_failed_on_its_way_is_passed_over():
    class Failing:
        async def decide(self, work: Work) -> object:
            raise ValueError("no")

    pipeline = make_pipeline(wrap=lambda name, stage: Failing() if name == "summarize" else stage)
    await pipeline.produce(utterance(1, "I moved to Lyon with my sister Clara."), ended())
    assert await all_memories(pipeline.store, KEY) == []
    assert [event.session for event in pipeline.events(Topic.CHANGES)] == [1]  # type: ignore[attr-defined]
    assert (await read_memory_stats(pipeline.store, KEY)).session == 1


TALK = st.lists(
    st.lists(st.tuples(st.sampled_from(["Ann Lee", "Ben"]), st.integers(0, 7)), min_size=1, max_size=4, unique=True),
    min_size=1,
    max_size=6,
)
SAYINGS = ("moved to Lyon.", "moved to Oslo.", "has a dog.", "no longer has a dog.", "is 31 years old.",
           "is 32 years old.", "works at the bakery.", "quit the job at the bakery.")  # fmt: skip


def spoken(session: int, said: list[tuple[str, int]]) -> MemoriesFormed:
    drafts = [
        draft.model_copy(update={"speaker": speaker, "text": f"{speaker} {SAYINGS[number]}"})
        for (speaker, number), draft in zip(said, formed(session, *("x" for _ in said)).drafts, strict=True)
    ]
    return formed(session).model_copy(update={"drafts": tuple(drafts)})


@given(TALK, st.sampled_from([1, 6, 160]))
async def test_it_is_counted_what_holds(talk, max_pairs):
    room = Room(UpdateSettings(max_pairs=max_pairs, linked=False))
    for session, said in enumerate(talk, 1):
        await room.hear(spoken(session, said))
        stats = await read_memory_stats(room.stores.state, KEY)
        assert stats.holding == Counter(memory.speaker for memory in await current_memories(room.stores.state, KEY))
