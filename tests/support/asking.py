"""A client that asks one conversation all the time, one question after the other."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial

import httpx

from eunoe.streams.client import MemoryClient
from tests.support.command import until
from tests.support.pipeline import Pipeline


@dataclass
class Asking:
    """What was answered so far: the ids of the requests."""

    answered: list[str] = field(default_factory=list)

    async def more(self, count: int, timeout_s: float = 120.0, after: str = "") -> None:
        """Wait until so many more are answered; a failure names what came before."""
        wanted = len(self.answered) + count

        async def there() -> bool:
            return len(self.answered) >= wanted

        await until(there, timeout_s, lambda: f"after {after}: {len(self.answered)} of {wanted} answered")


@asynccontextmanager
async def asked_all_the_time(pipeline: Pipeline, name: str, question: str, speaker: str) -> AsyncIterator[Asking]:
    """The client asks while the block runs; an ask that fails, or waits for ninety seconds, is raised at its end."""
    settings = pipeline.settings
    async with MemoryClient(settings.kafka_settings, conversation_id=name, names=settings.names) as client:

        async def ask() -> str:
            return (await client.ask(question, speaker=speaker, record=False, timeout=90.0)).request_id

        async with _repeated(ask) as asking:
            yield asking


@asynccontextmanager
async def asked_over_http(
    client: httpx.AsyncClient, names: Iterable[str], question: str, speaker: str
) -> AsyncIterator[Asking]:
    """As `asked_all_the_time`, in several conversations by plain requests: none may need a second one."""

    async def ask(name: str) -> str:
        body = {"text": question, "speaker": speaker, "record": False}
        answer = await client.post(f"/v1/conversations/{name}/asks", json=body, timeout=90.0)
        assert answer.status_code == 200, answer.text
        return str(answer.json()["request_id"])

    async with _repeated(*(partial(ask, name) for name in names)) as asking:
        yield asking


@asynccontextmanager
async def _repeated(*asks: Callable[[], Awaitable[str]]) -> AsyncIterator[Asking]:
    asking = Asking()

    async def ask_again_and_again(ask: Callable[[], Awaitable[str]]) -> None:
        while True:
            asking.answered.append(await ask())

    tasks = [asyncio.create_task(ask_again_and_again(ask)) for ask in asks]
    try:
        yield asking
        for task in tasks:
            if task.done():
                task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
