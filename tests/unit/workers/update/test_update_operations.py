"""What update does with a session: insights turn by turn, then the summary by the answers of one question."""

from collections.abc import Sequence
from itertools import permutations

import pytest

from eunoe.schemas.decisions import Commit, Decision, Put, Scope, Wait, Work
from eunoe.schemas.events import InsightKind
from eunoe.schemas.memory import ChangeKind, Memory, MemoryOrigin, MemoryStatus
from eunoe.schemas.relations import Relation
from eunoe.workers.link.graph import STATS, GraphStats, Related
from eunoe.workers.link.reads import read_neighbours
from eunoe.workers.link.writes import StoredNeighbours, age_key, graph_writes
from eunoe.workers.models.questions.answer_forms import OperationRow, OperationsForm
from eunoe.workers.models.questions.batches import MAX_PAIRS
from eunoe.workers.update.candidate_reader import CandidateReader
from eunoe.workers.update.lifecycle import Lifecycle
from eunoe.workers.update.memories import MAX_MERGED_EVIDENCE, insight_id, summary_memories, with_evidence
from eunoe.workers.update.model import ModelOperator
from eunoe.workers.update.offline import OfflineOperator
from eunoe.workers.update.operator import OperationPair
from eunoe.workers.update.reads import all_memories, history_of
from eunoe.workers.update.settings import UpdateSettings
from tests.support.in_memory import START, HashEmbedder
from tests.support.updates import KEY, MADE, Gathered, ScriptedModel, Updates, formed, insight, proposed

NEW, REDUNDANT, UPDATED = InsightKind.NEW, InsightKind.REDUNDANT, InsightKind.UPDATED


async def test_insights_are_added_and_replace_exactly_what_they_name():
    updates = Updates(script={}, linked=True)
    await updates.hear(formed(1, "Ann lives in Lyon.", "Ann sails.", "Ann bakes."))
    lyon, sails, _ = (memory.memory_id for memory in await all_memories(updates.store, KEY))
    await updates.hear(
        proposed(2, 1, insight(UPDATED, "Ann lives in Oslo.", 2, lyon), insight(NEW, "Ann has a cat.", 2)),
        proposed(2, 2, insight(REDUNDANT, "Ann goes sailing.", 2, sails)),
        formed(2, turns=(1, 2)),
    )
    known = await updates.memories()
    assert await updates.current() == ["Ann bakes.", "Ann lives in Oslo.", "Ann has a cat.", "Ann goes sailing."]
    oslo = known["Ann lives in Oslo."]
    assert (oslo.origin, oslo.memory_id) == (MemoryOrigin.INSIGHT, insight_id(KEY, 2, 1, 0))
    assert known["Ann lives in Lyon."].ending.by == oslo.memory_id
    assert known["Ann sails."].ending.by == known["Ann goes sailing."].memory_id
    kinds = [change.kind.value for change in updates.told()[1].changes]
    assert kinds == ["added", "superseded", "added", "added", "superseded"]
    assert not updates.model.asked


async def test_a_merge_keeps_the_details_and_rests_on_all_evidence():
    updates = Updates(script={}, linked=True)
    await updates.hear(formed(1, "Ann has a cat."), formed(2, "Ann's cat is grey.", "Ann sails."))
    cat, grey, _ = (memory.memory_id for memory in await all_memories(updates.store, KEY))
    merge = "Ann has a grey cat called Miso."
    await updates.hear(proposed(3, 1, insight(REDUNDANT, merge, 3, cat, grey)), formed(3, turns=(1,)))
    assert await updates.current() == ["Ann sails.", merge]
    known = await updates.memories()
    assert {known[text].ending.by for text in ("Ann has a cat.", "Ann's cat is grey.")} == {known[merge].memory_id}
    assert [line.utterance_id for line in known[merge].evidence] == ["u1.0", "u2.0", "i3"]


