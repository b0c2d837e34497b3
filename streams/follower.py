"""Follows partitions from their ends with one consumer, for readers that come and go."""

import asyncio
import logging
from collections.abc import Callable, Iterable
from contextlib import AsyncExitStack

from aiokafka import AIOKafkaConsumer, ConsumerRecord, TopicPartition

from eunoe.schemas.errors import Unavailable
from eunoe.streams.access import why_denied
from eunoe.streams.broker_adapter import ConsumerLoad, Notify
from eunoe.streams.cancelling import cancelled
from eunoe.streams.plain_consumer import end_offsets, open_adapted_consumer, open_consumer
from eunoe.streams.settings import KafkaSettings

log = logging.getLogger(__name__)

_POLL_MS = 60_000
_PAUSE_S = 1.0


class Follower:
    """Reads each partition from its end at the first call of `follow`, as a member of no group."""

    def __init__(
        self,
        kafka: KafkaSettings,
        take: Callable[[ConsumerRecord], None],
        fail: Callable[[str], None],
        is_awaited: Callable[[], bool] = lambda: True,
        *,
        rests_awaited: bool = False,
    ) -> None:
        """``take`` gets each record; ``fail`` gets the reason why reading failed, which then goes on.

        ``is_awaited`` says whether somebody waits for a record now. While nobody does, polls become rarer until one
        comes. With ``rests_awaited`` they do so even while somebody waits; then `notify` must report new records.
        """
        self._kafka = kafka
        self._take = take
        self._fail = fail
        self._load = ConsumerLoad(is_awaited=is_awaited, may_rest=lambda: rests_awaited or not is_awaited())
        self._notify: Notify | None = None
        self.next: dict[TopicPartition, int] = {}
        """Partition → the offset of the next record that ``take`` gets."""
        self._resources = AsyncExitStack()
        self._consumer: AIOKafkaConsumer | None = None
        self._lock = asyncio.Lock()
        self._is_stopped = False

    async def stop(self) -> None:
        """Disconnect, for good: a call of `follow` that is under way raises `Unavailable`."""
        self._is_stopped = True
        self._consumer = None
        await self._resources.aclose()

    def notify(self) -> None:
        """Report that there may be new records."""
        if self._notify is not None:
            self._notify()

    async def follow(self, partitions: Iterable[TopicPartition]) -> None:
        """Read partitions from their present ends, unless they are read already; raises `Unavailable`."""
        async with self._lock:
            new = [partition for partition in partitions if partition not in self.next]
            if not new:
                self.notify()
                return
            consumer = self._consumer or await self._connect()
            async with open_consumer(self._kafka, brief=True) as scout:
                ends = await end_offsets(self._kafka, scout, new)
            self._check_open()
            self.next |= ends
            # an assignment replaces the one before and all its positions; nothing is awaited in between
            consumer.assign(list(self.next))
            for followed, offset in self.next.items():
                consumer.seek(followed, offset)

    async def _connect(self) -> AIOKafkaConsumer:
        async with AsyncExitStack() as opening:
            connected = open_adapted_consumer(self._kafka, self._load)
            consumer, self._notify = await opening.enter_async_context(connected)
            self._check_open()  # what is connected after `stop` nobody else would close
            opening.push_async_callback(cancelled, asyncio.create_task(self._read(consumer)))
            self._resources.push_async_exit(opening.pop_all())
        self._consumer = consumer
        return consumer

    def _check_open(self) -> None:
        """Raise `Unavailable` after `stop`."""
        if self._is_stopped:
            raise Unavailable(f"{self._kafka.server}: the connection was closed", self._kafka.server)

    async def _read(self, consumer: AIOKafkaConsumer) -> None:
        while True:
            try:
                batches = await consumer.getmany(timeout_ms=_POLL_MS)
            except Exception as fault:
                denied = why_denied(self._kafka, fault)
                if denied is None:
                    log.exception("reading failed: %s", ", ".join({each.topic for each in self.next}))
                self._fail(f"reading failed: {denied or fault}")
                await asyncio.sleep(_PAUSE_S)
                continue
            for partition, batch in batches.items():
                self.next[partition] = batch[-1].offset + 1
                for found in batch:
                    self._take(found)
