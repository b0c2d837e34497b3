"""Batches the requests of many callers and runs them off the event loop."""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Request(Generic[T]):
    texts: tuple[str, ...]
    done: asyncio.Future[list[T]]


class Batcher(Generic[T]):
    """Runs a blocking function over texts in its own thread; requests that come meanwhile join the next batch.

    ``run`` returns one result per text; a result must depend on its own text alone.
    """

    def __init__(self, run: Callable[[list[str]], Sequence[T]], name: str, max_texts: int = 1024) -> None:
        self._run = run
        self._max_texts = max_texts
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix=name)
        self._waiting: deque[_Request[T]] = deque()
        self._running: asyncio.Task[None] | None = None

    async def submit(self, texts: Sequence[str]) -> list[T]:
        """Return one result per text, in order; raises whatever ``run`` raises."""
        if not texts:
            return []
        request: _Request[T] = _Request(tuple(texts), asyncio.get_running_loop().create_future())
        self._waiting.append(request)
        if self._running is None or self._running.done():
            self._running = asyncio.create_task(self._work())
        return await request.done

    async def aclose(self) -> None:
        """Finish the pending requests and end the thread."""
        if self._running is not None and not self._running.done():
            await self._running
        self._executor.shutdown(wait=False)

    async def _work(self) -> None:
        loop = asyncio.get_running_loop()
        while self._waiting:
            batch = self._next_batch()
            texts = [text for request in batch for text in request.texts]
            try:
                results = await loop.run_in_executor(self._executor, self._run, texts)
            except Exception as error:
                _fail(batch, error)
            else:
                _deliver(batch, results)

    def _next_batch(self) -> list[_Request[T]]:
        batch = [self._waiting.popleft()]
        size = len(batch[0].texts)
        while self._waiting and size + len(self._waiting[0].texts) <= self._max_texts:
            batch.append(self._waiting.popleft())
            size += len(batch[-1].texts)
        return batch


def _deliver(batch: Sequence[_Request[T]], results: Sequence[T]) -> None:
    start = 0
    for request in batch:
        end = start + len(request.texts)
        if not request.done.done():
            request.done.set_result(list(results[start:end]))
        start = end


def _fail(batch: Sequence[_Request[T]], error: Exception) -> None:
    for request in batch:
        if not request.done.done():
            request.done.set_exception(error)
