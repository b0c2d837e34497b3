"""Erasures of many conversations: files are rewritten once for a batch; none costs another its receipt."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pytest

from eunoe.deploy.clients.shared import store_keys
from eunoe.deploy.generations.erase import batch, files, finishing
from eunoe.deploy.generations.erase.batch import BATCH_S, WorkedOff
from eunoe.deploy.generations.erase.finishing import Erased, Finished
from eunoe.deploy.generations.erase.loop import work_off
from eunoe.deploy.generations.erase.receipt import NotCovered, Outcome
from eunoe.deploy.generations.erase.run import Eraser
from eunoe.deploy.generations.handled_log import StillWritten, Unhandled
from eunoe.deploy.settings import Settings
from eunoe.deploy.settings.sections import BrokerSettings
from eunoe.schemas.decisions import Collection, Ledger, Scope
from eunoe.schemas.erasure import Erasure, ErasureDone, ErasureLevel, ErasureRequest
from eunoe.schemas.errors import Refused, Unavailable
from eunoe.workers.stores.vectors.qdrant_rest import QdrantRest
from tests.support.memory.erasures import MemoryErasures

NOW = datetime(2026, 11, 1, tzinfo=UTC)
BEGAN = 1_000
AWAY = Unavailable("Qdrant is away", "Qdrant")
PLACE = NotCovered(place="redis: append-only file", why="not rewritten", until="BGREWRITEAOF")


def erasure(name: str) -> Erasure:
    return Erasure(request_id="r", key=name, level=ErasureLevel.TENANT, at=NOW, until=0, salt="s")


@dataclass
class Servers(MemoryErasures):
    """The ledger, the files and the state stores of a deployment, which note what is done there, in order."""

    steps: list[str] = field(default_factory=list)
    lost: set[str] = field(default_factory=set)
    """Conversations in which Redis goes back behind the erasure."""
    rewrite_fault: BaseException | None = None

    def __post_init__(self) -> None:
        super().__init__()

    async def finish(self, done: ErasureDone) -> None:
        self.steps.append(f"receipt {done.key}")
        await super().finish(done)

    async def rewrite_files(self, _: object) -> tuple[NotCovered, ...]:
        self.steps.append("files")
        if self.rewrite_fault is not None:
            raise self.rewrite_fault
        return (PLACE,)

    async def add(self, key: str, _: str) -> None:
        self.steps.append(f"mark {key}")

    async def store_ledger(self, scope: Scope) -> Ledger:
        self.steps.append(f"look {scope.key}")
        return Ledger(lates=BEGAN - 1 if scope.key in self.lost else BEGAN)

    def took(self, name: str) -> list[str]:
        """The steps of this name."""
        return [step for step in self.steps if step.partition(" ")[0] == name]


@dataclass(frozen=True, slots=True)
class Stepping(Eraser):
    """An eraser that notes the steps in each conversation; the last ones are those of `finishing`."""

    faults: dict[str, BaseException] = field(default_factory=dict)

    async def sessions(self, key: str) -> int:
        return 1

    async def erase(self, erasures: Sequence[Erasure]) -> Erased:
        assert isinstance(self.ledger, Servers)
        (one,) = erasures
        if (fault := self.faults.get(one.key)) is not None:
            raise fault
        self.ledger.steps.append(f"erase {one.key}")
        return Erased(erasures, BEGAN, (self.settings,), Outcome({}, (), ()))

    async def unfinished(self, key: str | None = None) -> list[Erasure]:
        done = {one.key for one in await self.ledger.done()}
        return [one for one in await self.ledger.erasures() if one.key not in done]


@pytest.fixture
def servers(monkeypatch: pytest.MonkeyPatch) -> Servers:
    made = Servers()

    @asynccontextmanager
    async def opened(_: Settings) -> AsyncIterator[Any]:
        class Store:
            ledger = staticmethod(made.store_ledger)

        yield Store()

    async def door_kept(_: Settings) -> None:
        return None

    monkeypatch.setattr(finishing, "rewrite_files", made.rewrite_files)
    monkeypatch.setattr(finishing, "AppliedErasures", lambda *_: made)
    monkeypatch.setattr(finishing, "open_redis", opened)
    monkeypatch.setattr(finishing, "open_store", opened)
    monkeypatch.setattr(finishing, "door_kept", door_kept)
    monkeypatch.setattr(batch, "monotonic", lambda: 0.0)
    monkeypatch.setattr(batch, "TOGETHER", 1)
    return made


async def begun(servers: Servers, *names: str) -> None:
    for name in names:
        await servers.begin(erasure(name))


def many(count: int) -> list[str]:
    return [f"acme/c{number}" for number in range(count)]


async def test_files_are_rewritten_once_for_a_batch_of_conversations(servers: Servers):
    names = many(101)
    await begun(servers, *names)
    outcome = await work_off(Stepping(Settings(), servers))
    assert len(servers.took("files")) == 3
    assert servers.took("receipt") == [f"receipt {name}" for name in names]
    assert len(outcome.receipts) == len(names)
    assert len(servers.took("erase")) == len(names)


async def test_marks_and_receipts_come_behind_the_files_and_each_receipt_behind_a_look(servers: Servers):
    await begun(servers, "a", "b")
    outcome = await work_off(Stepping(Settings(), servers))
    assert servers.steps == [
        "erase a", "erase b", "files", "mark a", "look a", "receipt a", "mark b", "look b", "receipt b",
    ]  # fmt: skip
    assert all(PLACE in receipt.not_covered for receipt in outcome.receipts)
    stored = [json.loads(one.receipt) for one in await servers.done()]
    assert stored == [receipt.model_dump(mode="json") for receipt in outcome.receipts]


@dataclass(frozen=True, slots=True)
class Timed(Stepping):
    """Each conversation takes so many seconds, and so do the files."""

    seconds: list[float] = field(default_factory=lambda: [0.0])
    erase_s: float = 0.0
    finish_s: float = 0.0

    async def erase(self, erasures: Sequence[Erasure]) -> Erased:
        self.seconds[0] += self.erase_s
        return await Stepping.erase(self, erasures)

    async def finish(self, batch: Sequence[Erased]) -> Finished:
        self.seconds[0] += self.finish_s
        return await Stepping.finish(self, batch)


@pytest.mark.parametrize(
    ("finish_s", "batches"),
    [(1.0, ["ab", "cd", "ef", "gh"]), (2 * BATCH_S, ["ab", "cdef", "gh"])],
    ids=["small stores", "large stores"],
)
async def test_a_batch_that_takes_long_is_finished_before_it_is_full(
    servers: Servers, monkeypatch: pytest.MonkeyPatch, finish_s: float, batches: list[str]
):
    eraser = Timed(Settings(), servers, erase_s=BATCH_S / 2, finish_s=finish_s)
    monkeypatch.setattr(batch, "monotonic", lambda: eraser.seconds[0])
    await begun(servers, *"abcdefgh")
    await work_off(eraser)
    erased = [step.removeprefix("erase ") for step in servers.steps if step == "files" or step.startswith("erase ")]
    assert [part for part in "".join(erased).split("files") if part] == batches


async def test_receipts_do_not_wait_for_conversations_that_have_to_wait(
    servers: Servers, monkeypatch: pytest.MonkeyPatch
):
    now = 0.0
    monkeypatch.setattr(batch, "monotonic", lambda: now)

    @dataclass(frozen=True, slots=True)
    class Behind(Stepping):
        """Intake is behind in all that is requested."""

        @asynccontextmanager
        async def planning(self) -> AsyncIterator[Any]:
            yield self

        async def begin(self, request: ErasureRequest) -> Erasure:
            nonlocal now
            now += BATCH_S / 2
            servers.steps.append(f"wait {request.key}")
            raise Unhandled(f"{request.key}: intake is behind")

    await begun(servers, "a")
    for name in ("x", "y", "z"):
        await servers.request(ErasureRequest(request_id="r", key=name, at=NOW))
    outcome = await work_off(Behind(Settings(), servers))
    assert servers.steps == ["erase a", "wait x", "wait y", "files", "mark a", "look a", "receipt a", "wait z"]
    assert "x: intake is behind" in str(outcome.waiting)


async def worked_off(eraser: Eraser, outcome: WorkedOff | None = None) -> BaseException | None:
    """The fault for which the rest waits, raised or not."""
    try:
        return (await work_off(eraser, outcome)).waiting
    except Exception as fault:
        return fault


async def test_what_was_erased_before_a_fault_of_the_installation_has_its_receipt(servers: Servers):
    await begun(servers, "a", "b", "c")
    fault = Refused("generation v2 is being built")
    eraser = Stepping(Settings(), servers, faults={"b": fault})
    assert await worked_off(eraser) is fault
    assert servers.took("receipt") == ["receipt a"]
    assert [one.key for one in await eraser.unfinished()] == ["b", "c"]
    await work_off(Stepping(Settings(), servers))
    assert servers.took("receipt") == ["receipt a", "receipt b", "receipt c"]
    assert servers.took("erase") == ["erase a", "erase b", "erase c"], "nothing is derived twice"


@pytest.mark.parametrize("fault", [AWAY, KeyError("a fault of ours")], ids=repr)
async def test_a_conversation_that_always_fails_keeps_no_other_waiting(servers: Servers, fault: Exception):
    await begun(servers, "a", "b", "c")
    eraser = Stepping(Settings(), servers, faults={"b": fault})
    assert await worked_off(eraser) is fault
    assert servers.took("receipt") == ["receipt a", "receipt c"]
    assert [one.key for one in await eraser.unfinished()] == ["b"]


async def test_a_server_that_is_away_is_not_asked_for_each_conversation(servers: Servers):
    await begun(servers, *"abcdefgh")
    eraser = Stepping(Settings(), servers, faults=dict.fromkeys("bcdefgh", AWAY))
    outcome = WorkedOff()
    assert await worked_off(eraser, outcome) is AWAY
    assert servers.took("receipt") == ["receipt a"]
    assert outcome.failed == {"b", "c", "d"}


async def test_conversations_that_fail_come_last_so_that_many_of_them_hold_up_nobody(servers: Servers):
    await begun(servers, *"abcdef")
    eraser = Stepping(Settings(), servers, faults=dict.fromkeys("abcd", AWAY))
    failed = set[str]()
    for _ in range(2):
        assert await worked_off(eraser, WorkedOff(failed=failed)) is AWAY
    assert servers.took("receipt") == ["receipt e", "receipt f"]
    eraser.faults.clear()
    assert await worked_off(eraser, WorkedOff(failed=failed)) is None
    assert failed == set()


async def test_several_conversations_are_erased_at_the_same_time(servers: Servers, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(batch, "TOGETHER", 4)
    together = asyncio.Barrier(4)

    @dataclass(frozen=True, slots=True)
    class Meeting(Stepping):
        async def erase(self, erasures: Sequence[Erasure]) -> Erased:
            await together.wait()
            return await Stepping.erase(self, erasures)

    names = many(8)
    await begun(servers, *names)
    outcome = await asyncio.wait_for(work_off(Meeting(Settings(), servers)), 20)
    assert servers.took("receipt") == [f"receipt {name}" for name in names]
    assert len(outcome.receipts) == 8


async def test_a_conversation_that_is_still_written_to_takes_nothing_from_its_batch(servers: Servers):
    await begun(servers, "a", "b", "c")
    busy = StillWritten("b: new records came in")
    outcome = await work_off(Stepping(Settings(), servers, faults={"b": busy}))
    assert (servers.took("receipt"), outcome.waiting) == (["receipt a", "receipt c"], busy)
    assert len(servers.took("files")) == 1


async def test_a_redis_that_went_back_in_one_conversation_takes_no_receipt_from_the_others(servers: Servers):
    await begun(servers, "a", "b", "c")
    servers.lost = {"b"}
    eraser = Stepping(Settings(), servers)
    outcome = await work_off(eraser)
    assert "has lost what the erasure wrote" in str(outcome.waiting)
    assert len(outcome.receipts) == 2
    assert servers.took("receipt") == ["receipt a", "receipt c"]
    assert [one.key for one in await eraser.unfinished()] == ["b"]
    servers.lost = set()
    assert len((await work_off(eraser)).receipts) == 1


async def test_files_that_cannot_be_rewritten_leave_all_of_the_batch_begun(servers: Servers):
    await begun(servers, "a", "b")
    servers.rewrite_fault = AWAY
    eraser = Stepping(Settings(), servers)
    with pytest.raises(Unavailable, match="Qdrant is away"):
        await work_off(eraser)
    assert servers.steps == ["erase a", "erase b", "files"]
    assert len(await eraser.unfinished()) == 2


@pytest.mark.parametrize("where", ["between conversations", "while files are rewritten"])
async def test_what_an_interruption_leaves_is_carried_out_again(servers: Servers, where: str):
    await begun(servers, "a", "b")
    interrupted = Stepping(Settings(), servers)
    if where == "between conversations":
        interrupted.faults["b"] = asyncio.CancelledError()
    else:
        servers.rewrite_fault = asyncio.CancelledError()
    with pytest.raises(asyncio.CancelledError):
        await work_off(interrupted)
    assert servers.took("mark") == servers.took("receipt") == []
    servers.rewrite_fault = None
    servers.steps.clear()
    assert len((await work_off(Stepping(Settings(), servers))).receipts) == 2
    assert servers.steps[:3] == ["erase a", "erase b", "files"]


async def test_the_first_fault_is_told_where_what_was_erased_cannot_be_finished_either(servers: Servers):
    servers.rewrite_fault = AWAY
    await begun(servers, "a", "b")
    eraser = Stepping(Settings(), servers, faults={"b": Unavailable("Redis is away", "Redis")})
    with pytest.raises(Unavailable, match="Redis is away"):
        await work_off(eraser)
    assert servers.steps == ["erase a", "files"]
    assert len(await eraser.unfinished()) == 2


async def test_redis_rewrites_its_file_once_and_qdrant_those_of_each_generation(monkeypatch: pytest.MonkeyPatch):
    rewritten: list[str] = []

    class Qdrant(QdrantRest):
        async def rewrite(self, collection: str) -> None:
            rewritten.append(collection)

    @asynccontextmanager
    async def redis(_: Settings) -> AsyncIterator[None]:
        yield

    @asynccontextmanager
    async def qdrant(_: Settings) -> AsyncIterator[Qdrant]:
        yield Qdrant("http://127.0.0.1:1")

    async def rewrite_redis(_: object) -> tuple[NotCovered, ...]:
        rewritten.append("redis")
        return (PLACE,)

    monkeypatch.setattr(files, "open_redis", redis)
    monkeypatch.setattr(files, "open_qdrant", qdrant)
    monkeypatch.setattr(files, "rewrite_redis", rewrite_redis)
    live = Settings(generation="v2", broker=BrokerSettings(embedded=True))
    left = await files.rewrite_files([live.model_copy(update={"generation": "v1"}), live])
    assert left == (PLACE,)
    names = [store_keys(live.model_copy(update={"generation": one})) for one in ("v1", "v2")]
    assert rewritten == ["redis", *(one.collection(collection) for one in names for collection in Collection)]
