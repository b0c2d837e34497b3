"""What endings say: that something no longer holds, that another memory says it too, or that nothing was new."""

import pytest

from eunoe.schemas.events import InsightKind
from eunoe.schemas.memory import Change, ChangeKind, Ending, MemoriesChanged, Memory, MemoryStatus
from eunoe.workers.update.endings import SessionEndings
from eunoe.workers.update.reads import all_memories, endings_of
from eunoe.workers.update.settings import UpdateSettings
from tests.support.in_memory import START
from tests.support.tree import memory
from tests.support.updates import KEY, Updates, formed, insight, proposed

LYON, OSLO, LIKES = "Ann lives in Lyon.", "Ann lives in Oslo.", "Ann likes classical music."
CONCERTS = "Ann likes classical music and goes to a concert every week."


async def endings(updates: Updates) -> tuple[list[str], dict[str, str | None]]:
    """The texts that only repeat, and text → text of the memory that says it, after the last session."""
    texts = {memory.memory_id: memory.text for memory in await all_memories(updates.store, KEY)}
    found = endings_of(updates.told()[-1])
    said_by = {texts[id_]: None if by is None else texts[by] for id_, by in found.said_by.items()}
    return sorted(texts[id_] for id_ in found.repeated), said_by


@pytest.mark.parametrize(
    ("old", "operation", "new", "said_by"),
    [
        (LYON, "REPLACE", OSLO, {LYON: None}),
        (LYON, "DELETE", "Ann has left Lyon for good.", {LYON: None, "Ann has left Lyon for good.": None}),
        (LIKES, "REPLACE", CONCERTS, {LIKES: CONCERTS}),
        (CONCERTS, "REPLACE", LIKES, {CONCERTS: None}),
        (LIKES, "REPLACE", "Ann no longer likes classical music and goes to a bar.", {LIKES: None}),
        ("Ann isst Fleisch.", "REPLACE", "Ann isst kein Fleisch mehr.", {"Ann isst Fleisch.": None}),
        (LYON, "FUSE: Ann lives in Lyon by the river.", "Ann lives by a river.",
         {LYON: "Ann lives in Lyon by the river.", "Ann lives by a river.": "Ann lives in Lyon by the river."}),
    ],
)  # fmt: skip
async def test_an_ending_tells_whether_its_successor_says_it_too(
    old: str, operation: str, new: str, said_by: dict[str, str | None]
):
    updates = Updates(script={(old, new): operation})
    await updates.hear(formed(1, old), formed(2, new))
    assert await endings(updates) == ([], said_by)


async def test_offline_rules_tell_the_same():
    gym, over = "Ann goes to the gym.", "Ann does not go to the gym any more."
    updates = Updates()
    await updates.hear(formed(1, gym, LIKES), formed(2, over, CONCERTS))
    assert await endings(updates) == ([], {gym: None, LIKES: CONCERTS})


async def test_what_the_rules_pass_with_words_of_its_own_is_no_mere_repetition():
    cello, again = "Ann plays the cello in the city orchestra.", "Ann plays the cello in the orchestra."
    moved, other = (
        f"Ann moved to Lyon in spring, and works at the {place} there." for place in ("harbour", "busy harbour")
    )
    updates = Updates()
    await updates.hear(formed(1, cello, moved), formed(2, again, other))
    assert await endings(updates) == ([again], {other: moved})


async def test_a_sentence_that_a_memory_passes_only_repeats():
    updates = Updates(script={(CONCERTS, LIKES): "PASS"})
    await updates.hear(formed(1, CONCERTS), formed(2, LIKES, CONCERTS, OSLO))
    assert await endings(updates) == (sorted([LIKES, CONCERTS]), {})


