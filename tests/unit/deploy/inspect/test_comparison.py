"""What differs between two generations: pure parts over memories that the pipeline made."""

from dataclasses import replace
from pathlib import Path

import pytest

from eunoe.deploy.generations.diff.questions import DiffQuestion, ask_both, overlap, read_questions
from eunoe.deploy.inspect.differences import (
    MEMORIES,
    NODES,
    SEGMENTS,
    GenerationDiff,
    Remembered,
    RememberedItem,
    compare,
    tally,
)
from eunoe.deploy.inspect.remembered import read_both, read_remembered
from eunoe.schemas.errors import Refused
from eunoe.schemas.events import Strategy
from eunoe.schemas.memory import Ending, MemoryStatus, Reinforcement, Suspicion
from eunoe.workers.derive.in_memory import InMemoryPipeline
from eunoe.workers.link.settings import LinkSettings
from eunoe.workers.registry import StageSettings
from eunoe.workers.respond.context import Context, Row
from eunoe.workers.tree.settings import TreeSettings
from tests.support.in_memory import START, make_pipeline
from tests.support.talk import talk

KEY = "default/c"


async def pipeline_of(settings: StageSettings | None = None) -> InMemoryPipeline:
    pipeline = make_pipeline(settings)
    for event in talk():
        await pipeline.produce(event)
    return pipeline


async def remembered(settings: StageSettings | None = None) -> Remembered:
    return await read_remembered((await pipeline_of(settings)).store, KEY)


async def test_two_memories_of_one_log_are_equal():
    difference = compare(await remembered(), await remembered(), 3)
    assert difference.is_equal
    assert not any(found.differs for found in difference.tallies.values())
    assert difference.tallies[MEMORIES].old >= 4
    assert difference.tallies[SEGMENTS].old >= 5
    assert difference.sessions == (5, 5)
    assert difference.trees[0] == difference.trees[1]
    assert difference.trees[0].leaves >= 4


async def test_equal_digests_are_counted_without_matching():
    old, new = await pipeline_of(), await pipeline_of()
    before, after = await read_both(old.store, new.store, KEY)
    assert before is after
    difference = compare(before, after, 3)
    assert difference == compare(await remembered(), await remembered(), 3)


async def test_different_digests_are_read_on_both_sides():
    old, new = await pipeline_of(), await pipeline_of(StageSettings(tree=TreeSettings(fan_out=2)))
    before, after = await read_both(old.store, new.store, KEY)
    assert before == await read_remembered(old.store, KEY)
    assert after == await read_remembered(new.store, KEY)
    assert before.digest != after.digest


async def test_another_setting_of_link_changes_edges_alone():
    difference = compare(await remembered(), await remembered(StageSettings(link=LinkSettings(associative=1))), 3)
    assert not difference.is_equal
    differing = {kind for kind, found in difference.tallies.items() if found.differs}
    assert differing
    assert all(kind.startswith("edges: ") for kind in differing)
    some = next(found for kind, found in difference.tallies.items() if kind in differing)
    assert some.examples[0].old or some.examples[0].new


async def test_another_fan_out_changes_the_tree_s_shape():
    difference = compare(await remembered(), await remembered(StageSettings(tree=TreeSettings(fan_out=2))), 3)
    assert {kind for kind, found in difference.tallies.items() if found.differs} == {NODES}
    assert difference.trees[1].fan_out <= 2 < difference.trees[0].fan_out


async def test_a_memory_that_ended_otherwise_is_shown_with_both_ends():
    old = await remembered()
    memories = list(old.memories)
    place = next(place for place, memory in enumerate(memories) if memory.ending is None)
    ending = Ending(
        status=MemoryStatus.SUPERSEDED, by=memories[place - 1].memory_id, session=5, at=START, because="moved"
    )
    ended = memories[place].model_copy(update={"ending": ending})
    new = replace(old, memories=[*memories[:place], ended, *memories[place + 1 :]], digest="other")
    found = compare(old, new, 3).tallies[MEMORIES]
    assert (found.only_old, found.only_new, found.changed) == (0, 0, 1)
    assert "[holds" in found.examples[0].old
    assert "superseded by" in found.examples[0].new


