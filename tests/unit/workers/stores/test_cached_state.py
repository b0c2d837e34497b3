"""The cache of a stage's own state: what is not read again, and when it is."""

import copy
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from eunoe.schemas.decisions import Clear, Commit, Drop, Ledger, Outbox, OutMessage, Put, Scope
from eunoe.workers.stores.state import cached_state
from eunoe.workers.stores.state.cached_state import CACHE_TTL_S, CachedStateStore, StaleState, state_cache
from eunoe.workers.stores.state.memory_store import MemoryStore

KEY = "acme/c1"
SCOPE = Scope("tree", KEY)
OTHER = Scope("update", KEY)


class Counting(MemoryStore):
    """Counts what is read."""

    def __init__(self) -> None:
        super().__init__()
        self.read: Counter[str] = Counter()

    async def ledger(self, scope: Scope) -> Ledger:
        self.read["ledger"] += 1
        return await super().ledger(scope)

    async def fetch(self, stage: str, key: str, table: str, ids: Sequence[str]) -> list[str | None]:
        self.read.update(ids)
        return await super().fetch(stage, key, table, ids)

    async def scan(self, stage: str, key: str, table: str) -> dict[str, str]:
        self.read["scan"] += 1
        return await super().scan(stage, key, table)

    async def cold_applied(self, scope: Scope) -> int | None:
        self.read["cold"] += 1
        return 7


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def kept() -> Counting:
    return Counting()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def state(kept: Counting, clock: Clock) -> CachedStateStore:
    return CachedStateStore(kept, "tree", state_cache(), clock)


def commit(number: int, *writes: Put | Drop | Clear, outbox: bool = False) -> Commit:
    message = OutMessage(topic="memories", key=KEY, text="{}")
    sent = Outbox(number=number, messages=(message,)) if outbox else None
    return Commit(expect=number - 1, applied=number, writes=writes, outbox=sent)


async def with_two_documents(kept: Counting) -> None:
    """What an earlier process has written."""
    assert await kept.commit(SCOPE, commit(1, Put("nodes", "a", "A"), Put("nodes", "b", "B")))


async def test_the_cold_store_is_asked_only_of_conversations_that_are_not_at_hand(
    state: CachedStateStore, kept: Counting, clock: Clock
) -> None:
    await with_two_documents(kept)
    assert await state.cold_applied(SCOPE) == 7
    await state.ledger(SCOPE)
    assert await state.cold_applied(SCOPE) is None
    clock.now += CACHE_TTL_S
    assert await state.cold_applied(SCOPE) == 7
    assert await state.cold_applied(OTHER) == 7


async def test_documents_and_ledger_are_read_once(state: CachedStateStore, kept: Counting) -> None:
    await with_two_documents(kept)
    for _ in range(3):
        assert (await state.ledger(SCOPE)).applied == 1
        assert await state.fetch("tree", KEY, "nodes", ["b", "none", "a", "b"]) == ["B", None, "A", "B"]
    assert kept.read == {"ledger": 1, "a": 1, "b": 1, "none": 1}


async def test_a_commit_of_its_own_changes_what_is_at_hand(state: CachedStateStore, kept: Counting) -> None:
    await with_two_documents(kept)
    await state.ledger(SCOPE)
    await state.fetch("tree", KEY, "nodes", ["a", "b"])
    assert await state.commit(SCOPE, commit(2, Put("nodes", "c", "C"), Drop("nodes", "a"), Put("nodes", "b", "B2")))
    assert await state.ledger(SCOPE) == await kept.ledger(SCOPE)
    kept.read.clear()
    assert await state.fetch("tree", KEY, "nodes", ["a", "b", "c"]) == [None, "B2", "C"]
    assert not kept.read
    assert await state.commit(SCOPE, commit(3, Clear("nodes"), Put("nodes", "d", "D")))
    assert await state.fetch("tree", KEY, "nodes", ["a", "b", "c", "d"]) == [None, None, None, "D"]
    assert await state.scan("tree", KEY, "nodes") == {"d": "D"} == await kept.scan("tree", KEY, "nodes")


async def test_a_table_that_was_scanned_is_known_whole(state: CachedStateStore, kept: Counting) -> None:
    await with_two_documents(kept)
    await state.ledger(SCOPE)
    assert await state.scan("tree", KEY, "nodes") == {"a": "A", "b": "B"}
    assert await state.commit(SCOPE, commit(2, Drop("nodes", "a"), Put("nodes", "c", "C")))
    assert await state.scan("tree", KEY, "nodes") == {"b": "B", "c": "C"}
    assert await state.fetch("tree", KEY, "nodes", ["none"]) == [None]
    assert kept.read == {"ledger": 1, "scan": 1}


