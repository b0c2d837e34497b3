"""`HandledPositions`: what each server shows, and what a server shows that lost writes."""

import asyncio
from dataclasses import replace

import pytest

from eunoe.deploy.clients.redis import open_redis_url
from eunoe.schemas.decisions import Commit, Outbox, OutMessage, Scope
from eunoe.schemas.errors import Unavailable
from eunoe.schemas.identity import conversation_key
from eunoe.schemas.ports import StateStore
from eunoe.schemas.position_ports import Handled, HandledPositions, Positions, ReadPartition, Witness
from eunoe.workers.stores.positions.redis_positions import RedisHandledPositions, ReplicaWait
from eunoe.workers.stores.redis.keys import Keys
from eunoe.workers.stores.state.memory_store import MemoryStore
from eunoe.workers.stores.state.redis_store import RedisStore
from tests.contract.conftest import SEVERAL

INTAKE = ReadPartition("intake", "conversations", 1)
BIG = 3 * 2**60
A, B = "process a", "process b"


def all_show(found: Positions, position: int) -> bool:
    return bool(found) and positions(found) == {position}


def positions(found: Positions) -> set[int]:
    return {handled.position for handled in found.values()}


async def test_no_position_at_first(handled_positions: HandledPositions) -> None:
    assert all_show(await handled_positions.stored(INTAKE), 0)


async def test_a_position_never_goes_back(handled_positions: HandledPositions) -> None:
    for position in (1, 9, 10, 5, BIG + 1, BIG, 99):
        await handled_positions.store(INTAKE, A, position, {})
    assert all_show((await handled_positions.store(INTAKE, A, 1, {})).before, BIG + 1)
    assert all_show(await handled_positions.stored(INTAKE), BIG + 1)


async def test_of_many_positions_the_last_stays(handled_positions: HandledPositions) -> None:
    await asyncio.gather(*(handled_positions.store(INTAKE, A, (number * 37) % 101, {}) for number in range(101)))
    assert all_show(await handled_positions.stored(INTAKE), 100)


async def test_stages_and_partitions_have_positions_of_their_own(handled_positions: HandledPositions) -> None:
    others = [
        ReadPartition("intake", "conversations", 11),
        ReadPartition("segment", "sessions", 1),
        ReadPartition("link", "changes", 1),
        ReadPartition("tree", "changes", 1),
    ]
    await handled_positions.store(INTAKE, A, 7, {})
    for number, reader in enumerate(others):
        assert all_show(await handled_positions.stored(reader), 0)
        await handled_positions.store(reader, A, 100 + number, {})
    assert all_show(await handled_positions.stored(INTAKE), 7)
    assert [positions(await handled_positions.stored(reader)) for reader in others] == [{100}, {101}, {102}, {103}]


async def test_a_server_that_shows_less_than_expected_keeps_what_it_shows(handled_positions: HandledPositions) -> None:
    await handled_positions.store(INTAKE, A, BIG, {})
    servers = sorted(await handled_positions.stored(INTAKE))
    found = await handled_positions.store(INTAKE, A, BIG + 9, {servers[0]: Handled(BIG + 1)})
    assert all_show(found.before, BIG), "so that its caller sees what is missing"
    shown = await handled_positions.stored(INTAKE)
    assert {server: at.position for server, at in shown.items()} == {
        servers[0]: BIG,
        **dict.fromkeys(servers[1:], BIG + 9),
    }
    await handled_positions.store(INTAKE, A, BIG + 9, {servers[0]: Handled(BIG)})
    assert all_show(await handled_positions.stored(INTAKE), BIG + 9)


async def test_a_write_of_an_unchanged_position_is_counted(handled_positions: HandledPositions) -> None:
    taken = await handled_positions.take(INTAKE, A, 0)
    await handled_positions.store(INTAKE, A, 7, taken)
    first = await handled_positions.stored(INTAKE)
    await handled_positions.store(INTAKE, A, 7, first)
    second = await handled_positions.stored(INTAKE)
    assert all(second[server] == Handled(7, at.writes + 1) for server, at in first.items())
    lost = {server: Handled(7, at.writes + 1) for server, at in second.items()}
    await handled_positions.store(INTAKE, A, 8, lost)
    assert await handled_positions.stored(INTAKE) == second, "a write that is missing there was lost"


async def test_the_position_beside_a_conversation_is_that_of_its_server(handled_positions: HandledPositions) -> None:
    await handled_positions.store(INTAKE, A, 7, {})
    servers = await handled_positions.stored(INTAKE)
    found = [await handled_positions.stored_for(INTAKE, conversation_key("acme", f"c{number}")) for number in range(30)]
    assert {server for server, _ in found} == set(servers), "each server holds some of thirty conversations"
    assert {handled.position for _, handled in found} == {7}


async def test_only_the_last_owner_records_positions(handled_positions: HandledPositions) -> None:
    await handled_positions.take(INTAKE, A, 0)
    assert (await handled_positions.store(INTAKE, A, 7, {})).owned
    await handled_positions.take(INTAKE, B, 5)
    assert all_show(await handled_positions.stored(INTAKE), 5), "it begins behind what is committed"
    assert not (await handled_positions.store(INTAKE, A, 9, {})).owned
    assert all_show(await handled_positions.stored(INTAKE), 5)
    assert (await handled_positions.store(INTAKE, B, 6, {})).owned
    await handled_positions.take(INTAKE, A, BIG)
    assert all_show(await handled_positions.stored(INTAKE), 6)


