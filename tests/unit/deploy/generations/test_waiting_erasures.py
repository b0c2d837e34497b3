"""What is refused for good: a request that is at fault itself, and never one that meets an installation at fault."""

import asyncio
import gc
import logging
import os
import signal
import socket
import subprocess
import sys
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic
from typing import Any, cast

import pytest
from redis.asyncio import Redis

from eunoe.deploy.clients.erasures import is_pending
from eunoe.deploy.generations.erase import batch, retention, serve, sites
from eunoe.deploy.generations.erase.batch import WorkedOff
from eunoe.deploy.generations.erase.finishing import Erased, Finished
from eunoe.deploy.generations.erase.loop import work_off
from eunoe.deploy.generations.erase.receipt import Receipt
from eunoe.deploy.generations.erase.retention import plan_retention, run_retention
from eunoe.deploy.generations.erase.run import Eraser
from eunoe.deploy.generations.erase.sites import NotNow
from eunoe.deploy.generations.handled_log import HandledLog, StillWritten, Unhandled
from eunoe.deploy.generations.repair import Repairer
from eunoe.deploy.observability.health import HealthReport, HealthState, Phase
from eunoe.deploy.settings import Settings
from eunoe.schemas.erasure import Erasure, ErasureDone, ErasureRequest, RetentionPolicy
from eunoe.schemas.errors import Misconfigured, Refused, RequestRefused, Unavailable
from eunoe.streams.record import Record
from eunoe.streams.sealed.log import position_in_log
from eunoe.streams.topics import Topic
from tests.support.command import until
from tests.support.memory.erasures import MemoryErasures

NOW = datetime(2026, 11, 1, tzinfo=UTC)
WAITED_FOR = (
    Misconfigured("Qdrant refuses the API key", "Qdrant"),
    Refused("the index was made with another embedder"),
    NotNow("generation v2 is being built"),
)
AT_FAULT = RequestRefused("no such utterance: ghost")
BUSY = StillWritten("acme/busy: new records came in during each of 20 attempts to derive it; try again later")


def request(number: int) -> ErasureRequest:
    return ErasureRequest(request_id=f"r{number}", key=f"acme/c{number}", at=NOW, utterance_ids=("u0",))


@pytest.fixture(autouse=True)
def one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """One conversation at a time, so that their order tells."""
    monkeypatch.setattr(batch, "TOGETHER", 1)


@dataclass(frozen=True, slots=True)
class Beginning(Eraser):
    """An eraser whose requests go as told: a fault is raised, anything else begins and is carried out."""

    outcome: Callable[[ErasureRequest], Exception | None] = lambda _: None
    begun: list[ErasureRequest] = field(default_factory=list)
    """Those that were begun before and are not finished."""
    busy: frozenset[str] = frozenset()
    """The ids of erasures in conversations that are written to all the time."""
    together: list[list[str]] = field(default_factory=list)
    """The ids of those that were carried out together, time after time."""

    async def sessions(self, key: str) -> int:
        return 1

    async def plan(self, request: ErasureRequest) -> Erasure:
        fault = self.outcome(request)
        if fault is not None:
            raise fault
        return cast("Erasure", request)

    async def begin(self, request: ErasureRequest) -> Erasure:
        return await self.plan(request)

    @asynccontextmanager
    async def planning(self) -> AsyncIterator[Any]:
        yield self

    async def erase(self, erasures: Sequence[Erasure]) -> Erased:
        names = [one.request_id for one in erasures]
        self.together.append(names)
        if not self.busy.isdisjoint(names):
            raise BUSY
        return cast("Erased", names)

    async def finish(self, batch: Sequence[Erased]) -> Finished:
        return Finished([name for names in cast("Sequence[list[Receipt]]", batch) for name in names])

    async def unfinished(self, key: str | None = None) -> list[Erasure]:
        return cast("list[Erasure]", self.begun)


def eraser(ledger: MemoryErasures, *faults: Exception | None) -> Beginning:
    """One whose requests meet these faults, one after the other."""
    left = list(faults)
    return Beginning(Settings(), ledger, outcome=lambda _: left.pop(0))