async def test_a_new_conversation_has_no_documents_to_read(state: CachedStateStore, kept: Counting) -> None:
    await state.ledger(SCOPE)
    assert await state.fetch("tree", KEY, "terms", ["word"]) == [None]
    assert await state.commit(SCOPE, commit(1, Put("terms", "word", "1")))
    assert await state.fetch("tree", KEY, "terms", ["word", "other"]) == ["1", None]
    assert kept.read == {"ledger": 1}


async def test_an_unsent_outbox_is_read_from_the_store_until_it_is_sent(
    state: CachedStateStore, kept: Counting
) -> None:
    await state.ledger(SCOPE)
    assert await state.commit(SCOPE, commit(1, outbox=True))
    shown = (await state.ledger(SCOPE)).outbox
    assert shown is not None
    assert len(shown.messages) == 1
    await state.mark_sent(SCOPE, 7)
    assert (await state.ledger(SCOPE)).outbox is not None
    await state.mark_sent(SCOPE, 1)
    kept.read.clear()
    assert (await state.ledger(SCOPE)).outbox is None
    assert not kept.read


async def test_a_commit_on_what_another_process_changed_is_stale_and_then_reads_anew(
    state: CachedStateStore, kept: Counting
) -> None:
    await state.ledger(SCOPE)
    assert await state.commit(SCOPE, commit(1, Put("nodes", "a", "A")))
    assert await kept.commit(SCOPE, commit(2, Put("nodes", "a", "A2")))
    assert (await state.ledger(SCOPE)).applied == 1
    with pytest.raises(StaleState):
        await state.commit(SCOPE, commit(2, Put("nodes", "a", "of a zombie")))
    assert (await state.ledger(SCOPE)).applied == 2
    assert await state.fetch("tree", KEY, "nodes", ["a"]) == ["A2"]
    assert await state.commit(SCOPE, commit(3)), "what was just read is a base for a commit"


async def test_a_commit_on_a_ledger_that_was_read_for_it_is_refused_as_by_the_store(
    state: CachedStateStore, kept: Counting
) -> None:
    await state.ledger(SCOPE)
    assert await kept.commit(SCOPE, commit(1))
    assert not await state.commit(SCOPE, commit(1))
    assert (await state.ledger(SCOPE)).applied == 1


def state_of(kept: Counting) -> list[dict[Any, Any]]:
    return [kept._ledgers, kept._tables]


def go_back(kept: Counting, before: list[dict[Any, Any]]) -> None:
    """Let the server be started again with an earlier state."""
    for now, then in zip(state_of(kept), before, strict=True):
        now.clear()
        now.update(then)
    kept.server = "started again"


@pytest.mark.parametrize("how", ["fetched", "scanned", "read past the cache"])
async def test_documents_that_a_lost_commit_wrote_are_not_decided_on(
    state: CachedStateStore, kept: Counting, clock: Clock, how: str
) -> None:
    await with_two_documents(kept)
    mine = await state.ledger(SCOPE)
    before = copy.deepcopy(state_of(kept))
    assert await kept.commit(SCOPE, commit(2, Put("nodes", "a", "lost")))  # another process takes over
    if how == "scanned":
        assert (await state.scan("tree", KEY, "nodes"))["a"] == "lost"
    else:
        clock.now += CACHE_TTL_S if how == "read past the cache" else 0.0
        assert await state.fetch("tree", KEY, "nodes", ["a"]) == ["lost"]
    go_back(kept, before)
    decided = replace(commit(2, Put("nodes", "b", "B")), server=mine.server, after=mine.token, checks_server=False)
    assert not await state.commit(SCOPE, decided)
    assert (await kept.ledger(SCOPE)).token == mine.token


async def test_a_decision_on_what_was_at_hand_outlives_a_new_start_of_the_server(
    state: CachedStateStore, kept: Counting
) -> None:
    mine = await state.ledger(SCOPE)
    token = await state.commit(SCOPE, commit(1, Put("nodes", "a", "A")))
    go_back(kept, copy.deepcopy(state_of(kept)))
    assert await state.fetch("tree", KEY, "nodes", ["a", "none"]) == ["A", None]
    decided = replace(commit(2, Put("nodes", "b", "B")), server=mine.server, after=token, checks_server=False)
    assert await state.commit(SCOPE, decided)


async def test_skipped_and_late_sessions_show_in_the_ledger_at_hand(state: CachedStateStore, kept: Counting) -> None:
    await state.ledger(SCOPE)
    assert await state.commit(SCOPE, Commit(expect=0, applied=1, skip=True))
    assert await state.ledger(SCOPE) == await kept.ledger(SCOPE)
    assert await state.commit(SCOPE, Commit(expect=1, applied=1, late=1))
    assert await state.ledger(SCOPE) == await kept.ledger(SCOPE) == Ledger(applied=1, lates=1)


