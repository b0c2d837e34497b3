"""Follows ``conversations`` and writes it into the journal."""

import asyncio
import contextlib
import logging
from collections.abc import Mapping, Sequence

from aiokafka import AIOKafkaConsumer, ConsumerRecord, TopicPartition

from eunoe.deploy.local.journal import Journal, entry_of
from eunoe.schemas.errors import Unavailable
from eunoe.streams.plain_consumer import as_record, broker_faults, end_offsets, open_consumer
from eunoe.streams.reader import partitions_of
from eunoe.streams.settings import KafkaSettings
from eunoe.streams.topics import Topic, TopicNames

logger = logging.getLogger(__name__)

_POLL_MS = 200
_DRAIN_POLL_SECONDS = 0.05


class JournalWriter:
    """A task of the process that owns the stack.

    Reads every partition from the beginning of this broker's life and belongs to no group. Between a client's
    acknowledgement and the journal lie some tens of milliseconds: what comes in there is lost with a kill.
    """

    def __init__(self, journal: Journal, kafka: KafkaSettings, names: TopicNames, epoch: int) -> None:
        self._journal = journal
        self._kafka = kafka
        self._names = names
        self._epoch = epoch
        self._task: asyncio.Task[None] | None = None
        self._started: asyncio.Future[None] | None = None
        self._places: list[TopicPartition] = []
        self._next: dict[TopicPartition, int] = {}
        self.written = 0
        """Entries of this run."""

    async def start(self) -> None:
        """Connect and begin; raises `Unavailable` when no broker answers, `Refused` where the topic does not exist."""
        self._started = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._follow(self._started))
        await asyncio.wait({self._task, self._started}, return_when=asyncio.FIRST_COMPLETED)
        if self._task.done():
            self._task.result()

    async def failed(self) -> None:
        """Return only by raising: the broker is gone (`Unavailable`), or the disk takes no more (``OSError``)."""
        if self._task is not None:
            await asyncio.shield(self._task)

    async def drain(self, timeout_s: float = 30.0) -> None:
        """Return when all that the topic holds now is in the journal and on disk.

        Raises `Unavailable` when that does not happen in time, or what `failed` raises.
        """
        ends = await self._ends()
        try:
            async with asyncio.timeout(timeout_s):
                while any(self._next.get(place, 0) < end for place, end in ends.items()):
                    if self._task is None or self._task.done():
                        await self.failed()
                        raise Unavailable("the journal is not being written: start its writer first")
                    await asyncio.sleep(_DRAIN_POLL_SECONDS)
        except TimeoutError:
            raise Unavailable(f"the journal was not complete after {timeout_s:.0f} s") from None
        self._journal.sync()

    async def stop(self) -> None:
        """End the task; the journal stays open."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    async def _follow(self, started: asyncio.Future[None]) -> None:
        (count,) = await partitions_of(self._kafka, self._names, [Topic.CONVERSATIONS])
        name = self._names.name(Topic.CONVERSATIONS)
        self._places = [TopicPartition(name, partition) for partition in range(count)]
        async with open_consumer(self._kafka) as consumer:
            consumer.assign(self._places)
            with broker_faults(self._kafka):
                await consumer.seek_to_beginning(*self._places)
            started.set_result(None)
            while True:
                await self._step(consumer)

    async def _step(self, consumer: AIOKafkaConsumer) -> None:
        with broker_faults(self._kafka):
            batches: Mapping[TopicPartition, Sequence[ConsumerRecord]] = await consumer.getmany(timeout_ms=_POLL_MS)
        for place, found in batches.items():
            records = [as_record(Topic.CONVERSATIONS, one) for one in found]
            entries = [entry for record in records if (entry := entry_of(record, self._epoch)) is not None]
            self._journal.append(place.partition, entries)
            self.written += len(entries)
            if records:
                self._next[place] = records[-1].offset + 1
        if self._journal.sync_is_due:
            self._journal.sync()

    async def _ends(self) -> dict[TopicPartition, int]:
        if not self._places:
            return {}
        async with open_consumer(self._kafka) as consumer:
            return await end_offsets(self._kafka, consumer, self._places)