def test_of_much_evidence_a_merge_keeps_its_own_and_the_latest():
    memories = [made(number) for number in range(1, 3 * MAX_MERGED_EVIDENCE)]
    whole = with_evidence(memories[0], memories[1:])
    assert [line.utterance_id for line in whole.evidence][:2] == ["u1.0", f"u{2 * MAX_MERGED_EVIDENCE}.0"]
    assert len(whole.evidence) == MAX_MERGED_EVIDENCE + 1
    assert whole.at == max(line.at for line in whole.evidence)


def made(session: int) -> Memory:
    (memory,) = summary_memories(formed(session, "Ann sails."))
    return memory


@pytest.mark.parametrize("kind", [REDUNDANT, UPDATED])
async def test_the_same_words_pass_and_take_over_what_else_is_named(kind: InsightKind):
    updates = Updates(script={}, linked=True)
    await updates.hear(formed(1, "Ann has a cat.", "Ann really has a grey cat."))
    cat, grey = (memory.memory_id for memory in await all_memories(updates.store, KEY))
    again = insight(kind, "Ann has a grey cat.", 2, cat, grey)
    await updates.hear(proposed(2, 1, again), formed(2, turns=(1,)))
    assert await updates.current() == ["Ann really has a grey cat."]
    known = await updates.memories()
    assert known["Ann has a grey cat."].ending.by == known["Ann has a cat."].ending.by == grey
    assert known["Ann really has a grey cat."].reinforced[0].by == known["Ann has a grey cat."].memory_id


async def test_an_update_in_words_that_memory_has_already_hands_over_to_them():
    updates = Updates(script={}, linked=True)
    await updates.hear(formed(1, "Ann lives in Lyon."), formed(2, "Ann lives in Oslo."))
    lyon, oslo = (memory.memory_id for memory in await all_memories(updates.store, KEY))
    await updates.hear(proposed(3, 1, insight(UPDATED, "Ann lives in Oslo!", 3, lyon)), formed(3, turns=(1,)))
    assert await updates.current() == ["Ann lives in Oslo."]
    assert (await updates.memories())["Ann lives in Lyon."].ending.by == oslo


async def test_an_insight_never_touches_another_speaker_or_what_has_ended():
    updates = Updates(script={}, linked=True)
    await updates.hear(formed(1, "Ben lives in Lyon.", speaker="Ben"), formed(2, "Ann sails."))
    ben, ann = (memory.memory_id for memory in await all_memories(updates.store, KEY))
    await updates.hear(
        proposed(3, 1, insight(UPDATED, "Ann lives in Rome.", 3, ben, "unknown", ann)),
        proposed(3, 2, insight(UPDATED, "Ann lives in Oslo.", 3, ann)),
        formed(3, turns=(1, 2)),
    )
    assert await updates.current() == ["Ben lives in Lyon.", "Ann lives in Rome.", "Ann lives in Oslo."]
    assert (await updates.memories())["Ann sails."].ending.by == insight_id(KEY, 3, 1, 0)


async def test_this_sessions_insights_count_as_memories_for_its_summary():
    updates = Updates(script={("Ann has a grey cat.", "Ann has a cat."): "PASS"})
    await updates.hear(
        proposed(1, 1, insight(NEW, "Ann has a grey cat.", 1)), formed(1, "Ann has a cat.", "Ann sails.", turns=(1,))
    )
    assert await updates.current() == ["Ann has a grey cat.", "Ann sails."]
    assert len(updates.model.asked) == 1


async def test_an_updated_insight_takes_along_linked_memories_that_only_restate():
    texts = [
        "Ann lives in a small house in Lyon.",
        "Ann lives in small houses in Lyon.",
        "Ann likes houses in Lyon.",
    ]
    for reach, left in ((True, 1), (False, 2)):
        updates = Updates(script={}, settings=UpdateSettings(reach=reach), linked=True)
        await updates.hear(*(formed(number, text) for number, text in enumerate(texts, 1)))
        first = (await all_memories(updates.store, KEY))[0].memory_id
        await updates.hear(proposed(4, 1, insight(UPDATED, "Ann lives in Oslo.", 4, first)), formed(4, turns=(1,)))
        current = await updates.current()
        assert len([text for text in current if text in texts]) == left
        assert "Ann lives in Oslo." in current


