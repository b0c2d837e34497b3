"""The tree as people read it."""

from eunoe.deploy.inspect.drawing import tree_graph
from eunoe.workers.tree.outline import outline
from eunoe.workers.tree.reads import read_tree
from tests.support.tree import KEY, Grove, changed, memory


async def small_tree():
    grove = Grove()
    old = memory(1, 0, 'Ann says "hi" to her roses')
    await grove.apply(changed(1, [old, memory(1, 1, 'Ann says "hi" to her tulips')]))
    await grove.apply(changed(2, [memory(2, 0, "the night train to Oslo was late")], [old]))
    return await read_tree(grove.store, KEY)


async def test_an_outline_tells_counts_days_and_what_ended():
    assert outline(await small_tree(), max_chars=20) == [
        '[2] 2026-01-02 Ann says "hi" to he…',
        '  [ended] 2026-01-02 Ann says "hi" to he…',
        '  [·] 2026-01-02 Ann says "hi" to he…',
        "[·] 2026-01-03 the night train to …",
    ]
    assert outline({}) == []


async def test_a_drawing_has_every_node_and_edge():
    nodes = await small_tree()
    drawn = tree_graph(nodes).source
    assert drawn.count("->") == len(nodes) - 1
    assert drawn.count("shape=") == len(nodes)
    assert 'says \\"hi\\" to' in drawn
    assert drawn.count("fontcolor=grey") == 1
