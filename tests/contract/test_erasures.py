"""The contract of a ledger of erasures, on every implementation."""

import secrets
from datetime import timedelta
from pathlib import Path

import pytest

from eunoe.schemas.erasure import (
    Erasure,
    ErasureDone,
    ErasureLedger,
    ErasureLevel,
    ErasureRefused,
    ErasureRequest,
    Placeholder,
    RetentionPolicy,
    current_policies,
)
from eunoe.schemas.errors import Unavailable
from eunoe.workers.stores.erasures.ledgers import AppliedErasures, RedisErasures
from eunoe.workers.stores.erasures.sqlite_ledger import SqliteErasures
from eunoe.workers.stores.redis.connection import RedisClient
from tests.support.command import until
from tests.support.in_memory import START
from tests.support.memory.erasures import MemoryErasures

PLACE = Placeholder(position=7, log_time=START, utterance_id="erased-1", session_id="s", size=9, text_bytes=3)


class NewerRequest(ErasureRequest):
    """A request as a later version may know it."""

    pages: str


def erasure(number: int, key: str = "a/1") -> Erasure:
    at = START + timedelta(seconds=number)
    return Erasure(
        request_id=f"e{number}",
        key=key,
        level=ErasureLevel.UTTERANCES,
        at=at,
        until=9,
        salt="salt",
        placeholders=(PLACE,),
        refused=("erased-1",),
    )


@pytest.fixture
def ledgers(redis: RedisClient | None, tmp_path: Path) -> list[ErasureLedger]:
    if redis is None:
        return [MemoryErasures(), SqliteErasures(tmp_path / "own" / "ledger.sqlite")]
    return [RedisErasures(redis, f"p{secrets.token_hex(4)}")]


async def test_entries_come_back_in_their_order_and_by_conversation(ledgers: list[ErasureLedger]) -> None:
    for ledger in ledgers:
        for one in (erasure(1), erasure(2, "b/1"), erasure(3)):
            await ledger.begin(one)
        assert await ledger.erasures() == [erasure(1), erasure(2, "b/1"), erasure(3)]
        assert await ledger.erasures("a/1") == [erasure(1), erasure(3)]
        assert await ledger.erasures("c/1") == []
        assert await ledger.done() == []


async def test_an_entry_is_never_changed(ledgers: list[ErasureLedger]) -> None:
    for ledger in ledgers:
        await ledger.begin(erasure(1))
        await ledger.begin(erasure(1).model_copy(update={"placeholders": ()}))
        assert await ledger.erasures() == [erasure(1)]
        done = ErasureDone(request_id="e1", key="a/1", at=START, receipt="{}")
        await ledger.finish(done)
        await ledger.finish(done.model_copy(update={"receipt": "{1}"}))
        assert await ledger.done("a/1") == [done]


async def test_requests_wait_in_their_order(ledgers: list[ErasureLedger]) -> None:
    asked = [
        ErasureRequest(
            request_id=f"r{number}", key=f"a/{number % 2}", at=START + timedelta(seconds=number), session="s"
        )
        for number in range(3)
    ]
    for ledger in ledgers:
        for one in (*asked, asked[0].model_copy(update={"session": None})):
            await ledger.request(one)
        assert await ledger.requests() == asked
        assert await ledger.requests("a/0") == [asked[0], asked[2]]


async def test_many_are_requested_at_once_and_found_by_their_conversation_alone(ledgers: list[ErasureLedger]) -> None:
    """`[ab]*` would be a pattern of Redis, and is a tenant's name in a policy."""
    asked = [ErasureRequest(request_id="r", key=f"t/c{number}", at=START) for number in range(1_200)]
    policies = [RetentionPolicy(request_id="p", key=name, at=START, days=1) for name in ("[ab]*", "a", "a b", "b*")]
    for ledger in ledgers:
        await ledger.request(*asked, asked[0])
        await ledger.request()
        assert sorted(one.key for one in await ledger.requests()) == sorted(one.key for one in asked)
        assert await ledger.requests("t/c11") == [asked[11]]
        for policy in policies:
            await ledger.set_retention(policy)
        assert [await ledger.retentions(one.key) for one in policies] == [[one] for one in policies]


async def test_a_file_is_private_and_kept(tmp_path: Path) -> None:
    path = tmp_path / "own" / "ledger.sqlite"
    await SqliteErasures(path).begin(erasure(1))
    assert path.stat().st_mode & 0o077 == 0
    assert await SqliteErasures(path).erasures() == [erasure(1)]