LYON, BEDROOMS, OSLO = "Ann lives in Lyon.", "Ann's flat in Lyon has two bedrooms.", "Ann lives in Oslo."
LIKES, SAILS = "Ann likes the food in Lyon.", "Ann sails."


async def reach(updates: Updates, *summary: str) -> None:
    """Two memories that link to the first, one that does not, and an insight that updates the first."""
    await updates.hear(formed(1, LYON), formed(2, BEDROOMS), formed(3, LIKES), formed(4, SAILS))
    await link(updates, LYON, BEDROOMS, LIKES)
    updates.model.asked.clear()
    first = (await updates.memories())[LYON].memory_id
    await updates.hear(proposed(5, 1, insight(UPDATED, OSLO, 5, first)), formed(5, *summary, turns=(1,)))


async def link(updates: Updates, old: str, *new: str) -> None:
    """Links as a judge would have made them."""
    known = await updates.memories()
    older = age_key(known[old])
    links = [Related(older, age_key(known[text]), Relation.SAME_TOPIC) for text in new]
    writes = graph_writes([age_key(memory) for memory in known.values()], links, StoredNeighbours(), MADE)
    stats = Put.of(STATS, STATS, GraphStats(session=4, memories=4))
    assert await updates.store.commit(Scope("link", KEY), Commit(0, 4, (*writes, stats)))


async def test_what_an_insight_updates_takes_along_linked_memories_as_the_model_judges():
    updates = Updates(script={(BEDROOMS, OSLO): "REPLACE"})
    await reach(updates)
    assert await updates.current() == [LIKES, SAILS, OSLO]
    assert len(updates.model.asked) == 1
    assert updates.model.seen[-1] == {(BEDROOMS, OSLO), (LIKES, OSLO)}
    known = await updates.memories()
    assert known[BEDROOMS].ending.by == known[LYON].ending.by == known[OSLO].memory_id
    assert "linked" in known[BEDROOMS].ending.because


async def test_the_linked_ones_are_asked_about_in_the_one_question_of_the_session():
    updates = Updates(script={(BEDROOMS, OSLO): "REPLACE", (SAILS, "Ann sold her boat."): "REPLACE"})
    await reach(updates, "Ann sold her boat.")
    assert await updates.current() == [LIKES, OSLO, "Ann sold her boat."]
    assert len(updates.model.asked) == 1


async def test_a_linked_memory_that_the_insight_took_along_is_no_longer_replaced_by_the_summary():
    again = "Ann's flat has three bedrooms."
    updates = Updates(script={(BEDROOMS, OSLO): "REPLACE", (BEDROOMS, again): "REPLACE"})
    await reach(updates, again)
    known = await updates.memories()
    assert known[BEDROOMS].ending.by == known[OSLO].memory_id
    assert await updates.current() == [LIKES, SAILS, OSLO, again]


@pytest.mark.parametrize("operation", ["PASS", "APPEND", "DELETE", "FUSE: Ann lives in Oslo in a flat."])
async def test_of_linked_memories_only_what_is_replaced_goes(operation: str):
    updates = Updates(script={(BEDROOMS, OSLO): operation})
    await reach(updates)
    assert await updates.current() == [BEDROOMS, LIKES, SAILS, OSLO]


async def moved(updates: Updates, texts: Sequence[str] = (LYON, BEDROOMS, LIKES, SAILS), said: str = OSLO) -> None:
    """Memories of which the second and third link to the first, and a summary sentence."""
    await updates.hear(formed(1, *texts))
    await link(updates, *texts[:3])
    updates.model.asked.clear()
    await updates.hear(formed(2, said))


