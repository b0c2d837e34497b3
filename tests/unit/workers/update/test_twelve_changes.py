"""Twelve planned changes through the pipeline: what holds in the end, how it came about, and what replies cite."""

from collections import Counter

import pytest

from eunoe.schemas.events import Strategy
from eunoe.schemas.memory import MemoryOrigin, MemoryStatus
from eunoe.schemas.replies import Reply
from eunoe.streams.topics import Topic
from eunoe.workers.blend.settings import BlendSettings
from eunoe.workers.derive.in_memory import InMemoryPipeline
from eunoe.workers.intake.settings import IntakeSettings
from eunoe.workers.registry import StageSettings
from eunoe.workers.update.reads import all_memories, all_steps, history_of, memories_at
from tests.support.changes import FUSED, INSIGHTS, MEMORIES, SESSIONS, Planned, events, probe
from tests.support.in_memory import make_pipeline
from tests.support.updates import current_memories

KEY = "default/c"
EVERY_TURN = StageSettings(intake=IntakeSettings(blend_unasked=True), blend=BlendSettings(wait_s=None))

CURRENT = [
    "Nora lives in Lyon.",
    "Mia is a vegetarian.",
    "Mia learns Spanish.",
    "Mia is married to Paul.",
    "Mia's dog Rex is five years old.",
    "Mia works as a nurse.",
    "Mia rides a bicycle, for she sold her Fiat.",
    FUSED,
    "Mia has cancelled the trip to Lisbon.",
    "Mia lives in Bergen.",
]

HISTORIES = {
    "Mia lives in Bergen.": [
        (1, "added", "Mia lives in Lyon."),
        (2, "added", "Mia lives in Oslo."),
        (2, "superseded", "Mia lives in Lyon."),
        (3, "added", "Mia's flat in Oslo is by the harbour."),
        (5, "added", "Mia lives in Bergen."),
        (5, "superseded", "Mia lives in Oslo."),
        (5, "superseded", "Mia's flat in Oslo is by the harbour."),
        (5, "added", "Mia moved to Bergen with Paul."),
        (5, "superseded", "Mia moved to Bergen with Paul."),
        (5, "reinforced", "Mia lives in Bergen."),
    ],
    "Mia works as a nurse.": [
        (1, "added", "Mia works at a bakery."),
        (2, "added", "Mia no longer works at the bakery."),
        (2, "superseded", "Mia works at a bakery."),
        (4, "added", "Mia works as a nurse."),
        (4, "superseded", "Mia no longer works at the bakery."),
    ],
    "Mia has cancelled the trip to Lisbon.": [
        (1, "added", "Mia plans to travel to Rome in June."),
        (3, "added", "Mia plans to travel to Lisbon in June."),
        (3, "superseded", "Mia plans to travel to Rome in June."),
        (5, "added", "Mia has cancelled the trip to Lisbon."),
        (5, "superseded", "Mia plans to travel to Lisbon in June."),
        (5, "added", "Mia has cancelled the trip to Lisbon."),
        (5, "superseded", "Mia has cancelled the trip to Lisbon."),
        (5, "reinforced", "Mia has cancelled the trip to Lisbon."),
    ],
    "Mia is married to Paul.": [
        (1, "added", "Mia is engaged to Paul."),
        (3, "added", "Mia is married to Paul."),
        (3, "superseded", "Mia is engaged to Paul."),
    ],
    "Mia's dog Rex is five years old.": [
        (1, "added", "Mia's dog Rex is three years old."),
        (3, "added", "Mia's dog Rex is five years old."),
        (3, "superseded", "Mia's dog Rex is three years old."),
    ],
    "Mia rides a bicycle, for she sold her Fiat.": [
        (1, "added", "Mia drives an old Fiat."),
        (4, "added", "Mia rides a bicycle, for she sold her Fiat."),
        (4, "superseded", "Mia drives an old Fiat."),
    ],
    "Mia is a vegetarian.": [
        (1, "added", "Mia is a vegetarian."),
        (3, "added", "Mia is still a vegetarian."),
        (3, "superseded", "Mia is still a vegetarian."),
        (3, "reinforced", "Mia is a vegetarian."),
    ],
    FUSED: [
        (1, "added", "Mia's back hurts, and no doctor has seen it."),
        (4, "added", "Mia gets physiotherapy."),
        (4, "added", FUSED),
        (4, "superseded", "Mia's back hurts, and no doctor has seen it."),
        (4, "superseded", "Mia gets physiotherapy."),
    ],
    "Mia has the flu.": [(1, "added", "Mia has the flu."), (2, "retired", "Mia has the flu.")],
    "Mia has recovered from the flu.": [
        (2, "added", "Mia has recovered from the flu."),
        (2, "retired", "Mia has recovered from the flu."),
    ],
    "Mia learns Spanish.": [(1, "added", "Mia learns Spanish.")],
    "Nora lives in Lyon.": [(1, "added", "Nora lives in Lyon.")],
}


