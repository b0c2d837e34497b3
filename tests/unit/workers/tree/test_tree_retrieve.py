"""Searching the tree: leaves helped by their ancestors, or all nodes at once."""

import pytest

from eunoe.schemas.events import Provenance
from eunoe.schemas.ports import Hit
from eunoe.workers.tree.nodes import ROOT, TreeNode
from eunoe.workers.tree.reads import TreeRecall, read_tree
from eunoe.workers.tree.retrieve import NodeScores, ancestors_of, collapse, may_stand, rank_nodes
from eunoe.workers.tree.settings import TreeRecallSettings
from tests.support.in_memory import HashEmbedder
from tests.support.tree import KEY, FakeModel, Grove, changed, memory

SETTINGS = TreeRecallSettings()


def ids(hits):
    return [hit.id for hit in hits]


def test_ancestors_decide_between_leaves_that_are_otherwise_alike():
    leaves = {"a": NodeScores(0.5, 1.0, 0.1), "b": NodeScores(0.5, 1.0, 0.4), "c": NodeScores(0.2, 0.0, 0.2)}
    assert ids(rank_nodes(leaves, SETTINGS)) == ["b", "a", "c"]
    assert ids(rank_nodes(leaves, TreeRecallSettings(ancestor_weight=0))) == ["a", "b", "c"]


def test_a_leaf_without_ancestors_is_neither_helped_nor_harmed():
    alone = rank_nodes({"a": NodeScores(0.5, 1.0, None), "b": NodeScores(0.1, 0.0, None)}, SETTINGS)
    assert [hit.score for hit in alone] == [2.0, -2.0]
    assert rank_nodes({}, SETTINGS) == []


MODEL = Provenance(code="tree/1", model="fake", prompt="tree/1")


def node(id_: str, parent: str, depth: int, descendants: int = 0) -> TreeNode:
    entry, made_by = (None, MODEL) if descendants else (f"m{id_}", None)
    place = {"node_id": id_, "parent": parent, "depth": depth, "descendants": descendants}
    return TreeNode(**place, text=id_, entry=entry, made_by=made_by)


NODES = {
    "top": node("top", ROOT, 1, 5),
    "sub": node("sub", "top", 2, 2),
    "a": node("a", "sub", 3),
    "b": node("b", "sub", 3),
    "c": node("c", "top", 2),
    "d": node("d", ROOT, 1),
}


def hits(*pairs: tuple[str, float]) -> list[Hit]:
    return [Hit(id_, score) for id_, score in pairs]


def test_the_deeper_node_is_preferred_and_a_parent_adds_only_what_is_not_covered():
    found = collapse(hits(("sub", 0.9), ("top", 0.8), ("a", 0.7), ("b", 0.6), ("d", 0.5)), NODES, SETTINGS)
    assert [(hit.node_id, hit.covers) for hit in found] == [("top", 3), ("a", 1), ("b", 1), ("d", 1)]


def test_a_parent_that_adds_too_little_is_left_out():
    found = collapse(hits(("top", 0.8), ("a", 0.7), ("b", 0.6), ("c", 0.5)), NODES, SETTINGS)
    assert [hit.node_id for hit in found] == ["a", "b", "c"]


def test_beyond_the_limit_nothing_is_taken():
    assert len(collapse(hits(("a", 0.7), ("b", 0.6), ("d", 0.5)), NODES, TreeRecallSettings(limit=2))) == 2


@pytest.mark.parametrize(
    "made_by", [MODEL.model_copy(update={"fallback": True}), Provenance(code="c", model="m"), None]
)
def test_an_extract_never_stands_for_leaves(made_by):
    assert may_stand(NODES["sub"])
    assert not may_stand(NODES["sub"].model_copy(update={"made_by": made_by}))
    assert not may_stand(NODES["a"])


def test_ancestors_are_told_from_the_parent_up_without_the_root():
    assert ancestors_of(NODES["a"], NODES) == ("sub", "top")
    assert ancestors_of(NODES["d"], NODES) == ()


@pytest.fixture
async def grove() -> Grove:
    grove = Grove()
    texts = [
        "Ann grows roses and tulips",
        "Ann grows roses and lilies",
        "Ben plays violin at home",
        "Ben bakes rye bread",
    ]
    await grove.apply(changed(1, [memory(1, index, text) for index, text in enumerate(texts)]))
    return grove


def recall(grove: Grove, settings: TreeRecallSettings = SETTINGS) -> TreeRecall:
    return TreeRecall(grove.store, grove.index, HashEmbedder(), settings)


async def test_leaves_are_ranked_and_never_twice(grove):
    found = await recall(grove).recall(KEY, "who plays violin ?")
    assert found[0].entry == "m1-2"
    assert len({hit.entry for hit in found}) == len(found)
    assert all(hit.entry is not None and hit.covers == 1 for hit in found)


async def test_aggregates_stand_for_leaves_only_where_the_setting_says_so(grove):
    settings, question = TreeRecallSettings(aggregates_stand=True, limit=1), "summary of flowers"
    assert [hit.covers for hit in await recall(grove, settings).recall(KEY, question)] == [1]
    grove.language = FakeModel(lambda number, row: "summary of flowers" if "roses" in row else "music")
    await grove.apply(changed(2, [memory(2, 0, "Ann grows roses and irises")]))
    found = await recall(grove, settings).recall(KEY, question)
    nodes = await read_tree(grove.store, KEY)
    assert [(hit.entry, hit.covers) for hit in found] == [(None, 3)]
    assert found[0].text == nodes[found[0].node_id].text
    leaves = TreeRecallSettings(aggregates_stand=False, limit=1)
    assert [hit.covers for hit in await recall(grove, leaves).recall(KEY, question)] == [1]


async def test_where_nothing_is_remembered_nothing_is_found():
    assert await recall(Grove()).recall(KEY, "anything") == []


async def test_what_the_index_knows_and_redis_does_not_is_dropped(grove):
    ghost = Grove(index=grove.index)
    await ghost.apply(changed(1, [memory(1, 0, "Cy sings")]))
    found = await recall(ghost).recall(KEY, "who plays violin and sings ?")
    assert [hit.entry for hit in found] == ["m1-0"]