async def test_what_a_summary_replaces_takes_along_linked_memories_that_were_not_judged():
    script = {(LYON, OSLO): "REPLACE", (BEDROOMS, OSLO): "REPLACE"}
    updates = Updates(script=script, settings=UpdateSettings(max_pairs=1, similar=1))
    await moved(updates)
    assert await updates.current() == [LIKES, SAILS, OSLO]
    assert updates.model.seen[-1] == {(BEDROOMS, OSLO)}
    assert len(updates.model.asked) == 2
    assert (await updates.memories())[BEDROOMS].ending.by == (await updates.memories())[OSLO].memory_id


async def test_what_the_session_judged_is_not_asked_about_again():
    updates = Updates(script={(LYON, OSLO): "REPLACE"})
    await moved(updates)
    assert await updates.current() == [BEDROOMS, LIKES, SAILS, OSLO]
    assert len(updates.model.asked) == 1


RESTATED = ("Ann lives in a small house in Lyon.", "Ann lives in small houses in Lyon.", LIKES, SAILS)


@pytest.mark.parametrize(
    ("operation", "reach", "left"),
    [
        ("REPLACE", True, [LIKES, SAILS, OSLO]),
        ("REPLACE", False, [RESTATED[1], LIKES, SAILS, OSLO]),
        ("DELETE", True, [LIKES, SAILS]),
        ("FUSE: Ann lives in Oslo, before in Lyon.", True, [LIKES, SAILS, "Ann lives in Oslo, before in Lyon."]),
    ],
)
async def test_linked_memories_that_only_restate_end_as_what_a_summary_ends(
    operation: str, reach: bool, left: list[str]
):
    updates = Updates(script={(RESTATED[0], OSLO): operation}, settings=UpdateSettings(reach=reach))
    await moved(updates, RESTATED)
    assert await updates.current() == left
    known = await updates.memories()
    if reach:
        assert known[RESTATED[1]].ending.by == known[RESTATED[0]].ending.by
        assert known[RESTATED[1]].status == known[RESTATED[0]].status


async def test_where_the_question_is_full_linked_memories_are_not_asked_about():
    updates = Updates(script={(BEDROOMS, OSLO): "REPLACE"}, settings=UpdateSettings(max_pairs=4))
    await reach(updates, "Ann bakes.")
    assert await updates.current() == [BEDROOMS, LIKES, SAILS, OSLO, "Ann bakes."]
    assert len(updates.model.asked) == 1
    assert {new for _, new in updates.model.seen[-1]} == {"Ann bakes."}


@pytest.mark.parametrize("settings", [UpdateSettings(reach=False), UpdateSettings()])
async def test_without_the_setting_or_a_model_nothing_is_asked_about_linked_memories(settings: UpdateSettings):
    script = {(BEDROOMS, OSLO): "REPLACE"}
    updates = Updates(script=None if settings.reach else script, settings=settings)
    await reach(updates)
    assert await updates.current() == [BEDROOMS, LIKES, SAILS, OSLO]
    assert not updates.model.asked


def arriving() -> list[Gathered]:
    """Two sessions: their summaries, and two proposals of the second."""
    cat, boat = insight(NEW, "Ann has a cat.", 2), insight(NEW, "Ann has a boat.", 2)
    return [formed(1, LYON), proposed(2, 1, cat), proposed(2, 2, boat), formed(2, OSLO, "Ann has a cat.", turns=(1, 2))]


@pytest.mark.parametrize("order", list(permutations(range(4))), ids=str)
async def test_proposals_before_between_and_after_summaries_leave_the_same_memory(order: Sequence[int]):
    script = {(LYON, OSLO): "REPLACE"}
    in_order, disturbed = Updates(script=script), Updates(script=script)
    await in_order.hear(*arriving())
    await disturbed.hear(*(arriving()[place] for place in order))
    assert disturbed.everything() == in_order.everything()
    assert await disturbed.current() == ["Ann has a cat.", "Ann has a boat.", OSLO]
    before = disturbed.everything()
    await disturbed.hear(*(arriving()[place] for place in order))
    assert disturbed.everything() == before