async def asked(count: int) -> MemoryErasures:
    ledger = MemoryErasures()
    for number in range(count):
        await ledger.request(request(number))
    return ledger


@pytest.mark.parametrize("fault", WAITED_FOR, ids=lambda fault: type(fault).__name__)
async def test_a_request_outlives_a_fault_of_the_installation(fault: Refused) -> None:
    ledger = await asked(2)
    outcome = await work_off(eraser(ledger, fault))
    assert (outcome.waiting, outcome.refused, outcome.receipts) == (fault, [], [])
    assert await ledger.refusals() == []
    assert await is_pending(ledger)
    outcome = await work_off(eraser(ledger, None, None))  # the server takes the login again
    assert outcome.waiting is None
    assert list(map(str, outcome.receipts)) == ["r0", "r1"]


async def test_a_request_that_is_at_fault_is_refused_and_keeps_no_other_waiting() -> None:
    ledger = await asked(2)
    outcome = await work_off(eraser(ledger, AT_FAULT, None))
    assert outcome.waiting is None
    assert list(map(str, outcome.receipts)) == ["r1"]
    assert [(one.request_id, one.reason) for one in await ledger.refusals()] == [("r0", str(AT_FAULT))]


def in_one(conversation: str, *names: str) -> list[ErasureRequest]:
    """Requests in one conversation."""
    key = f"acme/{conversation}"
    return [ErasureRequest(request_id=name, key=key, at=NOW, utterance_ids=("u0",)) for name in names]


async def test_requests_in_one_conversation_are_carried_out_together():
    ledger = MemoryErasures()
    for one in (*in_one("a", "a1", "a2"), *in_one("b", "b1", "b2"), *in_one("a", "a3")):
        await ledger.request(one)
    faults = {"a2": AT_FAULT, "b1": Unhandled("acme/b: intake is behind")}
    begun = [*in_one("a", "a0"), *in_one("c", "c1"), *in_one("a", "a9")]
    working = Beginning(Settings(), ledger, outcome=lambda asked: faults.get(asked.request_id), begun=begun)
    outcome = await work_off(working)
    assert working.together == [["a0", "a9"], ["c1"], ["a1", "a3"]]
    assert list(map(str, outcome.receipts)) == ["a0", "a9", "c1", "a1", "a3"]
    assert [refused.request_id for refused in outcome.refused] == ["a2"]
    assert outcome.waiting is faults["b1"]
    assert await ledger.refusals() == outcome.refused, "b2 waits with b1"


async def test_what_began_in_a_conversation_is_carried_out_though_the_next_request_has_to_wait():
    ledger = MemoryErasures()
    for one in (*in_one("a", "a1", "a2", "a3"), *in_one("b", "b1")):
        await ledger.request(one)
    working = eraser(ledger, None, WAITED_FOR[0])
    outcome = await work_off(working)
    assert (working.together, outcome.waiting, outcome.refused) == ([["a1"]], WAITED_FOR[0], [])


async def test_a_request_waits_alone_until_intake_has_handled_its_conversation() -> None:
    ledger = await asked(2)
    behind = Unhandled("acme/c0: intake has not handled 1 of the records that the log holds of it")
    outcome = await work_off(eraser(ledger, behind, None))
    assert (outcome.waiting, list(map(str, outcome.receipts))) == (behind, ["r1"])
    assert await ledger.refusals() == []


@pytest.mark.parametrize(("handled", "waits"), [([5, 5, 6], 2), ([8], 0), ([5] * 100, None)])
async def test_what_intake_has_not_handled_is_waited_for(handled: list[int], waits: int | None) -> None:
    class Behind(HandledLog):
        async def intake(self, key: str) -> Any:
            return None

        async def letters(self, key: str) -> Any:
            return []

        async def _handled(self, key: str, intake: Any, letters: Any) -> int:
            return handled.pop(0)

        async def _log_of(self, key: str, until: int) -> Any:
            log = [Record(Topic.CONVERSATIONS, 0, offset, key.encode(), b"", 0, {}) for offset in (2, 5)]
            positions = [(position_in_log(record, 0), record) for record in log]
            return [one for at, one in positions if at <= until], [one for at, one in positions if at > until]

    nothing = cast("Any", None)
    before, behind = len(handled), Behind(Settings(), nothing, 1)
    if waits is None:
        with pytest.raises(Unhandled, match="acme/c: intake has not handled 1 of the records"):
            await behind.wait("acme/c", 0.1)
    else:
        await behind.wait("acme/c", 20)
        assert before - len(handled) == waits + 1


