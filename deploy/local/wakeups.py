"""Wakes idle consumers in other processes when the embedded broker takes records: a message through Valkey.

A wakeup is a hint and may be lost; consumers poll in any case.
"""

import asyncio
from collections.abc import Callable
from time import monotonic
from typing import Final

from redis.asyncio import Redis
from redis.exceptions import RedisError

from eunoe.workers.stores.redis.connection import is_closed

CHANNEL: Final = "eunoe:records"
EVERY_S: Final = 5.0
"""Least time between two wakeups; a consumer that was woken is not idle for twice as long."""
_RETRY_S: Final = 1.0


class Wakeups:
    """Sends wakeups, to callbacks of this process and through Valkey to others."""

    def __init__(self, redis_url: str) -> None:
        self._redis: Redis = Redis.from_url(redis_url)
        self._listeners: list[Callable[[], None]] = []
        self._sent_at = float("-inf")
        self._sending: set[asyncio.Task[None]] = set()

    def listen(self, notify: Callable[[], None]) -> None:
        """Call ``notify`` at each wakeup."""
        self._listeners.append(notify)

    def send(self) -> None:
        """Wake all consumers, at most once in `EVERY_S`."""
        now = monotonic()
        if now - self._sent_at < EVERY_S:
            return
        self._sent_at = now
        for notify in self._listeners:
            notify()
        if not self._sending:
            task = asyncio.create_task(self._publish())
            self._sending.add(task)
            task.add_done_callback(self._sending.discard)

    async def close(self) -> None:
        """Disconnect."""
        for task in tuple(self._sending):
            task.cancel()
        await asyncio.gather(*self._sending, return_exceptions=True)
        await self._redis.aclose()

    async def _publish(self) -> None:
        try:
            await self._redis.publish(CHANNEL, b"")
        except (RedisError, OSError, RuntimeError) as fault:
            self._sent_at = float("-inf")  # the next report tries again
            _let_pass_lost_connection(fault)


async def receive_wakeups(redis_url: str, notify: Callable[[], None]) -> None:
    """Call ``notify`` at each wakeup, and once after each connection; never returns."""
    async with Redis.from_url(redis_url) as redis:
        while True:
            try:
                async with redis.pubsub() as messages:
                    await messages.subscribe(CHANNEL)
                    async for _ in messages.listen():  # the first one confirms the subscription
                        notify()
            except (RedisError, OSError, RuntimeError) as fault:
                _let_pass_lost_connection(fault)
                await asyncio.sleep(_RETRY_S)


def _let_pass_lost_connection(fault: Exception) -> None:
    """Raise a ``RuntimeError`` again, unless uvloop raised it for a connection that closed."""
    if isinstance(fault, RuntimeError) and not is_closed(fault):
        raise fault