async def test_only_what_uses_links_waits_for_them():
    updates = Updates(script={})
    await updates.hear(formed(1, LYON), formed(2, SAILS))
    first = (await updates.memories())[LYON].memory_id
    stage = updates.stage
    for kind, replaces, waits in ((NEW, (), False), (REDUNDANT, (first,), False), (UPDATED, (first,), True)):
        events = (proposed(3, 1, insight(kind, OSLO, 3, *replaces)), formed(3, "Ann bakes.", turns=(1,)))
        outcome = await stage.decide(Work(KEY, events, 3, START))
        assert isinstance(outcome, Wait if waits else Decision), kind


async def test_a_session_that_link_skipped_holds_nothing_up():
    updates = Updates(script={})
    await updates.hear(formed(1, LYON), formed(2, SAILS))
    first = (await updates.memories())[LYON].memory_id
    for session in (1, 2):
        assert await updates.store.commit(Scope("link", KEY), Commit(session - 1, session, skip=True))
    await updates.hear(proposed(3, 1, insight(UPDATED, OSLO, 3, first)), formed(3, turns=(1,)))
    assert await updates.current() == [SAILS, OSLO]


async def test_speakers_are_never_judged_against_each_other():
    updates = Updates(script={("Ben sails.", "Ann sails far."): "DELETE"})
    await updates.hear(formed(1, "Ben sails.", speaker="Ben"), formed(2, "Ann sails far."))
    assert await updates.current() == ["Ben sails.", "Ann sails far."]
    assert not updates.model.asked


async def test_a_fusion_is_one_memory_with_all_evidence():
    old, new = "Ann's back hurts but has not seen a doctor.", "Ann gets physiotherapy."
    updates = Updates(script={(old, new): "FUSE: Ann gets physiotherapy for back pain."})
    await updates.hear(formed(1, old), formed(2, new))
    (whole,) = [memory for memory in (await updates.memories()).values() if memory.ending is None]
    assert (whole.text, whole.origin, whole.made_by.prompt) == (
        "Ann gets physiotherapy for back pain.",
        MemoryOrigin.FUSION,
        "update/2",
    )
    assert [line.utterance_id for line in whole.evidence] == ["u1.0", "u2.0"]
    assert {m.ending.by for m in (await updates.memories()).values() if m.ending} == {whole.memory_id}


async def test_the_same_words_pass_without_a_question_and_a_return_is_news():
    updates = Updates(script={("Ann lives in Lyon.", "Ann lives in Oslo."): "REPLACE"})
    await updates.hear(formed(1, "Ann lives in Lyon."), formed(2, "Ann lives in Lyon!"))
    assert not updates.model.asked
    await updates.hear(formed(3, "Ann lives in Oslo."), formed(4, "Ann lives in Lyon."))
    assert await updates.current() == ["Ann lives in Oslo.", "Ann lives in Lyon."]


@pytest.mark.parametrize("remembered", [10, 1000])
async def test_a_session_takes_few_calls_whatever_is_remembered(remembered: int):
    texts = [f"Ann knows fact number {number} of topic {number % 97}." for number in range(remembered)]
    target = texts[7]
    updates = Updates(script={(target, "Ann no longer knows fact number 7 of topic 7."): "REPLACE"}, linked=True)
    await updates.hear(formed(1, *texts))
    before = len(updates.model.asked)
    await updates.hear(formed(2, "Ann no longer knows fact number 7 of topic 7.", "Ann sails."))
    asked = updates.model.seen[before:]
    assert target not in await updates.current()
    assert all(len(pairs) <= MAX_PAIRS for pairs in asked)
    assert len(asked) <= UpdateSettings().max_pairs / MAX_PAIRS + 1
    assert len(await updates.current()) == remembered + 1