async def test_a_conversation_that_is_still_written_to_keeps_no_other_waiting() -> None:
    ledger = await asked(2)
    begun, busy = [request(7), request(8)], frozenset({"r7", "r0"})
    outcome = await work_off(Beginning(Settings(), ledger, begun=begun, busy=busy))
    assert list(map(str, outcome.receipts)) == ["r8", "r1"]
    assert outcome.waiting is BUSY
    assert await ledger.refusals() == []
    fault = WAITED_FOR[0]  # of the installation: it is told first, for nothing goes on meanwhile
    outcome = await work_off(Beginning(Settings(), ledger, outcome=lambda _: fault, begun=begun, busy=busy))
    assert (list(map(str, outcome.receipts)), outcome.waiting) == (["r8"], fault)


class Circular:
    """Clients that refer to themselves, as real ones do when they are closed."""

    transplants = None

    def __init__(self) -> None:
        self.itself = self


async def test_the_clients_of_an_erasure_are_gone_when_the_next_one_opens_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    opened: list[weakref.ref[Circular]] = []

    async def partitions(_: Settings) -> int:
        return 1

    @asynccontextmanager
    async def clients(_: Settings) -> AsyncIterator[Circular]:
        assert [one() for one in opened] == [None] * len(opened)
        made = Circular()
        opened.append(weakref.ref(made))
        yield made

    monkeypatch.setattr(sites, "_partitions", partitions)
    monkeypatch.setattr(sites, "open_clients", clients)
    erasing = Eraser(Settings(kafka="127.0.0.1:1"), MemoryErasures())
    gc.disable()
    try:
        for _ in range(3):
            async with erasing.opened(erasing.settings):
                pass
    finally:
        gc.enable()


class OneRecord(HandledLog):
    """A log of one record."""

    async def intake(self, key: str) -> Any:
        return key

    async def letters(self, key: str) -> Any:
        return []

    async def records(self, key: str, intake: Any, letters: Any) -> Any:
        return [intake], 0


class Outrun(Repairer):
    """Intake handles more records during each derivation."""

    def _deriving(self, key: str, report: Any) -> Any:
        return self

    async def derive(self, *_: object) -> Any:
        return None

    async def _asks(self, letters: Any) -> Any:
        return None

    async def _swap(self, derived: Any, intake: Any, asks: Any) -> Any:
        return None  # intake has handled more meanwhile

    def _calls(self) -> int:
        return 0


async def test_new_records_that_keep_coming_in_are_told_from_a_server_that_is_down() -> None:
    nothing = cast("Any", None)
    with pytest.raises(StillWritten, match="acme/busy"):
        await Outrun(Settings(), nothing, nothing, OneRecord(Settings(), nothing, 1)).repair("acme/busy")


