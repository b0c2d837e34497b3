"""`StateStore`: the fence, the outbox, tables, lanes."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import cast

import pytest

from eunoe.schemas.decisions import (
    REQUEST_TTL_S,
    Clear,
    Collection,
    Commit,
    Drop,
    Ledger,
    Outbox,
    OutMessage,
    Point,
    Put,
    Scope,
    SparseVector,
    Timer,
)
from eunoe.schemas.identity import conversation_key
from eunoe.schemas.ports import StateStore
from eunoe.schemas.position_ports import ReadPartition
from eunoe.workers.stores.positions.redis_positions import RedisHandledPositions
from eunoe.workers.stores.records.generations import forget_generation
from eunoe.workers.stores.redis.connection import RedisClient
from eunoe.workers.stores.redis.keys import Keys
from eunoe.workers.stores.state.memory_store import MemoryStore
from eunoe.workers.stores.state.redis_store import RedisStore

KEY = conversation_key("acme", "c1")
SCOPE = Scope("segment", KEY)
TEXT = 'He said: "café" \\ 안녕 👩‍👩‍👧‍👦 \u2028 \x00 {}%7B'


def outbox(number: int = 1) -> Outbox:
    return Outbox(
        number=number,
        partition=3,
        points=(
            Point(
                collection=Collection.SEGMENTS,
                id="0b0c4d1e-0000-5000-8000-000000000001",
                key=KEY,
                born=1,
                seq=abs(number),
                text=TEXT,
                dense=bytes(range(256)),
                sparse=SparseVector(indices=(0, 7, 2**32 - 1), values=(0.1, 1e-9, 3.3333333333333335)),
            ),
        ),
        messages=(
            OutMessage(topic="segments", key=KEY, text=TEXT, headers=(("late", "1"), ("late", "2"))),
            OutMessage(topic="dead-letters", key=None, raw=bytes(range(256))[::-1]),
        ),
        timer=Timer(after_utterance_id="u1", since=datetime(2026, 3, 1, 9, 30, 0, 123456, UTC)),
    )


async def eventually(holds: Callable[[], Awaitable[bool]], seconds: float = 10.0) -> None:
    async with asyncio.timeout(seconds):
        while not await holds():  # noqa: ASYNC110
            await asyncio.sleep(0.02)  # the store tells nobody when something expires


async def test_a_new_ledger_is_empty(store: StateStore) -> None:
    assert await store.ledger(SCOPE) == Ledger()


async def test_the_number_applied_last_is_that_of_the_ledger(store: StateStore) -> None:
    assert await store.applied(SCOPE) == 0
    assert await store.commit(SCOPE, Commit(expect=0, applied=7, outbox=outbox(7)))
    assert await store.applied(SCOPE) == 7


async def test_a_commit_moves_applied_and_writes(store: StateStore) -> None:
    assert await store.commit(SCOPE, Commit(expect=0, applied=1, writes=(Put(table="spans", id="1", text=TEXT),)))
    assert await store.ledger(SCOPE) == Ledger(applied=1)
    assert await store.fetch("segment", KEY, "spans", ["2", "1", "1"]) == [None, TEXT, TEXT]
    assert await store.scan("segment", KEY, "spans") == {"1": TEXT}


@pytest.mark.parametrize("expect", [0, 2, 10, 2**53 + 2])
async def test_the_fence_holds_when_applied_moved(store: StateStore, expect: int) -> None:
    await store.commit(SCOPE, Commit(expect=0, applied=1))
    write = Put(table="spans", id="1", text="x")
    assert not await store.commit(SCOPE, Commit(expect=expect, applied=expect + 1, writes=(write,), skip=True))
    assert await store.ledger(SCOPE) == Ledger(applied=1)
    assert await store.scan("segment", KEY, "spans") == {}


async def test_a_decision_that_was_begun_on_another_process_of_the_server_is_fenced(store: StateStore) -> None:
    server = (await store.ledger(SCOPE)).server
    assert server
    write = Put(table="spans", id="1", text="x")
    assert not await store.commit(SCOPE, Commit(expect=0, applied=1, writes=(write,), server="0" * len(server)))
    assert await store.ledger(SCOPE) == Ledger()
    assert await store.commit(SCOPE, Commit(expect=0, applied=1, writes=(write,), server=server))
    assert (await store.ledger(SCOPE)).server == server


async def test_a_decision_on_own_state_alone_may_be_begun_on_another_process_of_the_server(store: StateStore) -> None:
    process, *rest = (await store.ledger(SCOPE)).server.partition("/")
    other = "".join(("0" * len(process), *rest))
    assert not await store.commit(SCOPE, Commit(expect=0, applied=1, server=other))
    assert await store.commit(SCOPE, Commit(expect=0, applied=1, server=other, checks_server=False))


async def test_a_ledger_has_the_token_of_its_last_commit(store: StateStore) -> None:
    assert (await store.ledger(SCOPE)).token == ""
    one = await store.commit(SCOPE, Commit(expect=0, applied=1, after=""))
    assert one
    assert (await store.ledger(SCOPE)).token == one
    two = await store.commit(SCOPE, Commit(expect=1, applied=2, after=one))
    assert two
    assert two != one
    assert (await store.ledger(SCOPE)).token == two


async def test_a_decision_on_state_that_another_commit_of_the_same_number_left_is_fenced(store: StateStore) -> None:
    token = await store.commit(SCOPE, Commit(expect=0, applied=1))
    write = Put(table="spans", id="1", text="x")
    for other in ("", "other"):
        assert not await store.commit(SCOPE, Commit(expect=1, applied=2, writes=(write,), after=other))
    assert await store.ledger(SCOPE) == Ledger(applied=1)
    assert await store.scan("segment", KEY, "spans") == {}
    assert await store.commit(SCOPE, Commit(expect=1, applied=2, writes=(write,), after=token))


async def test_positions_beyond_the_whole_floats_are_told_apart(store: StateStore) -> None:
    position = 2**60 + 1
    assert await store.commit(SCOPE, Commit(expect=0, applied=position))
    assert not await store.commit(SCOPE, Commit(expect=position - 1, applied=position + 1))
    assert await store.commit(SCOPE, Commit(expect=position, applied=position + 1))
    assert (await store.ledger(SCOPE)).applied == position + 1


async def test_nothing_is_committed_over_an_unsent_outbox(store: StateStore) -> None:
    assert await store.commit(SCOPE, Commit(expect=0, applied=1, outbox=outbox(1)))
    assert not await store.commit(SCOPE, Commit(expect=1, applied=2))
    await store.mark_sent(SCOPE, 1)
    assert await store.commit(SCOPE, Commit(expect=1, applied=2, outbox=outbox(2)))


async def test_an_outbox_comes_back_byte_for_byte(store: StateStore) -> None:
    await store.commit(SCOPE, Commit(expect=0, applied=1, outbox=outbox()))
    found = (await store.ledger(SCOPE)).outbox
    assert found == outbox()
    assert found is not None
    assert found.points[0].dense == bytes(range(256))
    assert [message.value for message in found.messages] == [TEXT.encode(), bytes(range(256))[::-1]]
    assert found.to_json() == outbox().to_json()


async def test_only_the_outbox_of_the_number_is_marked(store: StateStore) -> None:
    position = 2**60
    await store.commit(SCOPE, Commit(expect=0, applied=position, outbox=outbox(position)))
    for other in (0, 1, position - 1, position + 1):
        await store.mark_sent(SCOPE, other)
    assert (await store.ledger(SCOPE)).outbox is not None
    await store.mark_sent(SCOPE, position)
    await store.mark_sent(SCOPE, position)
    assert await store.ledger(SCOPE) == Ledger(applied=position)


async def test_a_mark_where_nothing_is_makes_no_ledger(store: StateStore) -> None:
    await store.mark_sent(SCOPE, 0)
    assert await store.ledger(SCOPE) == Ledger()


async def test_skipped_numbers_are_kept(store: StateStore) -> None:
    for number in (1, 2, 3, 10):
        current = (await store.ledger(SCOPE)).applied
        assert await store.commit(SCOPE, Commit(expect=current, applied=number, skip=number != 2))
    assert await store.ledger(SCOPE) == Ledger(applied=10, skipped=frozenset({1, 3, 10}))


async def skipping(store: StateStore, upto: int, *skipped: int) -> None:
    for number in range(1, upto + 1):
        assert await store.commit(SCOPE, Commit(expect=number - 1, applied=number, skip=number in skipped))


async def test_a_late_session_leaves_applied_and_is_no_longer_skipped(store: StateStore) -> None:
    await skipping(store, 4, 2, 3)
    write = Put(table="t", id="a", text="late")
    late = Commit(expect=4, applied=4, late=2, writes=(write,), outbox=outbox(-1))
    assert await store.commit(SCOPE, late)
    assert await store.scan("segment", KEY, "t") == {"a": "late"}
    assert await store.ledger(SCOPE) == Ledger(applied=4, skipped=frozenset({3}), outbox=outbox(-1), lates=1)
    await store.mark_sent(SCOPE, 2)
    assert (await store.ledger(SCOPE)).outbox is not None
    await store.mark_sent(SCOPE, -1)
    assert await store.ledger(SCOPE) == Ledger(applied=4, skipped=frozenset({3}), lates=1)


async def test_a_late_session_is_fenced_like_any_other(store: StateStore) -> None:
    await skipping(store, 4, 2)
    write = Put(table="t", id="a", text="x")
    assert not await store.commit(SCOPE, Commit(expect=3, applied=3, late=2, writes=(write,)))
    assert not await store.commit(SCOPE, Commit(expect=4, applied=4, late=3, writes=(write,)))
    assert await store.commit(SCOPE, Commit(expect=4, applied=4, late=2, outbox=outbox(-1)))
    assert not await store.commit(SCOPE, Commit(expect=4, applied=5, lates=1))
    await store.mark_sent(SCOPE, -1)
    assert not await store.commit(SCOPE, Commit(expect=4, applied=4, lates=1, late=2, writes=(write,)))
    assert await store.scan("segment", KEY, "t") == {}


async def test_a_decision_from_before_a_late_one_is_fenced(store: StateStore) -> None:
    await skipping(store, 4, 2)
    assert await store.commit(SCOPE, Commit(expect=4, applied=4, late=2))
    assert not await store.commit(SCOPE, Commit(expect=4, applied=5))
    assert await store.commit(SCOPE, Commit(expect=4, applied=5, lates=1))
    assert await store.ledger(SCOPE) == Ledger(applied=5, lates=1)


async def test_a_late_session_that_fails_again_stays_among_the_skipped(store: StateStore) -> None:
    await skipping(store, 4, 2)
    assert await store.commit(SCOPE, Commit(expect=4, applied=4, late=2, skip=True))
    assert await store.ledger(SCOPE) == Ledger(applied=4, skipped=frozenset({2}), lates=1)


async def test_tables_are_cleared_first_and_the_rest_is_done_in_order(store: StateStore) -> None:
    await store.commit(SCOPE, Commit(expect=0, applied=1, writes=(Put(table="t", id="old", text="1"),)))
    writes = (
        Put(table="t", id="a", text="1"),
        Put(table="t", id="b", text="1"),
        Drop(table="t", id="a"),
        Clear(table="t"),
        Put(table="u", id="a", text="1"),
        Put(table="t", id="c", text="1"),
        Put(table="t", id="c", text="2"),
        Drop(table="t", id="never there"),
        Drop(table="v", id="never there"),
        Clear(table="w"),
    )
    assert await store.commit(SCOPE, Commit(expect=1, applied=2, writes=writes))
    assert await store.scan("segment", KEY, "t") == {"b": "1", "c": "2"}
    assert await store.scan("segment", KEY, "u") == {"a": "1"}
    assert await store.scan("segment", KEY, "v") == await store.scan("segment", KEY, "w") == {}


async def test_so_many_documents_are_dropped_and_put_in_one_commit(store: StateStore) -> None:
    rows = [Put(table="t", id=str(number), text=TEXT) for number in range(5_000)]
    await store.commit(SCOPE, Commit(expect=0, applied=1, writes=tuple(rows)))
    writes = [
        write
        for number in range(4_990)
        for write in (Drop(table="t", id=str(number)), Put(table="t", id=f"new {number}", text="1"))
    ]
    again = [Drop(table="t", id="4995"), Put(table="t", id="4995", text="again"), Drop(table="t", id="new 7")]
    assert await store.commit(SCOPE, Commit(expect=1, applied=2, writes=(*writes, *again)))
    kept = {str(number): TEXT for number in range(4_990, 5_000)} | {"4995": "again"}
    new = {f"new {number}": "1" for number in range(4_990) if number != 7}
    assert await store.scan("segment", KEY, "t") == kept | new


async def test_fetching_nothing_gives_nothing(store: StateStore) -> None:
    assert await store.fetch("segment", KEY, "spans", []) == []
    assert await store.fetch("segment", KEY, "spans", ["1", "2"]) == [None, None]


async def test_one_of_fifty_commits_wins(store: StateStore) -> None:
    commits = [
        Commit(expect=0, applied=1, writes=(Put(table="t", id="winner", text=str(one)),), outbox=outbox(1))
        for one in range(50)
    ]
    won = await asyncio.gather(*(store.commit(SCOPE, commit) for commit in commits))
    (winner,) = [number for number, token in enumerate(won) if token]
    assert await store.fetch("segment", KEY, "t", ["winner"]) == [str(winner)]


async def test_one_of_fifty_equal_commits_wins(store: StateStore) -> None:
    commit = Commit(expect=0, applied=1, outbox=outbox(1))
    passed = await asyncio.gather(*(store.commit(SCOPE, commit) for _ in range(50)))
    assert len([token for token in passed if token]) == 1


async def test_conversations_stages_and_lanes_do_not_see_each_other(store: StateStore) -> None:
    names = [
        ("acme", "c1"), ("acme", "c1 "), ("acme", "C1"), ("other", "c1"), ("acme/c1", "x"), ("acme", "c1/x"),
        ("a{b}c", "{}"), ("a", "{b}c{}"), ("acme%2Fc1", "x"), ("acme", "c1%2Fx"), ("acme", "c1:segment"),
        ("지민", "대화 👩‍👩‍👧‍👦"), ("지민", "대화\u200b"), ("log", "3"), ("log-3", "*"), ("a", "?[x]"),
    ]  # fmt: skip
    scopes = [
        Scope(stage, conversation_key(*name), lane)
        for name in names
        for stage in ("segment", "segment/spans", "seg{ment}", "compress")
        for lane in ("", "r1", "r1:x", "{r1}", "!parked", "지민")
    ]
    for number, scope in enumerate(scopes, start=1):
        write = Put(table="spans@r1", id="1", text=f"{scope.stage} {scope.key}")
        assert await store.commit(scope, Commit(expect=0, applied=number, writes=(write,))), scope
    for number, scope in enumerate(scopes, start=1):
        assert await store.ledger(scope) == Ledger(applied=number)
        assert await store.scan(scope.stage, scope.key, "spans@r1") == {"1": f"{scope.stage} {scope.key}"}
        assert await store.scan(scope.stage, scope.key, "spans") == {}


async def test_a_big_session_goes_in_and_comes_out(store: StateStore) -> None:
    big = "가" * 350_000  # about 1 MiB of UTF-8
    writes = tuple(Put(table=f"t{one % 7}", id=str(one), text=f"{one}{big[:2_000]}") for one in range(900))
    box = Outbox(number=1, messages=(OutMessage(topic="segments", key=KEY, text=big),) * 2)
    assert await store.commit(SCOPE, Commit(expect=0, applied=1, writes=writes, outbox=box))
    assert (await store.ledger(SCOPE)).outbox == box
    tables = [await store.scan("segment", KEY, f"t{table}") for table in range(7)]
    assert {id_: text for table in tables for id_, text in table.items()} == {w.id: w.text for w in writes}


async def test_the_ledger_of_a_lane_is_forgotten_in_time(brief_store: StateStore) -> None:
    lane = Scope("respond", KEY, "r1")
    await brief_store.commit(SCOPE, Commit(expect=0, applied=1))
    await brief_store.commit(lane, Commit(expect=0, applied=1, outbox=outbox()))
    assert (await brief_store.ledger(lane)).applied == 1
    await brief_store.mark_sent(lane, 1)
    await eventually(lambda: _is_new(brief_store, lane))
    assert await brief_store.ledger(SCOPE) == Ledger(applied=1)


async def _is_new(store: StateStore, scope: Scope) -> bool:
    return await store.ledger(scope) == Ledger()


async def test_only_lanes_expire(store: StateStore, redis: RedisClient | None, keys: Keys) -> None:
    if redis is None:
        return  # the clock of the store in memory is tested above
    lane = Scope("respond", KEY, "r1")
    for scope in (SCOPE, lane):
        await store.commit(scope, Commit(expect=0, applied=1, outbox=outbox()))
        await store.mark_sent(scope, 1)
    assert await redis.ttl(keys.ledger(SCOPE)) == -1
    assert 0 <= REQUEST_TTL_S - await redis.ttl(keys.ledger(lane)) < 400


async def test_the_list_of_conversations_holds_each_once_and_nothing_else(
    store: StateStore, redis: RedisClient | None, keys: Keys
) -> None:
    lister = cast("MemoryStore | RedisStore", store)
    assert await lister.conversations() == []
    names = [conversation_key("acme", f"c{number} {{}}/안녕") for number in range(30)]
    for key in names[:20]:
        for stage in ("intake", "segment"):
            await store.commit(
                Scope(stage, key), Commit(expect=0, applied=1, writes=(Put(table="t", id="1", text="x"),))
            )
    for key in names[20:]:
        await lister.park(Scope("update", key), 2, "slot", "{}")
    await store.commit(Scope("respond", names[0], "request/1"), Commit(expect=0, applied=1))
    if redis is not None:
        reader = ReadPartition("intake", "conversations", 0)
        await RedisHandledPositions(redis, keys).store(reader, "", 7, {})
        other = RedisStore(redis, Keys(keys.prefix, f"{keys.generation}x"))
        await other.park(Scope("update", "acme/elsewhere"), 1, "slot", "{}")
        assert await other.conversations() == ["acme/elsewhere"]
        await forget_generation(redis, Keys(keys.prefix, f"{keys.generation}x"))
    assert await lister.conversations() == sorted(names)
