"""The stage: one transaction and one question a session, however much is remembered."""

import random
from dataclasses import dataclass, field

import numpy as np
import pytest

from eunoe.schemas.decisions import Collection, Commit, Drop, Put, Scope
from eunoe.schemas.errors import StateDamaged
from eunoe.schemas.memory import MemoriesChanged
from eunoe.streams.codec import encode
from eunoe.streams.memory_log import MemoryConsumer, MemoryLog
from eunoe.streams.record import Message
from eunoe.streams.topics import Topic
from eunoe.workers.models.questions.batches import MAX_NODES
from eunoe.workers.registry import STAGES
from eunoe.workers.runner.inbound import LogPlace
from eunoe.workers.runner.outbox import Sender
from eunoe.workers.runner.runner import Runner
from eunoe.workers.stores.state.memory_store import MemoryLogPositions, MemoryStore
from eunoe.workers.tree.loading import TreeReader, encode_sum
from eunoe.workers.tree.nodes import NODES, ROOT, STATS, SUMS, VECTORS
from eunoe.workers.tree.reads import TreeRecall, entries_below, read_tree
from eunoe.workers.tree.settings import TreeRecallSettings, TreeSettings
from tests.support.in_memory import Clock, HashEmbedder
from tests.support.tree import KEY, FakeModel, Grove, changed, check_tree, ended, memory

TOPICS = ("garden roses tulips soil", "train ticket Oslo night", "violin lesson concert bow", "bread oven flour yeast")
SPEC = STAGES["tree"]


def some_text(number: int) -> str:
    chance = random.Random(number)
    words = TOPICS[number % 4].split()
    return f"Ann {' '.join(chance.sample(words, 3))} word{chance.randrange(40)} number{number}"


def session_of(number: int, size: int = 10, start: int = 0) -> MemoriesChanged:
    return changed(number, [memory(number, index, some_text(start + index)) for index in range(size)])