async def test_witnesses_of_which_the_store_shows_less_are_missing(
    handled_positions: HandledPositions, store: StateStore
) -> None:
    async def missing(*witnesses: Witness) -> set[Witness]:
        return set((await handled_positions.store(INTAKE, A, 1, {}, witnesses)).missing)

    scopes = [Scope("update", conversation_key("acme", f"c{number}")) for number in range(5)]
    for scope in scopes:
        assert await store.commit(scope, Commit(expect=0, applied=BIG, skip=True))
        assert await store.commit(scope, Commit(expect=BIG, applied=BIG, late=BIG))
    assert await missing(*(Witness(scope, BIG, 1) for scope in scopes)) == set()
    assert await missing(Witness(scopes[0], 99), Witness(Scope("link", scopes[0].key))) == set()
    lost = {Witness(scopes[1], BIG + 1), Witness(scopes[3], BIG, 2), Witness(Scope("link", scopes[0].key), 1)}
    assert await missing(*lost, Witness(scopes[2], BIG, 1), Witness(scopes[4], 1)) == lost


async def test_a_decision_that_is_unsent_again_is_missing(
    handled_positions: HandledPositions, store: StateStore
) -> None:
    async def missing(*witnesses: Witness) -> set[Witness]:
        return set((await handled_positions.store(INTAKE, A, 1, {}, witnesses)).missing)

    def outbox(number: int) -> Outbox:
        return Outbox(number=number, messages=(OutMessage(topic="changes", key="acme/a", text="1"),))

    there = Scope("update", conversation_key("acme", "a"))
    sent, unsent = Witness(there, BIG, sent=True), Witness(there, BIG)
    assert await store.commit(there, Commit(expect=0, applied=BIG, outbox=outbox(BIG), skip=True))
    assert await missing(sent, unsent) == {sent}
    await store.mark_sent(there, BIG)
    assert await missing(sent, unsent) == set()
    late = replace(sent, lates=1)
    assert await store.commit(there, Commit(expect=BIG, applied=BIG, late=BIG, outbox=outbox(-1)))
    assert await missing(sent, late) == {late}
    await store.mark_sent(there, -1)
    assert await store.commit(there, Commit(expect=BIG, applied=BIG + 1, lates=1, outbox=outbox(BIG + 1)))
    assert await missing(sent, late) == set(), "what is unsent is a later decision"


async def test_partitions_that_are_stored_at_once_have_findings_of_their_own(
    handled_positions: HandledPositions, store: StateStore
) -> None:
    there, lost = (Scope("link", conversation_key("acme", name)) for name in "ab")
    assert await store.commit(there, Commit(expect=0, applied=7, skip=True))
    readers = [ReadPartition("link", "changes", number) for number in range(5)]
    await handled_positions.take(readers[1], B, 0)
    behind = {server: Handled(BIG) for server in await handled_positions.stored(readers[3])}
    asked = [
        handled_positions.store(readers[0], A, 10, {}, [Witness(there, 7)]),
        handled_positions.store(readers[1], A, 11, {}),
        handled_positions.store(readers[2], A, 12, {}, [Witness(there, 7), Witness(lost, 1)]),
        handled_positions.store(readers[3], A, 13, behind),
        handled_positions.store(readers[4], A, 14, {}, [Witness(there, 7)]),
    ]
    given_up = asyncio.ensure_future(handled_positions.store(readers[4], A, 9, {}))
    together = asyncio.gather(*asked)
    await asyncio.sleep(0)
    given_up.cancel()
    found = await together
    assert [one.owned for one in found] == [True, False, True, True, True]
    assert [one.missing for one in found] == [(), (), (Witness(lost, 1),), (), ()]
    shown = [positions(await handled_positions.stored(reader)) for reader in readers]
    del shown[2]  # a cluster looks at witnesses after it has written
    assert shown == [{10}, {0}, {0}, {14}]


async def test_a_parked_event_is_there_or_its_session_is_applied(
    handled_positions: HandledPositions, store: MemoryStore | RedisStore
) -> None:
    scope = Scope("update", conversation_key("acme", "c"))
    await store.commit(scope, Commit(expect=0, applied=9))
    assert await store.park(scope, 10, "summary", "{}")
    witnesses = Witness(scope, number=10, slot="summary"), Witness(scope, number=10, slot="turn 1")
    assert (await handled_positions.store(INTAKE, A, 1, {}, witnesses)).missing == witnesses[1:]
    await store.commit(scope, Commit(expect=9, applied=10, unpark=10))
    assert (await handled_positions.store(INTAKE, A, 1, {}, witnesses)).missing == ()


@pytest.mark.parametrize(
    ("kind", "replicas"),
    [
        pytest.param("redis", 0, marks=pytest.mark.broker),
        pytest.param("cluster", 0, marks=SEVERAL),
        pytest.param("sentinel", 1, marks=SEVERAL),
    ],
)
async def test_a_position_waits_for_the_replicas_that_are_set(
    kind: str, replicas: int, keys: Keys, request: pytest.FixtureRequest
) -> None:
    async with open_redis_url(request.getfixturevalue(f"{kind}_url")) as client:
        served = RedisHandledPositions(client, keys, ReplicaWait(replicas, 1000))
        assert all_show((await served.store(INTAKE, A, 7, {})).before, 0)
        assert all_show((await served.store(INTAKE, A, 5, {})).before, 7), "a smaller one waits, too"
        short = RedisHandledPositions(client, keys, ReplicaWait(replicas + 1, 100))
        with pytest.raises(Unavailable, match=rf"{replicas} of {replicas + 1} replicas .*EUNOE_REDIS_WAIT_REPLICAS"):
            await short.store(INTAKE, A, 9, {})
        assert all_show(await served.stored(INTAKE), 9), "it is written, and not acknowledged"