@pytest.mark.parametrize("forgetting", ["time", "one", "all"])
async def test_what_was_forgotten_is_read_anew(
    state: CachedStateStore, kept: Counting, clock: Clock, forgetting: str
) -> None:
    await state.ledger(SCOPE)
    assert await state.commit(SCOPE, commit(1, Put("nodes", "a", "A")))
    assert await kept.commit(SCOPE, commit(2, Put("nodes", "a", "A2")))
    match forgetting:
        case "time":
            clock.now += CACHE_TTL_S
        case "one":
            state.forget(KEY)
        case _:
            state.forget_all()
    assert await state.fetch("tree", KEY, "nodes", ["a"]) == ["A2"]
    assert (await state.ledger(SCOPE)).applied == 2
    assert await state.fetch("tree", KEY, "nodes", ["a"]) == ["A2"]


async def test_documents_stay_at_hand_where_a_new_look_shows_the_same_ledger(
    state: CachedStateStore, kept: Counting, clock: Clock
) -> None:
    await state.ledger(SCOPE)
    assert await state.commit(SCOPE, commit(1, Put("nodes", "a", "A")))
    clock.now += CACHE_TTL_S
    await state.ledger(SCOPE)
    assert await state.fetch("tree", KEY, "nodes", ["a"]) == ["A"]
    assert kept.read == {"ledger": 2}


async def test_state_of_other_stages_and_of_requests_passes_through(state: CachedStateStore, kept: Counting) -> None:
    request = Scope("tree", KEY, "ask-1")
    for scope in (OTHER, request):
        await state.ledger(scope)
        assert await state.commit(scope, commit(1, Put("memories", "m", "M"), outbox=True))
        assert (await state.ledger(scope)).outbox is not None
        await state.mark_sent(scope, 1)
        await state.ledger(scope)
    assert kept.read["ledger"] == 6
    await state.fetch("update", KEY, "memories", ["m"])
    assert await state.fetch("update", KEY, "memories", ["m"]) == ["M"]
    assert await state.scan("update", KEY, "memories") == {"m": "M"}
    assert (kept.read["m"], kept.read["scan"]) == (2, 1)


async def test_of_too_many_documents_those_used_last_are_kept(
    state: CachedStateStore, kept: Counting, monkeypatch: pytest.MonkeyPatch
) -> None:
    await state.ledger(SCOPE)
    nodes = [Put("nodes", str(number), "x" * 100) for number in range(8)]
    assert await state.commit(SCOPE, commit(1, *nodes))
    assert await state.fetch("tree", KEY, "nodes", ["3", "none"]) == ["x" * 100, None]
    assert kept.read == {"ledger": 1}
    monkeypatch.setattr(cached_state, "MAX_CONVERSATION_BYTES", 2_600)
    assert await state.commit(SCOPE, commit(2, Put("nodes", "8", "z")))
    assert await state.fetch("tree", KEY, "nodes", ["8", "3", "7", "6"]) == ["z", *["x" * 100] * 3]
    assert kept.read == {"ledger": 1}
    assert await state.fetch("tree", KEY, "nodes", ["0", "none"]) == ["x" * 100, None]
    assert kept.read == {"ledger": 1, "0": 1, "none": 1}, "the table is not known whole any more"
    assert len(await state.scan("tree", KEY, "nodes")) == 9
    assert (await state.ledger(SCOPE)).applied == 2


async def test_wide_characters_count_as_the_bytes_they_take(
    state: CachedStateStore, kept: Counting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cached_state, "MAX_CONVERSATION_BYTES", 3_000)
    await state.ledger(SCOPE)
    assert await state.commit(SCOPE, commit(1, Put("nodes", "1", "x" * 1_000), Put("nodes", "2", "👋" * 1_000)))
    assert await state.fetch("tree", KEY, "nodes", ["1", "2"]) == ["x" * 1_000, "👋" * 1_000]
    assert kept.read["2"] == 1


async def test_documents_larger_than_the_bound_are_not_kept(
    state: CachedStateStore, kept: Counting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cached_state, "MAX_CONVERSATION_BYTES", 1_000)
    await state.ledger(SCOPE)
    assert await state.commit(SCOPE, commit(1, Put("nodes", "1", "x" * 5_000), Put("stats", "stats", "s")))
    assert await state.fetch("tree", KEY, "nodes", ["1"]) == ["x" * 5_000]
    assert await state.scan("tree", KEY, "stats") == {"stats": "s"}
    assert kept.read == {"ledger": 1, "1": 1, "scan": 1}
