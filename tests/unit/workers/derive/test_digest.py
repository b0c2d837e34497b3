"""The state digest: the same events give the same hash, anything else another; and the index is held against it."""

import json
import weakref
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import timedelta

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eunoe.deploy.inspect.packed_state import PackedState
from eunoe.deploy.inspect.state import check_state
from eunoe.schemas.decisions import Collection, Commit, Point, Scope
from eunoe.workers.derive.digest import LOG_TIMES, canonical, hash_of, hash_of_all, hash_state
from eunoe.workers.derive.in_memory import InMemoryPipeline
from eunoe.workers.derive.index_audit import Disagreement, Finding, compare_index
from eunoe.workers.registry import STAGES
from eunoe.workers.stage import ApplyOrder
from eunoe.workers.stores.state.memory_store import MemoryStore
from eunoe.workers.stores.vectors.memory_index import MemoryIndex
from tests.support.in_memory import Clock, ended, make_pipeline, utterance
from tests.support.whole_state import read_digest, read_states

KEY = "default/c"
LINES = (
    "I have adopted a greyhound called Biscuit.",
    "How lovely! My sister moved to Lyon last week.",
    "I am allergic to peanuts since I was a child.",
    "Biscuit the greyhound has got the flu.",
    "My sister in Lyon found a job as a nurse.",
    "Biscuit has recovered from the flu.",
)


async def told(pipeline: InMemoryPipeline, lines: tuple[str, ...] = LINES) -> InMemoryPipeline:
    """Two sessions of what Ann and Ben said."""
    half = len(lines) // 2
    for number, text in enumerate(lines, 1):
        await pipeline.produce(utterance(number, text, session_id="s1" if number > half else "s0"))
    await pipeline.produce(ended("s0"), ended("s1"))
    return pipeline


async def hash_in(pipeline: InMemoryPipeline, *, log_times: bool = False) -> str:
    return (await read_digest(pipeline.store, KEY, STAGES, log_times=log_times)).sha256


async def test_the_same_events_give_the_same_digest_at_another_time() -> None:
    one, two = await told(make_pipeline()), make_pipeline()
    clock = two.log._clock
    assert isinstance(clock, Clock)
    clock.now += timedelta(days=365)
    await told(two)
    assert await hash_in(one) == await hash_in(two)
    assert await hash_in(one, log_times=True) != await hash_in(two, log_times=True)


@pytest.mark.parametrize("place", range(len(LINES)))
async def test_another_word_anywhere_gives_another_digest(place: int) -> None:
    changed = tuple(f"{line} Yes." if number == place else line for number, line in enumerate(LINES))
    assert await hash_in(await told(make_pipeline())) != await hash_in(await told(make_pipeline(), changed))


async def test_every_table_of_a_stage_is_digested_or_left_out_with_a_reason() -> None:
    pipeline = await told(make_pipeline())
    kept = {(stage, table) for stage, _, table in pipeline.store._tables}
    declared = {
        (name, table) for name, spec in STAGES.items() for table in (*spec.tables.digested, *spec.tables.left_out)
    }
    assert kept
    assert kept <= declared
    assert all(why for spec in STAGES.values() for why in spec.tables.left_out.values())


async def test_a_digest_holds_what_all_five_papers_structures_derive() -> None:
    digest = await read_digest((await told(make_pipeline())).store, KEY, STAGES)
    counts = digest.counts
    for table in ("compress/segments", "update/memories", "update/changes", "link/vertices", "tree/nodes"):
        assert counts[table] > 0, table
    by_session = {name: 2 for name, spec in STAGES.items() if spec.order is ApplyOrder.SESSION}
    assert by_session.keys() >= {"segment", "compress", "summarize", "update", "link", "tree"}
    applied = {stage: part["applied"] for stage, part in digest.state.items() if "applied" in part}
    assert applied == {"blend": 0, **by_session}


async def test_edges_are_counted_and_not_their_documents() -> None:
    store, index = MemoryStore(), MemoryIndex()
    rows = {"m2": {"edges": [{"older": "m1"}]}, "m3": {"edges": [{"older": "m1"}, {"older": "m2"}]}}
    store._tables["link", KEY, "edges"] = {id_: json.dumps(row) for id_, row in rows.items()}
    store._tables["link", KEY, "vertices"] = {"m1": "{}"}
    state = await check_state(store, index, KEY)
    assert state is not None
    assert state.counts == {"link/edges": 3, "link/vertices": 1}
    assert await check_state(store, index, "default/nobody") is None


NAMES = st.text(max_size=5) | st.sampled_from(("known_from", "session", "a", "B"))
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**40), 2**40) | st.floats(allow_nan=False, allow_infinity=False) | NAMES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)
PLACES = sorted((stage, table) for stage, spec in STAGES.items() for table in spec.tables.digested)
STATES = st.dictionaries(st.sampled_from(PLACES), st.dictionaries(NAMES, st.dictionaries(NAMES, VALUES), max_size=4))


