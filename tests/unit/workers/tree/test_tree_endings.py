"""What ends below a node: repetitions, what other entries say too, and what no longer holds."""

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from eunoe.schemas.memory import Memory, MemoryOrigin
from eunoe.workers.tree.aggregates import ELSEWHERE, FORMERLY, before
from eunoe.workers.tree.nodes import ROOT
from eunoe.workers.tree.reads import read_tree
from eunoe.workers.tree.settings import TreeSettings
from tests.support.tree import KEY, FakeModel, Grove, changed, check_tree, memory, repeated, replaced

HOME, CAT = "Ann lives in Lyon with her cat Tom.", "Ann adopted a cat called Tom."


async def test_a_fact_that_is_said_again_stays_in_the_tree_as_it_is():
    grove = Grove(TreeSettings(early_threshold=0.1))
    home = memory(1, 0, HOME)
    await grove.apply(changed(1, [home, memory(1, 1, CAT)]))
    before = await read_tree(grove.store, KEY)
    for session in (2, 3):
        decision = await grove.apply(repeated(session, home, memory(session, 0, HOME)))
        assert decision.points == ()
    nodes = await read_tree(grove.store, KEY)
    assert nodes == before
    check_tree(nodes, ["m1-0", "m1-1"], 32)


async def test_what_is_said_of_a_new_memory_in_its_own_session_is_one_leaf():
    grove = Grove()
    home = memory(1, 1, HOME)
    again = repeated(1, home, memory(1, 0, HOME))
    added = changed(1, [home]).changes
    await grove.apply(again.model_copy(update={"changes": (*added, *again.changes)}))
    check_tree(await read_tree(grove.store, KEY), ["m1-1"], 32)


async def test_what_a_current_memory_says_stays_where_another_one_with_its_words_ends():
    grove, asked = (Grove(TreeSettings(early_threshold=0.1)) for _ in range(2))
    one, other = memory(1, 0, "The concert begins at eight."), memory(1, 1, "The concert begins at eight.", "Ben")
    for each in (grove, asked):
        await each.apply(changed(1, [one, other]))
    await grove.apply(changed(2, [], [one]))
    nodes = await read_tree(grove.store, KEY)
    (top,) = nodes[ROOT].children
    assert nodes[top].text.splitlines()[0] == other.text
    assert (nodes[top].descendants, nodes[top].current) == (2, 1)
    asked.language = model = FakeModel()
    await asked.apply(changed(2, [], [one]))
    assert "Must drop" not in model.prompts[0].user


LIKES = "Ben likes classical music."
CONCERTS = "Ben likes classical music and goes to a concert every week."


async def test_what_its_successor_says_too_is_neither_dropped_nor_repeated():
    grove = Grove(TreeSettings(early_threshold=0.1))
    likes = memory(1, 0, LIKES, "Ben")
    await grove.apply(changed(1, [likes, memory(1, 1, "Ben likes classical dance and music.", "Ben")]))
    grove.language = model = FakeModel()
    await grove.apply(replaced(2, memory(2, 0, CONCERTS, "Ben"), likes))
    (prompt,) = model.prompts
    assert f"[e1] {CONCERTS}" in prompt.user
    assert "drop" not in prompt.user
    assert f"] {LIKES}" not in prompt.user
    leaf = next(node for node in (await read_tree(grove.store, KEY)).values() if node.entry == "m1-0")
    assert (leaf.ended, leaf.said_by) == (True, "m2-0")


async def test_offline_it_gives_way_to_its_successor():
    grove = Grove(TreeSettings(early_threshold=0.1))
    likes, dance = memory(1, 0, LIKES, "Ben"), memory(1, 1, "Ben likes classical dance and music.", "Ben")
    await grove.apply(changed(1, [likes, dance]))
    await grove.apply(replaced(2, memory(2, 0, CONCERTS, "Ben"), likes))
    nodes = await read_tree(grove.store, KEY)
    (top,) = nodes[ROOT].children
    assert nodes[top].text.splitlines() == [dance.text, CONCERTS]