async def test_retention_goes_on_past_a_conversation_that_is_still_written_to(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []

    @dataclass(frozen=True, slots=True)
    class Noting(Beginning):
        async def finish(self, batch: Sequence[Erased]) -> Finished:
            finished = await Beginning.finish(self, batch)
            done.extend(map(str, finished.receipts))
            return finished

    async def found(*_: object) -> list[ErasureRequest]:
        return [request(0), request(1)]

    monkeypatch.setattr(retention, "outdated", found)
    outcome = await run_retention(Noting(Settings(), MemoryErasures(), busy=frozenset({"r0"})), NOW)
    assert (done, list(map(str, outcome.receipts)), outcome.waiting) == (["r1"], ["r1"], BUSY)


async def test_a_round_runs_retention_though_a_conversation_is_still_written_to(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    swept: list[Eraser] = []

    @asynccontextmanager
    async def alone(_: object) -> AsyncIterator[None]:
        yield

    async def live(settings: Settings) -> Settings:
        return settings

    async def sweep(eraser: Eraser, _: datetime) -> WorkedOff:
        swept.append(eraser)
        return WorkedOff()

    async def trusted_now(_: Settings) -> datetime:
        return NOW

    busy = Beginning(Settings(), MemoryErasures(), begun=[request(0)], busy=frozenset({"r0"}))
    twins = {"alone": alone, "live_settings": live, "run_retention": sweep, "trusted_now": trusted_now}
    for name, twin in twins.items():
        monkeypatch.setattr(serve, name, twin)
    monkeypatch.setattr(serve, "Eraser", lambda *_: busy)
    with pytest.raises(StillWritten):
        await serve._round(Settings(), busy.ledger, serve.EarlierRounds(), sweeps=True)
    assert swept == [busy]


async def test_a_run_of_retention_that_left_one_busy_conversation_is_not_repeated_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rounds: list[bool] = []
    over = asyncio.Event()

    async def one_round(_settings: object, _ledger: object, known: serve.EarlierRounds, *, sweeps: bool) -> None:
        rounds.append(sweeps)
        known.swept = monotonic() if sweeps else known.swept
        if len(rounds) == 3:
            over.set()
        raise BUSY

    monkeypatch.setattr(serve, "_round", one_round)
    monkeypatch.setattr(serve, "LATER_S", 0)
    ledger = await asked(1)
    await ledger.set_retention(RetentionPolicy(request_id="p", key="acme", at=NOW, days=1))
    working = asyncio.create_task(serve._work(Settings(), ledger, 0, HealthState()))
    await asyncio.wait_for(over.wait(), 5)
    working.cancel()
    assert rounds[:3] == [True, False, False]


@pytest.mark.parametrize("work", [run_retention, plan_retention], ids=lambda work: work.__name__)
@pytest.mark.parametrize("fault", WAITED_FOR, ids=lambda fault: type(fault).__name__)
async def test_retention_passes_over_no_conversation_for_the_installation(
    work: Callable[[Eraser, object], Awaitable[object]], fault: Refused, monkeypatch: pytest.MonkeyPatch
) -> None:
    requests = [request(0), request(1)]

    async def found(*_: object) -> list[ErasureRequest]:
        return requests

    monkeypatch.setattr(retention, "outdated", found)
    given = NOW if work is run_retention else requests
    with pytest.raises(type(fault), match=str(fault)):
        await work(eraser(MemoryErasures(), None, fault), given)
    done = await work(eraser(MemoryErasures(), AT_FAULT, None), given)
    assert len(done.receipts if isinstance(done, WorkedOff) else cast("list[object]", done)) == 1


@pytest.mark.parametrize("fault", [*WAITED_FOR, Unavailable("Redis is away")], ids=lambda fault: type(fault).__name__)
async def test_an_eraser_that_serves_outlives_every_fault_of_the_installation(
    fault: Exception, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    left, over = [fault, fault], asyncio.Event()
    rounds: list[bool] = []
    health = HealthState(phase=Phase.RUNNING)
    told: list[HealthReport] = []

    async def one_round(_settings: object, _ledger: object, known: serve.EarlierRounds, *, sweeps: bool) -> None:
        rounds.append(sweeps)
        told.append(health.report())
        if left:
            raise left.pop()
        known.swept = monotonic() if sweeps else known.swept
        if len(rounds) > 3:
            over.set()

    monkeypatch.setattr(serve, "_round", one_round)
    monkeypatch.setattr(serve, "LATER_S", 0)
    ledger = await asked(1)
    await ledger.set_retention(RetentionPolicy(request_id="p", key="acme", at=NOW, days=1))
    with caplog.at_level(logging.WARNING):
        working = asyncio.create_task(serve._work(Settings(), ledger, 0, health))
        waiting = asyncio.create_task(over.wait())
        await asyncio.wait({working, waiting}, timeout=5, return_when=asyncio.FIRST_COMPLETED)
        assert not working.done(), working.exception()
        working.cancel()
    assert rounds[:3] == [True, True, True]  # a run of retention that failed is not put off for hours
    assert caplog.messages[:2] == [f"erasures wait: {fault}"] * 2
    waits = (f"erasures: {fault}",)
    assert [one.why for one in told[:4]] == [(), waits, waits, ()]
    assert all(one.live for one in told), "a restart would not help"


async def test_a_broker_that_refuses_the_login_lacks_no_topics(monkeypatch: pytest.MonkeyPatch) -> None:
    async def refused(*_: object) -> int:
        raise Misconfigured("Kafka refuses the login", "Kafka")

    monkeypatch.setattr(sites, "check_partitions", refused)
    with pytest.raises(Misconfigured, match=r"^Kafka refuses the login$"):
        await sites._partitions(Settings(kafka="127.0.0.1:9092"))


@pytest.mark.slow
async def test_an_eraser_that_serves_has_pages_of_its_health(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    command = [sys.executable, "-m", "eunoe.deploy.cli", "erase", "serve"]
    own = {"EUNOE_ERASURES": str(tmp_path / "ledger.sqlite"), "EUNOE_HEALTH": address}
    with running(command, {**os.environ, **own}) as eraser:

        async def answers() -> bool:
            return await probed(address, "live") == 0

        await until(answers)
        assert await probed(address, "ready") == 0
        eraser.send_signal(signal.SIGSTOP)  # as a process that hangs
        assert await probed(address, "live") == 1
        eraser.send_signal(signal.SIGCONT)
        eraser.terminate()
        assert await asyncio.to_thread(eraser.wait, 20) == 0


async def probed(address: str, page: str) -> int:
    """The exit code of the probe of a container."""
    command = [sys.executable, "-m", "eunoe.deploy.observability.probe", page]
    probe = await asyncio.create_subprocess_exec(
        *command, env={**os.environ, "EUNOE_HEALTH": address}, stdout=asyncio.subprocess.DEVNULL
    )
    return await probe.wait()


@contextmanager
def running(command: Sequence[str], environment: Mapping[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """A process, which is killed at the end where it still runs."""
    process = subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


class Applied:
    """Whether Redis has seen each of these erasures; it goes back where one is taken out."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seen: set[tuple[str, str]] | None = set()

        async def every(_: object) -> set[tuple[str, str]]:
            if self.seen is None:
                raise Unavailable("Redis is away", "Redis")
            return set(self.seen)

        monkeypatch.setattr("eunoe.deploy.clients.erasures.open_redis", lambda _settings: nullcontext(Redis()))
        monkeypatch.setattr("eunoe.deploy.clients.erasures.AppliedErasures.all", every)


async def finished(ledger: MemoryErasures, number: int) -> tuple[str, str]:
    """An erasure that the ledger has as done."""
    one = request(number)
    await ledger.finish(ErasureDone(request_id=one.request_id, key=one.key, at=NOW, receipt="{}"))
    return one.key, one.request_id


async def test_a_redis_that_went_back_behind_an_erasure_is_found_until_that_is_carried_out_again(
    monkeypatch: pytest.MonkeyPatch,
):
    applied, ledger = Applied(monkeypatch), MemoryErasures()
    now = 100.0
    monkeypatch.setattr(serve, "monotonic", lambda: now)
    unseen = serve.UnseenErasures(Settings(), ledger)
    assert not await unseen.found()
    applied.seen = {await finished(ledger, 1)}
    now = 110.0
    assert not await unseen.found()
    applied.seen = set()
    now = 112.0
    assert not await unseen.found(), "it looks every five seconds"
    now = 116.0
    assert [await unseen.found(), await unseen.found()] == [True, True]
    applied.seen = None
    assert not await unseen.found(), "others tell of a Redis that is away"
    applied.seen = {("acme/c1", "r1")}
    assert not await unseen.found()


@pytest.mark.timeout(20)
async def test_an_eraser_at_work_erases_again_what_redis_shows_again(monkeypatch: pytest.MonkeyPatch):
    applied, ledger, rounds = Applied(monkeypatch), MemoryErasures(), asyncio.Event()
    await finished(ledger, 1)

    async def again(*_: object, **__: object) -> None:
        applied.seen = {("acme/c1", "r1")}
        rounds.set()

    monkeypatch.setattr(serve, "_round", again)
    working = asyncio.create_task(serve._work(Settings(), ledger, 0.01, HealthState()))
    await rounds.wait()
    working.cancel()
    await asyncio.wait({working})