async def plant(grove: Grove, memories: int, size: int = 10) -> int:
    """Sessions until so many memories are in the tree; the number of the last."""
    for number in range(1, memories // size + 1):
        await grove.apply(session_of(number, size, start=number * size))
    return memories // size


async def test_a_session_grows_the_tree_and_puts_every_node_into_the_index():
    grove = Grove()
    await plant(grove, 30)
    nodes = await read_tree(grove.store, KEY)
    check_tree(nodes, [f"m{session}-{index}" for session in (1, 2, 3) for index in range(10)], 32)
    assert set(await grove.index.seqs(Collection.TREE, KEY)) == set(nodes) - {ROOT}
    aggregates = [node for id_, node in nodes.items() if id_ != ROOT and not node.is_leaf]
    assert aggregates
    assert all(node.text and node.made_by for node in aggregates)
    assert all(node.first_at <= node.last_at for node in aggregates)
    stats = await TreeReader(grove.store, KEY).stats()
    assert (stats.session, stats.leaves, stats.nodes) == (3, 30, len(nodes) - 1)
    assert stats.depth == max(node.depth for node in nodes.values())
    assert stats.speakers == ("Ann",)


async def test_an_empty_session_is_applied_too():
    grove = Grove()
    await grove.apply(changed(1, []))
    stats = await TreeReader(grove.store, KEY).stats()
    assert (stats.session, stats.leaves) == (1, 0)


SHORT = encode_sum(np.ones(3, np.float32)).model_dump_json()
ODD = ["{}", SHORT, '{"dense":"AACAPw"}']


@pytest.mark.parametrize("table", [VECTORS, SUMS])
@pytest.mark.parametrize("text", ODD)
async def test_an_odd_vector_is_damage_of_the_conversation(table: str, text: str):
    grove = Grove()
    first = [memory(1, index, some_text(index)) for index in range(20)]
    await grove.apply(changed(1, first))
    writes = tuple(Put(table, id_, text) for id_ in await grove.store.scan("tree", KEY, table))
    ledger = await grove.store.ledger(Scope("tree", KEY))
    await grove.store.commit(Scope("tree", KEY), Commit(expect=ledger.applied, applied=2, writes=writes))
    with pytest.raises(StateDamaged, match=f"{KEY} is no StoredVector.*`eunoe repair`"):
        await grove.apply(changed(3, [memory(3, 0, some_text(0))], first[:1]))


@pytest.mark.parametrize(
    ("table", "ids", "form"),
    [
        (NODES, [ROOT], "TreeNode"),
        (NODES, None, "TreeNode"),
        (VECTORS, None, "StoredVector"),
        (SUMS, None, "StoredVector"),
        (STATS, None, "TreeStats"),
    ],
)
async def test_a_missing_row_of_the_tree_is_damage_of_the_conversation(table: str, ids: list[str] | None, form: str):
    grove = Grove()
    first = [memory(1, index, some_text(index)) for index in range(20)]
    await grove.apply(changed(1, first))
    rows = ids or sorted((await grove.store.scan("tree", KEY, table)).keys() - {ROOT})
    commit = Commit(expect=1, applied=2, writes=tuple(Drop(table, id_) for id_ in rows))
    assert await grove.store.commit(Scope("tree", KEY), commit)
    with pytest.raises(StateDamaged, match=f"{KEY} is no {form}.*it is missing.*`eunoe repair`"):
        await grove.apply(changed(3, [memory(3, 0, some_text(0))], first[:1]))


async def test_odd_statistics_are_no_empty_tree():
    grove = Grove()
    await grove.apply(session_of(1))
    commit = Commit(expect=1, applied=2, writes=(Put(STATS, STATS, "{}"),))
    assert await grove.store.commit(Scope("tree", KEY), commit)
    with pytest.raises(StateDamaged, match=f"{KEY} is no TreeStats"):
        await TreeReader(grove.store, KEY).stats()


async def test_a_search_meets_a_missing_vector_as_damage():
    grove = Grove()
    await grove.apply(session_of(1))
    rows = await grove.store.scan("tree", KEY, VECTORS)
    commit = Commit(expect=1, applied=2, writes=tuple(Drop(VECTORS, id_) for id_ in rows))
    assert await grove.store.commit(Scope("tree", KEY), commit)
    recall = TreeRecall(grove.store, grove.index, HashEmbedder(), TreeRecallSettings())
    with pytest.raises(StateDamaged, match=f"{KEY} is no StoredVector.*it is missing"):
        await recall.recall(KEY, some_text(0))


async def test_replaying_every_event_twice_changes_nothing():
    events = [session_of(1, 6), session_of(2, 6, start=6), changed(3, [], [memory(1, 0, some_text(0))])]
    once, twice = await run_stage(events), await run_stage([event for event in events for _ in range(2)])
    assert once == twice
    assert len(once[0]) > 12


async def run_stage(events):
    """All documents and points after the runner has handled the events."""
    log, grove = MemoryLog(clock=Clock()), Grove()
    sender = Sender(grove.store, grove.index, MemoryLogPositions(), log)
    place = LogPlace(epoch=0, partitions=log.partitions)
    runner = Runner(SPEC, grove.stage, sender, grove.store, place)
    consumer = MemoryConsumer(log)
    consumer.subscribe("tree", SPEC.inputs, runner.handle)
    for event in events:
        await log.publish([Message(Topic.CHANGES, event.key.encode(), encode(event))])
        await consumer.run_until_idle()
    tables = [
        await grove.store.scan("tree", KEY, name) for name in ("nodes", "vectors", "sums", "leaves", "stats", "terms")
    ]
    return [*tables, dict(await grove.index.seqs(Collection.TREE, KEY))]


@pytest.mark.parametrize("remembered", [10, 1000])
async def test_a_session_asks_about_twelve_nodes_at_a_time_however_much_is_remembered(remembered):
    grove = Grove()
    last = await plant(grove, remembered, size=10 if remembered == 10 else 50)
    grove.language = model = FakeModel()
    await grove.apply(session_of(last + 1, 10, start=5000))
    asked = [prompt.user.count("] Node with ") for prompt in model.prompts]
    assert len(asked) <= 3
    assert set(asked[:-1]) <= {MAX_NODES}
    nodes = await read_tree(grove.store, KEY)
    touched = [node for node in nodes.values() if node.made_by and node.changed == last + 1]
    assert touched
    assert all(node.text.startswith("summary") and node.made_by.model == "fake" for node in touched)


@dataclass
class CountingStore(MemoryStore):
    """Counts the documents that are read."""

    read: int = 0
    _: None = field(default=None, repr=False)

    def __post_init__(self):
        MemoryStore.__init__(self)

    async def fetch(self, stage, key, table, ids):
        self.read += len(ids) if table in ("nodes", "sums") else 0
        return await super().fetch(stage, key, table, ids)


async def test_a_session_reads_the_nodes_of_its_paths_only():
    store = CountingStore()
    grove = Grove(store=store)
    last = await plant(grove, 1000, size=50)
    store.read = 0
    await grove.apply(session_of(last + 1, 1, start=7000))
    assert store.read <= 2 * 14


async def test_the_base_threshold_is_taken_once_at_the_hundredth_leaf():
    settings = TreeSettings(sample=20)
    grove = Grove(settings)
    await grove.apply(session_of(1, 12))
    assert (await TreeReader(grove.store, KEY).stats()).base_threshold is None
    await grove.apply(session_of(2, 12, start=12))
    first = (await TreeReader(grove.store, KEY).stats()).base_threshold
    assert first is not None
    assert settings.lowest_threshold <= first <= settings.highest_threshold
    await grove.apply(changed(3, [memory(3, index, "Ann says the same") for index in range(30)]))
    assert (await TreeReader(grove.store, KEY).stats()).base_threshold == first


async def test_the_sample_does_not_depend_on_how_sessions_cut_it():
    found = []
    for size in (10, 20, 40):
        grove = Grove(TreeSettings(sample=20))
        for number in range(1, 40 // size + 1):
            event = changed(number, [memory(number, at, some_text((number - 1) * size + at)) for at in range(size)])
            await grove.apply(event)
        found.append((await TreeReader(grove.store, KEY).stats()).base_threshold)
    assert found[0] == found[1] == found[2]


async def test_a_superseded_memory_is_marked_and_leaves_the_aggregates():
    grove = Grove()
    old, other = memory(1, 0, "Ann lives in Rome near the river"), memory(1, 1, "Ann lives in Rome near the park")
    await grove.apply(changed(1, [old, other]))
    before = await read_tree(grove.store, KEY)
    (top,) = before[ROOT].children
    assert old.text in before[top].text
    await grove.apply(changed(2, [], [old]))
    nodes = await read_tree(grove.store, KEY)
    assert [node.entry for node in nodes.values() if node.ended] == [old.memory_id]
    assert nodes[top].text == other.text
    assert nodes[top].changed == 2
    assert (await grove.index.seqs(Collection.TREE, KEY))[top] == 2


async def test_the_model_is_told_what_to_drop():
    grove = Grove()
    old, other = memory(1, 0, "Ann lives in Rome near the river"), memory(1, 1, "Ann lives in Rome near the park")
    await grove.apply(changed(1, [old, other]))
    grove.language = model = FakeModel()
    await grove.apply(changed(2, [], [old]))
    assert f"[e1] {old.text}" in model.prompts[0].user
    assert "Must drop: e1." in model.prompts[0].user


async def test_a_memory_that_is_born_superseded_is_a_marked_leaf():
    grove = Grove()
    await grove.apply(changed(1, [ended(memory(1, 0, "Ann rows"), 1), memory(1, 1, "Ann bakes bread")]))
    nodes = await read_tree(grove.store, KEY)
    check_tree(nodes, ["m1-0", "m1-1"], 32)
    assert [node.entry for node in nodes.values() if node.ended] == ["m1-0"]


async def test_what_is_added_and_superseded_in_one_session_is_marked():
    grove = Grove()
    one = memory(1, 0, "Ann rows")
    await grove.apply(changed(1, [one], [one]))
    assert [node.ended for node in (await read_tree(grove.store, KEY)).values() if node.is_leaf] == [True]


async def test_an_entry_that_never_came_is_passed_over():
    grove = Grove()
    await grove.apply(changed(1, [memory(1, 0, "Ann rows")], [memory(9, 9, "unknown")]))
    assert (await TreeReader(grove.store, KEY).stats()).leaves == 1


async def test_a_memory_is_in_exactly_one_leaf_even_if_it_is_added_again():
    grove = Grove()
    await grove.apply(changed(1, [memory(1, 0, "Ann rows")]))
    await grove.apply(changed(2, [memory(1, 0, "Ann rows")]))
    check_tree(await read_tree(grove.store, KEY), ["m1-0"], 32)


async def test_what_an_aggregate_rests_on_can_be_listed():
    grove = Grove()
    await plant(grove, 30)
    everything = await entries_below(grove.store, KEY, ROOT, 100)
    assert len(set(everything)) == 30
    assert len(await entries_below(grove.store, KEY, ROOT, 7)) == 7
