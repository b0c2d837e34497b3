"""A client that asks one conversation all the time, one question after the other."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

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
    asking, settings = Asking(), pipeline.settings

    async def ask() -> None:
        async with MemoryClient(settings.kafka_settings, conversation_id=name, names=settings.names) as client:
            while True:
                reply = await client.ask(question, speaker=speaker, record=False, timeout=90.0)
                asking.answered.append(reply.request_id)

    task = asyncio.create_task(ask())
    try:
        yield asking
        if task.done():
            task.result()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
