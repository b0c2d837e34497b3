"""`ParkingLot`: what comes early waits, once, and not for ever."""

import asyncio

from eunoe.schemas.decisions import Commit, Scope
from eunoe.workers.stores.state.memory_store import MemoryStore
from eunoe.workers.stores.state.redis_store import RedisStore

Store = MemoryStore | RedisStore
SCOPE = Scope("update", "acme/c1")


async def test_the_first_text_of_a_slot_stays(store: Store) -> None:
    assert await store.park(SCOPE, 2, "formed", "first")
    assert await store.park(SCOPE, 2, "formed", "second")
    assert await store.park(SCOPE, 2, "proposed/{1}", "안녕")
    assert await store.parked(SCOPE, 2) == {"formed": "first", "proposed/{1}": "안녕"}
    assert await store.parked(SCOPE, 1) == {}


async def test_an_applied_session_is_refused(store: Store) -> None:
    await store.commit(SCOPE, Commit(expect=0, applied=9))
    assert not await store.park(SCOPE, 8, "formed", "x")
    assert not await store.park(SCOPE, 9, "formed", "x")
    assert await store.park(SCOPE, 10, "formed", "x")
    assert await store.parked_numbers(SCOPE) == [10]


async def test_the_numbers_are_listed_ascending(store: Store) -> None:
    for number in (100, 9, 10, 2, 64):
        await store.park(SCOPE, number, "formed", "x")
        await store.park(SCOPE, number, "other", "x")
    assert await store.parked_numbers(SCOPE) == [2, 9, 10, 64, 100]
    assert await store.parked_numbers(Scope("update", "acme/c2")) == []
    assert await store.parked_numbers(Scope("update", "acme/c1", "lane")) == []
    assert await store.parked_numbers(Scope("link", "acme/c1")) == []


async def test_a_commit_unparks_its_session_only(store: Store) -> None:
    for number in (1, 2):
        await store.park(SCOPE, number, "formed", str(number))
    assert await store.commit(SCOPE, Commit(expect=0, applied=1, unpark=1))
    assert await store.parked(SCOPE, 1) == {}
    assert await store.parked(SCOPE, 2) == {"formed": "2"}
    assert await store.parked_numbers(SCOPE) == [2]


async def test_a_fenced_commit_unparks_nothing(store: Store) -> None:
    await store.park(SCOPE, 1, "formed", "x")
    assert not await store.commit(SCOPE, Commit(expect=3, applied=4, unpark=1))
    assert await store.parked(SCOPE, 1) == {"formed": "x"}
    assert await store.parked_numbers(SCOPE) == [1]


async def test_of_fifty_one_is_kept(store: Store) -> None:
    texts = [str(one) for one in range(50)]
    assert all(await asyncio.gather(*(store.park(SCOPE, 1, "formed", text) for text in texts)))
    assert (await store.parked(SCOPE, 1))["formed"] in texts


async def test_parking_races_with_the_commit_and_leaves_nothing_behind(store: Store) -> None:
    await store.park(SCOPE, 1, "formed", "x")
    early = [store.park(SCOPE, 1, f"early{one}", "x") for one in range(20)]
    commit = store.commit(SCOPE, Commit(expect=0, applied=1, unpark=1))
    await asyncio.gather(*early, commit, *(store.park(SCOPE, 1, f"later{one}", "x") for one in range(20)))
    assert await store.parked(SCOPE, 1) == {}
    assert await store.parked_numbers(SCOPE) == []