async def test_beyond_the_budget_what_was_said_time_and_again_hides_no_other_memory():
    """A repeated sentence is kept, superseded by the memory that it repeats, and found by its vector."""
    near, gone = "Ann lives in Lyon near her sister.", "Ann lives in Lyon no longer."
    updates = Updates(script={}, settings=UpdateSettings(max_pairs=2, similar=2, linked=False))
    await updates.hear(formed(1, LYON, near, SAILS))
    await updates.hear(*(formed(session, LYON) for session in range(2, 22)))
    assert await updates.current() == [LYON, near, SAILS]
    await updates.hear(formed(22, gone))
    assert updates.model.seen[-1] == {(LYON, gone), (near, gone)}


async def test_beyond_the_budget_linked_memories_are_judged_too():
    filler = [f"Ann owns {' '.join(f'thing{number}x{part}' for part in range(40))}." for number in range(12)]
    updates = Updates(script={}, settings=UpdateSettings(max_pairs=8, similar=1), linked=True)
    await updates.hear(formed(1, "Ann plants tomato seeds indoors.", *filler))
    await updates.hear(formed(2, "Ann no longer keeps tomato seeds indoors after planting."))
    await updates.hear(formed(3, "Ann no longer keeps tomato seeds indoors after planting them outside."))
    assert (
        "Ann plants tomato seeds indoors.",
        "Ann no longer keeps tomato seeds indoors after planting them outside.",
    ) in (updates.model.seen[-1])


async def test_beyond_the_budget_what_is_linked_and_has_ended_is_not_read():
    seeds, settings = "Ann plants tomato seeds indoors.", UpdateSettings(max_pairs=2, similar=1)
    updates = Updates(script={}, settings=settings, linked=True)
    await updates.hear(formed(1, seeds, SAILS, "Ann bakes."), formed(2, seeds), formed(3, SAILS))
    known = await all_memories(updates.store, KEY)
    first, *again = (memory for memory in known if memory.text == seeds)
    linked = await read_neighbours(updates.store, KEY, [first.memory_id])
    assert linked == {first.memory_id: [memory.memory_id for memory in again]}
    reader, life = CandidateReader(updates.store, updates.stores.index, HashEmbedder(), settings, KEY, 4), Lifecycle(4)
    sentences = summary_memories(formed(4, "Ann no longer plants tomato seeds indoors."))
    pairs, are_all = await reader.pairs(life, sentences, {"Ann": 3}, ["Ann"])
    assert ([pair.old.text for pair in pairs], are_all) == ([seeds], False)
    assert [memory.text for memory in known if life.get(memory.memory_id)] == [seeds]


class Stubborn(ScriptedModel):
    """Gives an answer that cannot be believed, every time."""

    def __init__(self, answer: OperationsForm) -> None:
        super().__init__({})
        self._answer = answer

    async def answer(self, prompt: object, form: type, *, urgent: bool = False) -> OperationsForm:
        self.asked.append(prompt)
        return self._answer


def told(pair: int, operation: str = "APPEND", fused: str = "") -> OperationRow:
    return OperationRow(n=pair, why="r", op=operation, merged=fused)


@pytest.mark.parametrize(
    "answer",
    [(), (told(1), told(1, "PASS")), (told(2),), (told(1, "FUSE"),), (told(1, "FUSE", "x" * 401),)],
    ids=["a pair missing", "a pair twice", "a strange pair", "nothing fused", "too long"],
)
async def test_two_bad_answers_leave_it_to_the_rules_and_are_marked(answer: tuple[OperationRow, ...]):
    model = Stubborn(OperationsForm(pairs=answer))
    updates = Updates(operator=ModelOperator(model, OfflineOperator()))
    await updates.hear(formed(1, "Ann has the flu."), formed(2, "Ann recovered from the flu."))
    assert len(model.asked) == 2
    assert await updates.current() == []
    retired = [change for change in updates.told()[1].changes if change.kind is ChangeKind.RETIRED]
    assert len(retired) == 2
    memories = await all_memories(updates.store, KEY)
    judgement = await ModelOperator(model, OfflineOperator()).operate([OperationPair(memories[0], memories[1])])
    assert (judgement.made_by.fallback, judgement.made_by.prompt) == (True, "update/2")