async def test_a_memory_that_is_suspected_otherwise_is_shown_with_what_contradicts_it():
    old = await remembered()
    first, second, *others = old.memories
    doubted = second.model_copy(
        update={
            "suspected": (Suspicion(by=first.memory_id, session=5, because="contradicts it"),),
            "reinforced": (Reinforcement(by=first.memory_id, session=5, at=START),),
        }
    )
    new = replace(old, memories=[first, doubted, *others], digest="other")
    found = compare(old, new, 3).tallies[MEMORIES]
    assert (found.only_old, found.only_new, found.changed) == (0, 0, 1)
    assert f"repeated by {first.text}; doubted because of {first.text}" in found.examples[0].new
    assert "doubted" not in found.examples[0].old


def test_things_are_counted_one_by_one():
    old = [RememberedItem("a", "A"), RememberedItem("a", "A"), RememberedItem("b", "B", "1")]
    new = [RememberedItem("a", "A"), RememberedItem("b", "B", "2"), RememberedItem("c", "C")]
    found = tally("k", old, new, 2)
    assert (found.old, found.new, found.only_old, found.only_new, found.changed) == (3, 3, 1, 1, 1)
    assert len(found.examples) == 2
    both = found.plus(found, 3)
    assert (both.only_old, len(both.examples)) == (2, 3)


async def test_differences_of_conversations_add_up():
    one = compare(await remembered(), await remembered(), 3)
    two = GenerationDiff().plus(one, 3).plus(one, 3)
    assert (two.conversations, two.equal) == (2, 2)
    assert two.tallies[MEMORIES].old == 2 * one.tallies[MEMORIES].old
    assert two.trees[0].depth == one.trees[0].depth


async def test_the_same_question_finds_the_same_in_equal_memories_and_nothing_in_an_empty_one():
    full, same, empty = await pipeline_of(), await pipeline_of(), make_pipeline()
    kits = [pipeline.dependencies for pipeline in (full, same, empty)]
    question = DiffQuestion(question="Where does Ann work?", conversation="c")
    (equal,) = await ask_both(kits[0], kits[1], [question], None)
    assert equal.shared == 1
    assert equal.utterances[0] == equal.utterances[1] != ()
    assert equal.tokens[0] == equal.tokens[1] > 0
    (other,) = await ask_both(kits[0], kits[2], [question], Strategy.CURRENT)
    assert (other.shared, other.tokens[1]) == (0, 0)


def test_overlap_is_what_both_show_of_what_either_shows():
    def shown(*ids: str) -> Context:
        return Context(rows=tuple(Row(n, "Ann", id_, START, (id_,)) for n, id_ in enumerate(ids)), tokens=len(ids))

    question = DiffQuestion(question="Why?", conversation="c")
    assert overlap(question, shown("a", "b"), shown("b", "c", "d")).shared == 0.25
    assert overlap(question, Context(), Context()).shared == 1


def test_a_file_of_questions_says_which_line_is_none(tmp_path: Path):
    path = tmp_path / "q.jsonl"
    path.write_text('{"conversation": "c", "question": "Where?"}\n\n{"question": "Who?"}\n')
    with pytest.raises(Refused, match="line 3: conversation"):
        read_questions(path)
    path.write_text('{"conversation": "c", "question": "Where?"}\n')
    assert [question.key for question in read_questions(path)] == ["default/c"]
    path.write_text("\n")
    with pytest.raises(Refused, match="no questions"):
        read_questions(path)
    with pytest.raises(Refused, match="cannot be read"):
        read_questions(tmp_path / "none")


async def test_segments_cut_otherwise_are_told_by_their_utterances():
    old = await remembered()
    cut = replace(old, segments=[old.segments[0].model_copy(update={"lines": old.segments[0].lines[:1]})], digest="x")
    found = compare(old, cut, 3).tallies[SEGMENTS]
    assert (found.only_new, found.only_old) == (1, len(old.segments))