@pytest.mark.slow
@given(STATES, st.booleans(), st.integers(0, 3))
async def test_a_state_that_is_hashed_table_by_table_has_the_same_hash_and_the_same_text(
    tables: dict[tuple[str, str], dict[str, dict[str, object]]], log_times: bool, applied: int
) -> None:
    store, packed = MemoryStore(), PackedState()
    for (stage, table), rows in tables.items():
        store._tables[stage, KEY, table] = {id_: json.dumps(row) for id_, row in rows.items()}
    if applied:
        await store.commit(Scope("update", KEY), Commit(expect=0, applied=applied))
    whole = await read_digest(store, KEY, STAGES, log_times=log_times)
    hashed = await hash_state(store, KEY, STAGES, packed.add, log_times=log_times)
    assert hashed.sha256 == whole.sha256
    assert b"".join(packed.json(hashed.progress)) == orjson.dumps(whole.state)
    counts = {f"{stage}/{table}": rows for stage, found in hashed.tables.items() for table, rows in found.items()}
    assert list(counts.items()) == list(whole.counts.items())
    progress = {name: {key: part[key] for key in part if key != "tables"} for name, part in whole.state.items()}
    assert list(hashed.progress.items()) == list(progress.items())


class Rows(dict[str, str]):
    """A table that was read."""


class Watched(MemoryStore):
    """Notes how many other tables are held when one is read."""

    def __init__(self) -> None:
        super().__init__()
        self.read: list[weakref.ref[Rows]] = []
        self.held = 0

    async def scan(self, stage: str, key: str, table: str) -> dict[str, str]:
        self.held = max(self.held, sum(one() is not None for one in self.read))
        rows = Rows(await super().scan(stage, key, table))
        self.read.append(weakref.ref(rows))
        return rows


async def test_a_state_is_hashed_without_a_second_table_in_memory() -> None:
    store = Watched()
    store._tables = (await told(make_pipeline())).store._tables
    digest = await read_digest(store, KEY, STAGES)
    store.held = 0
    assert (await hash_state(store, KEY, STAGES)).sha256 == digest.sha256
    assert store.held == 0


async def test_a_pipeline_at_rest_agrees_with_its_index_and_has_nothing_under_way() -> None:
    pipeline = await told(make_pipeline())
    (state,) = await read_states(pipeline.store, pipeline.index, [KEY, "default/nobody"])
    assert (list(state.findings), list(state.unfinished)) == ([], [])


async def _drop(index: MemoryIndex, point: Point) -> None:
    await index.remove(point.collection, point.key, [point.id])


async def _reword(index: MemoryIndex, point: Point) -> None:
    await index.upsert([point.model_copy(update={"text": "something else"})])


async def _age(index: MemoryIndex, point: Point) -> None:
    await index.upsert([point.model_copy(update={"seq": 9})])


async def _invent(index: MemoryIndex, point: Point) -> None:
    await index.upsert([point.model_copy(update={"id": "0" * 8})])


@pytest.mark.parametrize("collection", Collection)
@pytest.mark.parametrize(
    ("harm", "kind"),
    [
        (_drop, Disagreement.MISSING),
        (_reword, Disagreement.OTHER_TEXT),
        (_age, Disagreement.STALE),
        (_invent, Disagreement.UNKNOWN),
    ],
)
async def test_a_point_that_disagrees_is_found(
    collection: Collection, harm: Callable[[MemoryIndex, Point], Awaitable[None]], kind: Disagreement
) -> None:
    pipeline = await told(make_pipeline())
    first, *_ = await pipeline.index.points(collection, KEY)
    await harm(pipeline.index, first)
    found: list[Finding] = await compare_index(pipeline.store, pipeline.index, KEY, STAGES)
    assert [(finding.collection, finding.kind) for finding in found] == [(collection, kind)]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(JSON)
def test_canonical_forms_are_stable_and_know_no_clock(value: object) -> None:
    once = canonical(value)
    assert hash_of(once) == hash_of(canonical(once))
    timed = {"kept": value, **dict.fromkeys(LOG_TIMES, "2026-01-01T00:00:00Z")}
    assert canonical(timed) == {"kept": once}


def test_rounding_has_no_two_zeros() -> None:
    assert hash_of(canonical([-1e-9])) == hash_of(canonical([1e-9]))


async def test_the_hash_of_all_does_not_depend_on_their_order() -> None:
    one = await read_digest((await told(make_pipeline())).store, KEY, STAGES)
    two = replace(one, key="default/d")
    assert hash_of_all([one, two]) == hash_of_all([two, one])
    assert hash_of_all([one, two]) != hash_of_all([one])