SESSIONS = [
    ["Ann lives in Lyon.", "Ann works at a bakery.", "Ann is single.", "Ann plans to visit Rome.", "Ann has two cats."],
    ["Ann moved to Oslo.", "Ann has a cold.", "Ann is dating Ben.", "Ann smokes."],
    ["Ann quit the bakery.", "Ann recovered from the cold.", "Ann plans to visit Naples instead of Rome."],
    ["Ann works as a nurse.", "Ann married Ben.", "Ann has in fact three cats.", "Ann quit smoking."],
    ["Ann plans to visit Crete instead of Naples.", "Ann's favorite color is blue.", "Ann drives to work."],
    ["Ann moved to Bergen.", "Ann visited Crete.", "Ann's favorite color is green.", "Ann cycles to work."],
]
CHANGES = {
    ("Ann lives in Lyon.", "Ann moved to Oslo."): "REPLACE",
    ("Ann moved to Oslo.", "Ann moved to Bergen."): "REPLACE",
    ("Ann works at a bakery.", "Ann quit the bakery."): "REPLACE",
    ("Ann quit the bakery.", "Ann works as a nurse."): "REPLACE",
    ("Ann has a cold.", "Ann recovered from the cold."): "DELETE",
    ("Ann is single.", "Ann is dating Ben."): "REPLACE",
    ("Ann is dating Ben.", "Ann married Ben."): "REPLACE",
    ("Ann has two cats.", "Ann has in fact three cats."): "REPLACE",
    ("Ann plans to visit Rome.", "Ann plans to visit Naples instead of Rome."): "REPLACE",
    (
        "Ann plans to visit Naples instead of Rome.",
        "Ann plans to visit Crete instead of Naples.",
    ): "REPLACE",
    ("Ann plans to visit Crete instead of Naples.", "Ann visited Crete."): "REPLACE",
    ("Ann smokes.", "Ann quit smoking."): "REPLACE",
    ("Ann's favorite color is blue.", "Ann's favorite color is green."): "REPLACE",
    ("Ann drives to work.", "Ann cycles to work."): "REPLACE",
}
HISTORIES = {
    "Ann moved to Bergen.": ["Ann lives in Lyon.", "Ann moved to Oslo."],
    "Ann works as a nurse.": ["Ann works at a bakery.", "Ann quit the bakery."],
    "Ann married Ben.": ["Ann is single.", "Ann is dating Ben."],
    "Ann has in fact three cats.": ["Ann has two cats."],
    "Ann quit smoking.": ["Ann smokes."],
    "Ann visited Crete.": [
        "Ann plans to visit Rome.",
        "Ann plans to visit Naples instead of Rome.",
        "Ann plans to visit Crete instead of Naples.",
    ],
    "Ann's favorite color is green.": ["Ann's favorite color is blue."],
    "Ann cycles to work.": ["Ann drives to work."],
}


async def test_planned_changes_leave_exactly_the_expected_memory_and_histories():
    updates = Updates(script=CHANGES, linked=True)
    await updates.hear(*(formed(number, *texts) for number, texts in enumerate(SESSIONS, 1)))
    assert sorted(await updates.current()) == sorted(HISTORIES)
    known = await updates.memories()
    for last, earlier in HISTORIES.items():
        history = await history_of(updates.store, KEY, known[last].memory_id)
        ended = [entry.memory.text for entry in history if entry.kind is ChangeKind.SUPERSEDED]
        assert ended == earlier
        assert all(entry.by is not None and entry.because for entry in history if entry.kind is not ChangeKind.ADDED)
    cold = [known["Ann has a cold."], known["Ann recovered from the cold."]]
    assert {memory.status for memory in cold} == {MemoryStatus.RETIRED}
    assert len(updates.model.asked) == len(SESSIONS) - 1
