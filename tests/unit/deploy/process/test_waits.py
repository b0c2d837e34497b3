"""The places where tasks wait, as an operator reads them, and cancellations that are lost."""

import asyncio

import pytest

from eunoe.deploy.exits import Exit
from eunoe.deploy.process import shutdown
from eunoe.deploy.process.shutdown import Shutdown
from eunoe.deploy.process.waits import MOST, waiting_places
from eunoe.schemas.errors import Unavailable


async def _inner(secret: str, go: asyncio.Event) -> None:
    del secret
    await go.wait()


async def _outer(go: asyncio.Event) -> None:
    await _inner("what Ann said", go)


async def test_a_task_is_named_with_the_place_where_it_waits() -> None:
    go = asyncio.Event()
    task = asyncio.create_task(_outer(go))
    await asyncio.sleep(0)
    (line,) = waiting_places([task])
    assert line.startswith("_outer waits in Event.wait (locks.py:")
    assert "Ann" not in line
    go.set()
    await task
    assert waiting_places([task]) == []


async def test_the_first_of_many_are_named_and_the_others_counted() -> None:
    go = asyncio.Event()
    tasks = [asyncio.create_task(_outer(go)) for _ in range(MOST + 3)]
    await asyncio.sleep(0)
    found = waiting_places(tasks)
    assert len(found) == MOST + 1
    assert found[-1] == "and 3 more"
    go.set()
    await asyncio.gather(*tasks)


async def test_the_deadline_ends_a_process_whose_tasks_cannot_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    ended = asyncio.get_running_loop().create_future()
    loop = asyncio.get_running_loop()

    def fails(_tasks: object) -> list[str]:
        raise RuntimeError("Set changed size during iteration")

    monkeypatch.setattr(shutdown, "waiting_places", fails)
    monkeypatch.setattr(shutdown, "_exit", lambda code, _why: loop.call_soon_threadsafe(ended.set_result, code))
    Shutdown(0.01).begin()
    assert await asyncio.wait_for(ended, 10) is Exit.OVERDUE


@pytest.mark.parametrize(
    ("fault", "named"),
    [
        (Unavailable("no answer from Kafka at kafka:9092"), "no answer from Kafka at kafka:9092"),
        (RuntimeError("it quotes what somebody said"), "RuntimeError"),
    ],
)
async def test_a_deadline_after_a_failure_names_it_as_nobody_else_will(
    monkeypatch: pytest.MonkeyPatch, fault: Exception, named: str
) -> None:
    ended = asyncio.get_running_loop().create_future()
    loop = asyncio.get_running_loop()
    monkeypatch.setattr(shutdown, "_exit", lambda code, why: loop.call_soon_threadsafe(ended.set_result, (code, why)))
    Shutdown(0.01).begin(Exit.SOFTWARE, fault)
    code, why = await asyncio.wait_for(ended, 10)
    assert code is Exit.SOFTWARE
    assert why.startswith(f"not stopped within 0 s after {named}: ending now")
