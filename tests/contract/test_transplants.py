"""`Transplants`: a conversation taken out whole, put in whole, and not over somebody's work."""

from dataclasses import replace

import pytest

from eunoe.schemas.decisions import Commit, Ledger, Outbox, OutMessage, Put, Scope
from eunoe.schemas.errors import Unavailable
from eunoe.schemas.identity import conversation_key
from eunoe.schemas.ports import StoredConversation, Transplants
from eunoe.workers.stores.redis.connection import RedisClient, as_text
from eunoe.workers.stores.redis.keys import Keys
from eunoe.workers.stores.state.memory_store import MemoryStore
from eunoe.workers.stores.state.redis_store import RedisStore
from eunoe.workers.stores.state.transplants import RedisTransplants

KEY, OTHER = conversation_key("acme", "c {1}"), conversation_key("acme", "c2")
TABLES = {"intake": ("head", "lines"), "update": ("memories",), "tree": ()}
Store = MemoryStore | RedisStore


@pytest.fixture
def transplants(store: Store, redis: RedisClient | None, keys: Keys) -> Transplants:
    if redis is None:
        assert isinstance(store, MemoryStore)
        return store
    assert isinstance(store, RedisStore)
    return RedisTransplants(store, redis, keys)


async def live(store: Store, key: str) -> None:
    """Two sessions of update (one skipped), an open session, something parked."""
    intake, update = Scope("intake", key), Scope("update", key)
    await store.commit(intake, Commit(expect=0, applied=2**41, writes=(Put(table="lines", id="1", text="{}"),)))
    await store.commit(update, Commit(expect=0, applied=1, writes=(Put(table="memories", id="m", text="old"),)))
    await store.commit(update, Commit(expect=1, applied=2, skip=True))
    await store.park(update, 3, "slot", "event {안녕}")
    await store.park(update, 12, "slot", "late")


EXPECTED = StoredConversation(
    ledgers={"intake": Ledger(2**41), "update": Ledger(2, frozenset({2})), "tree": Ledger()},
    tables={("intake", "head"): {}, ("intake", "lines"): {"1": "{}"}, ("update", "memories"): {"m": "old"}},
    parked={"intake": {}, "update": {3: {"slot": "event {안녕}"}, 12: {"slot": "late"}}, "tree": {}},
)


async def test_what_is_kept_is_taken_out_whole(store: Store, transplants: Transplants) -> None:
    await live(store, KEY)
    assert await transplants.export(KEY, TABLES) == EXPECTED
    assert (await transplants.export(OTHER, TABLES)).ledgers == dict.fromkeys(TABLES, Ledger())


async def test_what_is_put_in_is_all_that_is_there(store: Store, transplants: Transplants) -> None:
    await live(store, KEY)
    await live(store, OTHER)
    scope = Scope("update", KEY)
    many = {f"m{number}": f"text {number}" for number in range(3_000)}
    standing = StoredConversation(
        ledgers={"intake": Ledger(2**42 + 1), "tree": Ledger(7, frozenset({4, 5}), lates=2)},
        tables={("update", "memories"): many},
        parked={"update": {9: {"a": "1", "b": "2"}}},
    )
    assert await transplants.swap(KEY, TABLES, standing, Ledger(2**41))
    assert (await store.ledger(Scope("intake", KEY))).applied == 2**42 + 1
    assert await store.ledger(Scope("tree", KEY)) == Ledger(7, frozenset({4, 5}), lates=2)
    assert await store.ledger(scope) == Ledger()
    assert await store.scan("update", KEY, "memories") == many
    assert await store.scan("intake", KEY, "lines") == {}
    assert await store.parked_numbers(scope) == [9]
    assert await store.parked(scope, 3) == await store.parked(scope, 12) == {}
    assert await store.parked(scope, 9) == {"a": "1", "b": "2"}
    assert await transplants.export(OTHER, TABLES) == EXPECTED


LONG = StoredConversation(
    {"intake": Ledger(7)}, {("update", "memories"): {f"m{number}": f"text {number}" for number in range(2_001)}}, {}
)


async def test_what_is_long_leaves_nothing_beside_its_place(
    store: Store, transplants: Transplants, redis: RedisClient | None, keys: Keys
) -> None:
    assert await transplants.swap(KEY, TABLES, LONG, Ledger())
    before = await names_of(redis, keys)
    assert not await transplants.swap(KEY, TABLES, LONG, Ledger(8)), "it is not as expected"
    assert await names_of(redis, keys) == before
    assert (redis is None) == (not before)
    assert await transplants.swap(KEY, TABLES, LONG, Ledger(7))
    assert await names_of(redis, keys) == before
    assert all([await redis.ttl(name) == -1 for name in before] if redis else ["in memory nothing goes by itself"])
    assert await store.scan("update", KEY, "memories") == LONG.tables["update", "memories"]


