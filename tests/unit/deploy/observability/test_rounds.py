"""Background work in rounds: whatever fails in one of them is told, and ends none of those that follow."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import pytest

from eunoe.deploy.gateway.erasure_wait import ErasureWait
from eunoe.deploy.observability import counters, index_watch, monitor, process_records
from eunoe.deploy.observability.counters import WorkerMeter, metered
from eunoe.deploy.observability.health import HealthState, Phase
from eunoe.deploy.observability.monitor import monitored
from eunoe.deploy.observability.process_records import announced
from eunoe.deploy.observability.rounds import Faults, repeat
from eunoe.deploy.process import erasing
from eunoe.deploy.process.erasing import EraserOnDemand
from eunoe.deploy.settings import Settings
from eunoe.schemas.erasure import ErasureRequest
from eunoe.schemas.errors import Refused, Unavailable
from eunoe.streams.cancelling import cancelled
from tests.support.memory.erasures import MemoryErasures


class Failing:
    """Work that raises each of the given faults once, then goes well."""

    def __init__(self, *faults: Exception) -> None:
        self.faults = list(faults)
        self.done = asyncio.Event()

    def step(self) -> None:
        if self.faults:
            raise self.faults.pop(0)
        self.done.set()

    async def __call__(self) -> None:
        self.step()


async def done(work: Failing) -> None:
    async with asyncio.timeout(10):
        await work.done.wait()


async def test_a_fault_that_nobody_foresaw_is_told_without_its_values_and_the_next_round_comes(
    caplog: pytest.LogCaptureFixture,
) -> None:
    work = Failing(ValueError("what Ann said"), ValueError("what Ann said"), Refused("set A"), Unavailable("away"))
    with caplog.at_level(logging.INFO, "eunoe.deploy.observability.rounds"):
        task = asyncio.create_task(repeat(work, 0, Faults("the look")))
        await done(work)
    await cancelled(task)
    first, second, third = caplog.messages
    assert "the look failed" in first
    assert "ValueError" in first
    assert "test_rounds.py" in first
    assert "\n" not in second, "the same again is told in one line"
    assert third == "the look: set A"
    assert "Ann" not in caplog.text


# ---- who works in rounds


async def test_the_age_of_erasures_is_looked_up_again_after_any_fault() -> None:
    work = Failing(RuntimeError(), OSError())

    class Ledger(MemoryErasures):
        async def requests(self, key: str | None = None) -> list[ErasureRequest]:
            work.step()
            return await super().requests(key)

    task = asyncio.create_task(ErasureWait(Ledger(), every_s=0).watch())
    await done(work)
    await cancelled(task)


async def test_the_progress_of_stages_is_sampled_again_after_any_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(monitor, "EVERY_S", 0)
    work = Failing(RuntimeError())

    class Ends:
        async def ends(self, _: object) -> dict[Any, int]:
            work.step()
            return {}

        async def close(self) -> None:
            pass

    async with monitored(HealthState(), {}, cast("Any", Ends())):
        await done(work)


class Answers:
    """A server that is away until it is told to answer."""

    def __init__(self) -> None:
        self.asked, self.away = asyncio.Semaphore(0), True

    def answer(self) -> None:
        self.asked.release()
        if self.away:
            raise Unavailable("refused", "the server")

    async def twice(self) -> None:
        """Return when it was asked twice from now on: the first answer is dealt with by then."""
        async with asyncio.timeout(10):
            await self.asked.acquire()
            await self.asked.acquire()


async def check_told(server: Answers, health: HealthState) -> None:
    """It counts as one wait while it is away, however often it is asked, and as none afterwards."""
    health.phase = Phase.RUNNING
    for _ in range(2):
        await server.twice()
        assert (health.outages.waiting(), health.outages.waits) == ({"the server": 1}, {"the server": 1})
    assert health.report().why == ("1 waiting for the server",)
    server.away, server.asked = False, asyncio.Semaphore(0)
    await server.twice()
    assert (health.report().ready, health.outages.waits) == (True, {"the server": 1})


async def test_a_broker_that_is_away_is_told_also_where_no_record_waits_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A consumer only sees no records then, and nobody publishes."""
    monkeypatch.setattr(monitor, "EVERY_S", 0)
    server, health = Answers(), HealthState()

    class Ends:
        async def ends(self, _: object) -> dict[Any, int]:
            server.answer()
            return {}

        async def close(self) -> None:
            pass

    async with monitored(health, {}, cast("Any", Ends())):
        await check_told(server, health)


async def test_an_index_that_is_away_is_told_also_where_nobody_searches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_watch, "EVERY_S", 0)
    server, health = Answers(), HealthState()

    class Guard:
        lost = None

        async def check(self) -> None:
            server.answer()

        async def sample(self) -> None:
            pass

    task = asyncio.create_task(index_watch.watch_index(cast("Any", Guard()), health))
    await check_told(server, health)
    await cancelled(task)


async def test_a_process_is_recorded_again_after_any_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_records, "EVERY_S", 0)

    class Announcer:
        name, records = "host/1", cast("Any", None)
        work = Failing(RuntimeError())

        async def announce(self) -> None:
            self.work.step()

        async def clean(self) -> None:
            pass

    class Records:
        async def remove(self, _: str) -> None:
            pass

    announcer = Announcer()
    announcer.records = Records()
    async with announced(cast("Any", announcer)):
        await done(announcer.work)


async def test_counters_are_written_again_after_the_disk_was_full(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(counters, "EVERY_S", 0)
    write, work = counters.write_document, Failing()

    def may_fail(path: Path, meter: WorkerMeter) -> None:
        work.step()
        write(path, meter)

    monkeypatch.setattr(counters, "write_document", may_fail)
    async with metered(WorkerMeter(), tmp_path / "meter.json"):
        work.done.clear()
        work.faults.append(OSError(28, "No space left on device"))
        await done(work)


class Process:
    """An eraser that is done at once."""

    returncode = 0

    async def wait(self) -> int:
        return 0


@pytest.mark.parametrize(
    ("asked", "begun"),
    [
        pytest.param([Unavailable("locked")], [], id="the ledger is locked"),
        pytest.param([ValueError("of another version")], [], id="the ledger cannot be read"),
        pytest.param([], [OSError(11, "Resource temporarily unavailable")], id="no process can be started"),
    ],
)
async def test_an_erasure_is_carried_out_although_a_look_for_it_failed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, asked: list[Exception], begun: list[Exception]
) -> None:
    file, ledger = tmp_path / "ledger.sqlite", MemoryErasures()
    file.write_bytes(b"it does not change meanwhile")
    await ledger.request(ErasureRequest(request_id="r", key="default/a", at=datetime.now(UTC), utterance_ids=("u0",)))
    asking, beginning = Failing(*asked), Failing(*begun)

    @asynccontextmanager
    async def opened(_: Settings) -> AsyncIterator[MemoryErasures]:
        asking.step()
        yield ledger

    class Starting(EraserOnDemand):
        async def _begin(self, output: int) -> Any:
            beginning.step()
            return Process()

    monkeypatch.setattr(erasing, "open_erasures", opened)
    monkeypatch.setattr(erasing, "LATER_S", 0)
    task = asyncio.create_task(Starting(Settings(), file, {}, tmp_path / "eraser.log").run())
    await done(beginning)
    await cancelled(task)