async def test_a_file_that_cannot_be_read_is_unavailable(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    path.write_bytes(b"no database" * 100)
    with pytest.raises(Unavailable, match=r"ledger of erasures .*ledger\.sqlite"):
        await SqliteErasures(path).erasures()


async def test_a_state_store_knows_the_erasures_that_it_has_seen(redis: RedisClient | None) -> None:
    if redis is None:
        return
    applied = AppliedErasures(redis, f"p{secrets.token_hex(4)}")
    await applied.add("a/1", "e1")
    await applied.add("a/1", "e1")
    assert await applied.all() == {("a/1", "e1")}
    await applied.add("b/1", "e1")
    assert await applied.among({("a/1", "e1"), ("a/1", "e2"), ("c/1", "e1")}) == {("a/1", "e1")}
    assert await applied.among(set()) == set()


async def test_a_finished_request_keeps_no_id(ledgers: list[ErasureLedger]) -> None:
    asked = ErasureRequest(request_id="e1", key="a/1", at=START, utterance_ids=("u1",))
    for ledger in ledgers:
        await ledger.request(asked)
        await ledger.request(asked.model_copy(update={"key": "b/1"}))
        await ledger.finish(ErasureDone(request_id="e1", key="a/1", at=START, receipt="{}"))
        (kept,) = await ledger.requests("a/1")
        assert (kept.utterance_ids, kept.session, kept.erases) == ((), None, ErasureLevel.UTTERANCES)
        assert (await ledger.requests("b/1"))[0].utterance_ids == ("u1",)


async def test_a_refusal_is_kept_once(ledgers: list[ErasureLedger]) -> None:
    refused = ErasureRefused(request_id="e1", key="a/1", at=START, reason="no such utterance")
    for ledger in ledgers:
        await ledger.refuse(refused)
        await ledger.refuse(refused.model_copy(update={"reason": "another"}))
        assert await ledger.refusals() == [refused]
        assert await ledger.refusals("b/1") == []


async def test_the_latest_policy_of_a_tenant_counts_and_all_are_kept(ledgers: list[ErasureLedger]) -> None:
    def policy(number: int, tenant: str, days: int | None) -> RetentionPolicy:
        at = START + timedelta(seconds=number)
        return RetentionPolicy(request_id=f"p{number}", key=tenant, at=at, days=days)

    set_ = [policy(1, "a", 30), policy(2, "b", 7), policy(3, "a", 90), policy(4, "b", None)]
    for ledger in ledgers:
        for one in set_:
            await ledger.set_retention(one)
        assert await ledger.retentions() == set_
        assert await ledger.retentions("a") == [set_[0], set_[2]]
        assert current_policies(await ledger.retentions()) == {"a": set_[2]}


async def test_a_policy_that_is_set_after_the_clock_was_set_back_counts(ledgers: list[ErasureLedger]) -> None:
    """Also where two operators set one, and the clock of the first was ahead."""
    hour = timedelta(hours=1)
    times = (START, START - hour, START - 2 * hour)
    for ledger in ledgers:
        for number, (at, days) in enumerate(zip(times, (30, 365, None), strict=True)):
            await ledger.set_retention(RetentionPolicy(request_id=f"p{number}", key="a", at=at, days=days))
            current = current_policies(await ledger.retentions("a"))
            assert [policy.days for policy in current.values()] == ([] if days is None else [days])
        assert [one.request_id for one in await ledger.retentions()] == ["p0", "p1", "p2"]


async def test_one_at_a_time_has_the_right_to_erase(ledgers: list[ErasureLedger]) -> None:
    for ledger in ledgers:
        assert await ledger.lease("one", 60)
        assert await ledger.lease("one", 60)
        assert not await ledger.lease("two", 60)
        await ledger.release("two")
        assert not await ledger.lease("two", 60)
        await ledger.release("one")
        assert await ledger.lease("two", 0.001)

        async def taken(ledger: ErasureLedger = ledger) -> bool:
            return await ledger.lease("one", 60)

        await until(taken)  # the lease of one that died ends by itself


@pytest.mark.parametrize("back_s", [300, 3590, 3600, 86_400])
async def test_a_lease_that_was_taken_before_the_clock_was_set_back_keeps_nobody_away(
    back_s: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger, clock = SqliteErasures(tmp_path / "ledger.sqlite"), [2_000_000.0]
    monkeypatch.setattr("eunoe.workers.stores.erasures.sqlite_ledger.time.time", lambda: clock[0])
    assert await ledger.lease("one that died", 20)
    clock[0] += 15 - back_s  # it died, and a while later the clock is set
    assert await ledger.lease("two", 20)
    assert not await ledger.lease("three", 20)


async def test_an_entry_of_a_newer_version_is_waited_for(redis: RedisClient | None, tmp_path: Path) -> None:
    """It is neither passed over nor a fault of the code: after its own update the process reads on."""
    newer = NewerRequest(request_id="r1", key="a/1", at=START, pages="3-5")
    ledger: ErasureLedger = SqliteErasures(tmp_path / "ledger.sqlite")
    if redis is not None:
        ledger = RedisErasures(redis, f"p{secrets.token_hex(4)}")
    await ledger.request(newer)
    with pytest.raises(Unavailable, match=r"this version of eunoe cannot read: .*update this process") as caught:
        await ledger.requests()
    assert caught.value.server == "the ledger of erasures"
    assert "3-5" not in str(caught.value)
