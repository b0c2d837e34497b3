import asyncio
import threading

import pytest

from eunoe.workers.models.local.batching import Batcher


class Worker:
    """Upper-cases texts, one batch at a time, when it is let."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []
        self.go = threading.Event()
        self.threads: set[str] = set()

    def __call__(self, texts: list[str]) -> list[str]:
        assert self.go.wait(10)
        self.batches.append(texts)
        self.threads.add(threading.current_thread().name)
        if "bad" in texts:
            raise ValueError("a bad text")
        return [text.upper() for text in texts]


async def test_requests_that_come_while_a_batch_runs_are_joined():
    worker = Worker()
    batcher = Batcher(worker, "test", max_texts=4)
    tasks = [asyncio.create_task(batcher.submit([f"a{n}", f"b{n}"])) for n in range(1)]
    await asyncio.sleep(0)
    tasks += [asyncio.create_task(batcher.submit([f"a{n}", f"b{n}"])) for n in range(1, 5)]
    for _ in range(3):
        await asyncio.sleep(0)
    worker.go.set()
    assert await asyncio.gather(*tasks) == [[f"A{n}", f"B{n}"] for n in range(5)]
    assert max(map(len, worker.batches)) == 4, "joined, up to the bound"
    assert len(worker.batches) <= 4
    assert len(worker.threads) == 1
    assert threading.current_thread().name not in worker.threads
    await batcher.aclose()


async def test_a_request_larger_than_a_batch_is_still_served():
    worker = Worker()
    worker.go.set()
    batcher = Batcher(worker, "test", max_texts=2)
    assert await batcher.submit(list("abcde")) == list("ABCDE")
    assert await batcher.submit([]) == []
    await batcher.aclose()


async def test_a_fault_reaches_its_callers_and_the_next_batch_runs():
    worker = Worker()
    worker.go.set()
    batcher = Batcher(worker, "test")
    with pytest.raises(ValueError, match="a bad text"):
        await batcher.submit(["bad"])
    assert await batcher.submit(["good"]) == ["GOOD"]
    await batcher.aclose()


async def test_a_cancelled_caller_disturbs_nobody():
    worker = Worker()
    batcher = Batcher(worker, "test")
    first = asyncio.create_task(batcher.submit(["a"]))
    second = asyncio.create_task(batcher.submit(["b"]))
    await asyncio.sleep(0)
    first.cancel()
    worker.go.set()
    assert await second == ["B"]
    with pytest.raises(asyncio.CancelledError):
        await first
    await batcher.aclose()