async def test_an_insight_in_the_words_of_a_memory_repeats_and_a_redundant_one_says_what_it_merges():
    updates = Updates(script={}, linked=True)
    await updates.hear(formed(1, "Ann has a cat.", "Ann's cat is grey."))
    cat, grey = (memory.memory_id for memory in await all_memories(updates.store, KEY))
    again = insight(InsightKind.REDUNDANT, "Ann has a cat!", 2, cat, grey)
    await updates.hear(proposed(2, 1, again), formed(2, turns=(1,)))
    assert await endings(updates) == (["Ann has a cat!"], {"Ann's cat is grey.": "Ann has a cat."})


async def test_what_is_merged_and_then_out_of_date_no_longer_holds():
    home = "Ann lives in Lyon in a flat."
    updates = Updates(script={(home, OSLO): "REPLACE"}, linked=True)
    await updates.hear(formed(1, LYON))
    (lyon,) = (memory.memory_id for memory in await all_memories(updates.store, KEY))
    merged = insight(InsightKind.REDUNDANT, home, 2, lyon)
    await updates.hear(proposed(2, 1, merged), formed(2, OSLO, turns=(1,)))
    assert await endings(updates) == ([], {LYON: None, home: None})


RESTATED = ("Ann lives in a small house in Lyon.", "Ann lives in small houses in Lyon.")


@pytest.mark.parametrize(
    ("operation", "new", "says"),
    [("REPLACE", OSLO, False), ("FUSE: Ann lives in a small old house in Lyon.", "Ann's house is old.", True)],
)
async def test_what_only_restates_another_memory_ends_as_that_one(operation: str, new: str, says: bool):
    updates = Updates(script={(RESTATED[0], new): operation})
    await updates.hear(formed(1, *RESTATED), formed(2, new))
    _, said_by = await endings(updates)
    assert set(RESTATED) <= set(said_by)
    assert {by is not None for text, by in said_by.items() if text in RESTATED} == {says}


async def test_consolidated_memories_are_said_by_the_one_in_their_place():
    one = "Ann keeps a small blue sailing boat in the old harbour of Lyon for summer weekends."
    other = "Ann keeps a small blue sailing boat in the old harbour of Lyon for summer weekends again."
    updates = Updates(script={}, settings=UpdateSettings(consolidate_every=3, linked=False, reach=False))
    await updates.hear(formed(1, one, other), formed(2, "Ann sails."))
    repeated, said_by = await endings(updates)
    assert (repeated, set(said_by)) == ([], {one, other})
    assert set(said_by.values()) <= {one, other}


@pytest.mark.timeout(20)
@pytest.mark.parametrize("successors", [("a",), ("b", "a"), ("b", "c", "b")])
def test_a_chain_that_comes_back_to_itself_ends(successors: tuple[str, ...]):
    """No stage writes one, but a record of a producer may tell it."""
    olds = [memory(1, place, HOME) for place in range(len(successors))]
    ids = dict(zip("abc", (one.memory_id for one in olds), strict=False))
    changes = [change for old, by in zip(olds, successors, strict=True) for change in superseded(old, ids[by])]
    event = MemoriesChanged(conversation_id="c", session=2, changes=tuple(changes), known_from=START)
    assert set(endings_of(event).said_by.values()) == {None}


def superseded(old: Memory, by: str) -> list[Change]:
    """The changes of a memory that is superseded in the session that adds it."""
    ending = Ending(status=MemoryStatus.SUPERSEDED, by=by, session=2, at=START, because="changed")
    over = old.model_copy(update={"ending": ending})
    return [Change(kind=ChangeKind.ADDED, memory=old), Change(kind=ChangeKind.SUPERSEDED, memory=over)]


def test_a_reinforcement_that_names_nothing_tells_nothing():
    told = memory(1, 0, HOME)
    event = MemoriesChanged(
        conversation_id="c",
        session=2,
        changes=(Change(kind=ChangeKind.REINFORCED, memory=told),),
        known_from=START,
    )
    assert endings_of(event) == SessionEndings()


HOME = "Ann lives in Lyon with her cat Tom."