async def test_what_is_merged_elsewhere_is_left_to_that_entry():
    grove = Grove(TreeSettings(early_threshold=0.1))
    lyon, other = memory(1, 0, "Ann lives in Lyon"), memory(1, 1, "Ann lives near Lyon")
    await grove.apply(changed(1, [lyon, other]))
    merged = memory(2, 0, "quite other words").model_copy(update={"origin": MemoryOrigin.FUSION})
    grove.language = model = FakeModel()
    await grove.apply(replaced(2, merged, lyon))
    assert f"[e1] {lyon.text}" in model.prompts[0].user
    assert "Left to another entry: e1." in model.prompts[0].user
    assert "Must drop" not in model.prompts[0].user
    grove.language = None
    last = memory(3, 0, "once more other words").model_copy(update={"origin": MemoryOrigin.FUSION})
    await grove.apply(replaced(3, last, other))
    nodes = await read_tree(grove.store, KEY)
    (top,) = (node for node in nodes.values() if not node.is_leaf and node.node_id != ROOT and "lives" in node.text)
    assert top.text == f"{ELSEWHERE}{other.text}"


async def test_nobody_is_asked_about_a_node_below_which_all_has_ended():
    grove = Grove(TreeSettings(early_threshold=0.1))
    cold, throat = memory(1, 0, "Ann has a bad cold"), memory(1, 1, "Ann has a bad cold and throat")
    grove.language = model = FakeModel()
    await grove.apply(changed(1, [cold, throat]))
    assert model.calls == 1
    await grove.apply(changed(2, [], [cold]))
    assert model.calls == 2, "one still holds"
    await grove.apply(changed(3, [], [throat]))
    assert model.calls == 2
    nodes = await read_tree(grove.store, KEY)
    (top,) = nodes[ROOT].children
    assert (nodes[top].current, nodes[top].text) == (0, f"{FORMERLY}{throat.text}")
    assert not nodes[top].made_by.fallback
    await grove.apply(changed(4, [memory(4, 0, "Ann has a bad cold again")]))
    assert "Said nothing before. New: e1." in model.prompts[-1].user


WORDS = ("ann", "lyon", "oslo", "cat", "dog", "house", "cello", "concert", "gym", "cold", "river", "boat", "hall")


@given(seed=st.integers(0, 10_000), fan_out=st.sampled_from([2, 3, 32]), limit=st.sampled_from([8, 20, 60]))
@settings(max_examples=25)
async def test_a_node_tells_only_what_has_ended_just_where_all_has(seed: int, fan_out: int, limit: int):
    chance = random.Random(seed)
    grove = Grove(TreeSettings(early_threshold=0.2, fan_out=fan_out, extract_tokens=limit))
    held: list[Memory] = []
    added: list[Memory] = []
    for session in range(1, 16):
        over = [held.pop(chance.randrange(len(held))) for _ in range(min(len(held), chance.randint(0, 3)))]
        texts = (" ".join(chance.choices(WORDS, k=chance.randint(2, 6))) for _ in range(chance.randint(0, 3)))
        new = [memory(session, place, text) for place, text in enumerate(texts)]
        await grove.apply(changed(session, new, over))
        held, added = [*held, *new], [*added, *new]
    nodes = await read_tree(grove.store, KEY)
    check_tree(nodes, [one.memory_id for one in added], fan_out) if added else None
    aggregates = [node for node in nodes.values() if not node.is_leaf and node.node_id != ROOT]
    assert [node.text for node in aggregates if (node.current == 0) != (before(node.text) == "")] == []


async def test_nothing_is_taken_back_that_was_not_said():
    grove = Grove(TreeSettings(early_threshold=0.3))
    likes = memory(1, 0, LIKES, "Ben")
    more = memory(2, 0, "Ben likes classical music and goes to a concert every week in the town hall with Eva.", "Ben")
    await grove.apply(changed(1, [likes]))
    await grove.apply(replaced(2, more, likes))
    await grove.apply(replaced(3, memory(3, 0, "Ben hates classical music now and goes to no concert.", "Ben"), more))
    grove.language = model = FakeModel()
    await grove.apply(changed(4, [memory(4, 0, "Ben likes classical music no more.", "Ben")]))
    (prompt,) = model.prompts
    assert "Said nothing before. New: e1." in prompt.user
    assert f"] {LIKES}" not in prompt.user