async def test_what_takes_so_long_that_its_first_part_has_gone_changes_nothing(
    store: Store, transplants: Transplants, redis: RedisClient | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    if redis is None:
        pytest.skip("in memory all is written at once")
    await live(store, KEY)
    before = await transplants.export(KEY, TABLES)
    monkeypatch.setattr("eunoe.workers.stores.redis.staging.STAGED_MS", 0)
    with pytest.raises(Unavailable, match=r"writing acme/c.*took longer than 600 s"):
        await transplants.swap(KEY, TABLES, LONG, before.ledgers["intake"])
    assert await transplants.export(KEY, TABLES) == before


async def names_of(redis: RedisClient | None, keys: Keys) -> set[str]:
    """The keys of the conversation that are there."""
    begin = keys.stub(KEY).removesuffix("cold")
    names = set() if redis is None else {as_text(name) async for name in redis.scan_iter()}
    return {name for name in names if name.startswith(begin)}


async def test_it_comes_back_as_it_was_and_work_goes_on(store: Store, transplants: Transplants) -> None:
    await live(store, KEY)
    assert await transplants.swap(OTHER, TABLES, await transplants.export(KEY, TABLES), Ledger())
    assert await transplants.export(OTHER, TABLES) == EXPECTED
    assert await store.commit(Scope("update", OTHER), Commit(expect=2, applied=3, unpark=3))
    assert await store.parked_numbers(Scope("update", OTHER)) == [12]


async def test_an_unsent_outbox_is_put_in_too_and_holds_up_the_next_decision(
    store: Store, transplants: Transplants
) -> None:
    scope, messages = Scope("update", KEY), (OutMessage(topic="replies", key=KEY, text="{안녕}"),)
    unsent = Ledger(2, lates=7, outbox=Outbox(number=-7, partition=3, messages=messages))
    standing = StoredConversation({"intake": Ledger(5), "update": unsent}, {}, {})
    assert await transplants.swap(KEY, TABLES, standing, Ledger())
    assert await store.ledger(scope) == unsent
    assert not await store.commit(scope, Commit(expect=2, applied=3, lates=7))
    there = {stage: await store.ledger(Scope(stage, KEY)) for stage in TABLES}
    assert await transplants.swap(KEY, TABLES, standing, there["intake"], there)
    await store.mark_sent(scope, 2)
    assert await store.ledger(scope) == unsent
    await store.mark_sent(scope, -7)
    assert await store.commit(scope, Commit(expect=2, applied=3, lates=7))


async def test_nothing_is_put_over_work_that_went_on(store: Store, transplants: Transplants) -> None:
    await live(store, KEY)
    scope = Scope("intake", KEY)
    nothing = StoredConversation({}, {}, {})
    assert not await transplants.swap(KEY, TABLES, nothing, Ledger(2**41 - 1))
    assert not await transplants.swap(KEY, TABLES, nothing, Ledger())
    unsent = Outbox(number=2**41 + 1)
    await store.commit(scope, Commit(expect=2**41, applied=2**41 + 1, outbox=unsent))
    assert not await transplants.swap(KEY, TABLES, nothing, Ledger(2**41 + 1))
    with pytest.raises(ValueError, match="unsent decisions of intake"):
        await transplants.export(KEY, TABLES)
    assert await store.scan("update", KEY, "memories") == {"m": "old"}
    assert await transplants.swap(KEY, TABLES, nothing, Ledger(2**41 + 1, outbox=unsent))
    assert await transplants.export(KEY, TABLES) == await transplants.export("acme/c3", TABLES)


async def test_nothing_is_put_over_what_another_stage_has_decided(store: Store, transplants: Transplants) -> None:
    await live(store, KEY)
    nothing = StoredConversation({}, {}, {})
    there = {stage: await store.ledger(Scope(stage, KEY)) for stage in TABLES}
    first, other = there["intake"], "update"
    for outdated in (
        replace(there[other], applied=there[other].applied + 1),
        replace(there[other], lates=there[other].lates + 1),
        replace(there[other], outbox=Outbox(number=1)),
    ):
        assert not await transplants.swap(KEY, TABLES, nothing, first, {**there, other: outdated})
    assert await store.scan("update", KEY, "memories") == {"m": "old"}
    assert await transplants.swap(KEY, TABLES, nothing, first, there)
    assert await store.scan("update", KEY, "memories") == {}


async def test_a_decision_from_state_that_was_replaced_meanwhile_is_refused(
    store: Store, transplants: Transplants
) -> None:
    await live(store, KEY)
    scope, standing = Scope("update", KEY), await transplants.export(KEY, TABLES)
    assert await transplants.swap(KEY, TABLES, standing, standing.ledgers["intake"])
    read = await store.ledger(scope)
    erased = replace(standing, tables={("update", "memories"): {}})
    assert await transplants.swap(KEY, TABLES, erased, standing.ledgers["intake"])
    now = await store.ledger(scope)
    assert now == read, "the numbers tell nothing"
    assert await store.commit(scope, Commit(expect=2, applied=3, after=read.token)) is None
    assert await store.commit(scope, Commit(expect=2, applied=3, after=now.token))
    assert (await store.ledger(Scope("tree", KEY))).token == "", "a stage that has decided nothing"