async def told() -> tuple[InMemoryPipeline, Planned]:
    model = Planned()
    pipeline = make_pipeline(EVERY_TURN, language=model)
    await pipeline.produce(*events())
    return pipeline, model


async def test_in_the_end_exactly_what_holds_is_current():
    pipeline, _ = await told()
    assert not pipeline.log.records(Topic.DEAD_LETTERS)
    current = await current_memories(pipeline.store, KEY)
    assert sorted(memory.text for memory in current) == sorted(CURRENT)
    origins = {memory.text: memory.origin for memory in current}
    assert [text for text, origin in origins.items() if origin is MemoryOrigin.INSIGHT] == CURRENT[-2:]
    assert origins[FUSED] is MemoryOrigin.FUSION
    everything = await all_memories(pipeline.store, KEY)
    ended = Counter(memory.status for memory in everything)
    assert (ended[MemoryStatus.CURRENT], ended[MemoryStatus.RETIRED]) == (10, 2)
    assert len(everything) == ended.total() == len(MEMORIES) + len(INSIGHTS) + 1
    assert not any(memory.made_by.fallback for memory in everything)


@pytest.mark.parametrize("text", HISTORIES)
async def test_each_history_is_as_it_was_planned(text: str):
    pipeline, _ = await told()
    first = {memory.text: memory.memory_id for memory in reversed(await all_memories(pipeline.store, KEY))}
    history = await history_of(pipeline.store, KEY, first[text])
    assert [(entry.session, entry.kind.value, entry.memory.text) for entry in history] == HISTORIES[text]
    assert all(entry.because for entry in history if entry.kind.value != "added")


async def test_what_held_then_can_still_be_seen():
    pipeline, _ = await told()
    (third,) = (steps for steps in await all_steps(pipeline.store, KEY) if steps.session == 3)
    then = await memories_at(pipeline.store, KEY, third.known_from)
    held = {memory.text for memory in then if memory.status is MemoryStatus.CURRENT}
    assert {"Mia lives in Oslo.", "Mia plans to travel to Lisbon in June.", "Mia drives an old Fiat."} <= held
    assert not held & {"Mia lives in Lyon.", "Mia lives in Bergen.", "Mia has the flu.", "Mia is engaged to Paul."}


async def test_a_turn_costs_two_questions_of_blend_and_a_session_one_of_update():
    _, model = await told()
    counts = Counter(model.asked)
    turns = [len(lines) for lines in SESSIONS]
    assert counts["InsightsForm"] == sum(turns)
    assert counts["QuestionForm"] == sum(turns[1:])
    assert len(SESSIONS) - 1 <= counts["OperationsForm"] <= len(SESSIONS), "one has more than forty pairs"


async def reply_to(text: str, **more: object) -> Reply:
    pipeline, _ = await told()
    await pipeline.produce(probe("p", text, **more))
    (reply,) = (reply for reply in pipeline.replies() if reply.request_id == "p")
    assert (reply.error, reply.made_by.fallback) == (None, False)
    return reply


@pytest.mark.parametrize("strategy", [Strategy.FUSED, Strategy.CURRENT, Strategy.INSIGHT])
async def test_where_i_live_now_rests_on_the_new_fact_only(strategy: Strategy):
    reply = await reply_to("Where do I live now?", strategy=strategy)
    assert reply.cited == ("5.3",)
    assert "Bergen" in reply.text
    assert not {"Oslo", "Lyon"} & set(reply.text.replace(".", "").split())


@pytest.mark.parametrize("strategy", [Strategy.FUSED, Strategy.TIMELINE])
async def test_where_i_lived_before_rests_on_the_old_facts_too(strategy: Strategy):
    reply = await reply_to("Where did I live before?", strategy=strategy)
    assert set(reply.cited) >= {"1.1", "2.1"}


async def test_what_is_over_stands_in_timelines_only_and_with_its_days():
    reply = await reply_to("Where did I live before?")
    rows = [row for row in reply.context.splitlines() if "Mia lives in" in row]
    days = {
        "Lyon": "11 January 2026, held until 21 January 2026",
        "Oslo": "21 January 2026, held until 20 February 2026",
    }
    for city, note in days.items():
        assert [row.endswith(f"Mia lives in {city}. ({note})") for row in rows if city in row] == [True]
    assert "Oslo" in reply.context
    assert "I live in Lyon, near the river." not in reply.context
    assert "I moved to Oslo" not in reply.context
