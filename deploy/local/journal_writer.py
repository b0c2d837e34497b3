"""Copies the records of ``conversations`` into the journal."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial

from aiokafka import AIOKafkaConsumer, ConsumerRecord, TopicPartition

from eunoe.deploy.local.journal import Journal, JournalEntry, entry_of
from eunoe.deploy.local.journal_sealing import seal_entry
from eunoe.schemas.errors import Unavailable
from eunoe.schemas.keys import KeyStore
from eunoe.streams.broker_adapter import ConsumerLoad, Notify
from eunoe.streams.cancelling import cancelled, first_ended
from eunoe.streams.plain_consumer import as_record, broker_faults, end_offsets, open_adapted_consumer, open_consumer
from eunoe.streams.reader import partitions_of
from eunoe.streams.settings import KafkaSettings
from eunoe.streams.topics import Topic, TopicNames

logger = logging.getLogger(__name__)

_POLL_MS = 1_000
_LAST_POLL_MS = 50
_DRAIN_POLL_SECONDS = 0.05
_FINISH_SECONDS = 10.0
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.5, 4.0
_TOLD_AGAIN_SECONDS = 10.0
_IN_MEMORY = "what clients produce is in memory alone"
_NOT_ON_DISK = "a power failure would lose what clients produced"


class JournalWriter:
    """A task that copies records into the journal, in the process that owns the stack.

    It reads every partition from the start of this broker, without a group. A record reaches the journal some tens of
    milliseconds after its acknowledgement; a kill in between loses it. Where the disk or the key store takes no entry,
    it tries again for `patience_s` seconds: to end would lose what only the broker's memory has.
    """

    patience_s = 600.0
    """Seconds for which disk or key store may refuse an entry before that ends the task."""

    def __init__(
        self, journal: Journal, kafka: KafkaSettings, names: TopicNames, epoch: int, keys: KeyStore | None = None
    ) -> None:
        """``keys``: the data keys that lines are sealed with; `None`: they are plain."""
        self._journal = journal
        self._kafka = kafka
        self._names = names
        self._epoch = epoch
        self._keys = keys
        self._task: asyncio.Task[None] | None = None
        self._syncing: asyncio.Task[None] | None = None
        self._started: asyncio.Future[None] | None = None
        self._partitions: list[TopicPartition] = []
        self._next: dict[TopicPartition, int] = {}
        self._notify: Notify | None = None
        self._ending = False
        self._refusals: set[str] = set()
        self._taken = asyncio.Event()
        self.written = 0
        """Number of entries written since the start."""

    async def start(self) -> None:
        """Connect and begin; raises `Unavailable` when no broker answers, `Refused` for a missing topic."""
        self._started = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._follow(self._started))
        await asyncio.wait({self._task, self._started}, return_when=asyncio.FIRST_COMPLETED)
        if self._task.done():
            self._task.result()

    def notify(self) -> None:
        """Report that the broker took records."""
        if self._notify is not None:
            self._notify()

    async def failed(self) -> None:
        """Wait for the fault that ends the task and raise it: `Unavailable` of the broker, ``OSError`` of the disk."""
        if self._task is not None:
            await asyncio.shield(self._task)

    async def drain(self, timeout_s: float = 30.0) -> None:
        """Wait until all records that the topic holds now are in the journal and on disk.

        Raises `Unavailable` after ``timeout_s`` seconds, or the fault that `failed` raises.
        """
        ends = await self._ends()
        try:
            async with asyncio.timeout(timeout_s):
                while any(self._next.get(partition, 0) < end for partition, end in ends.items()):
                    if self._task is None or self._task.done():
                        await self.failed()
                        raise Unavailable("journal writer not running; start it first")
                    await asyncio.sleep(_DRAIN_POLL_SECONDS)
        except TimeoutError:
            raise Unavailable(f"journal not complete after {timeout_s:.0f} s") from None
        if self._syncing is not None:
            await self._syncing
        await self._journal.sync()

    async def outlast(self) -> None:
        """Wait until all is written that the topic holds now, also where disk or key store take no entry for a while.

        For the stop: after it nobody else has these records. It raises nothing, and logs what is lost.
        """
        with suppress(Unavailable, OSError):
            await self.drain(_FINISH_SECONDS)
        if not self._refusals:
            return
        logger.warning(
            "the stop waits for the journal, for %.0f s at most: make room; a kill loses what it lacks", self.patience_s
        )
        try:
            await first_ended(self._taken.wait(), self.failed())
            await self.drain()
        except (Unavailable, OSError) as fault:
            logger.error("the last of what clients produced is lost: %s", fault)  # noqa: TRY400 - for people

    async def finish(self) -> None:
        """Write what was fetched, once the broker has ended, and end the task; leave the journal open."""
        self._ending = True
        if self._task is not None:
            _, writing = await asyncio.wait({self._task}, timeout=_FINISH_SECONDS)
            if writing:
                logger.error("the journal was not complete in time: the last of what clients produced is lost")
        with suppress(Unavailable):  # of the broker
            await self.stop()

    async def stop(self) -> None:
        """End the task; leave the journal open."""
        if self._task is not None:
            await cancelled(self._task)
        if self._syncing is not None:
            with suppress(OSError):  # closing the journal tries again
                await cancelled(self._syncing)

    async def _follow(self, started: asyncio.Future[None]) -> None:
        (count,) = await partitions_of(self._kafka, self._names, [Topic.CONVERSATIONS])
        name = self._names.name(Topic.CONVERSATIONS)
        self._partitions = [TopicPartition(name, number) for number in range(count)]
        async with open_adapted_consumer(self._kafka, ConsumerLoad()) as (consumer, self._notify):
            consumer.assign(self._partitions)
            with broker_faults(self._kafka):
                await consumer.seek_to_beginning(*self._partitions)
            started.set_result(None)
            while await self._step(consumer) or not self._ending:
                pass

    async def _step(self, consumer: AIOKafkaConsumer) -> bool:
        """Write what has come; returns whether anything has."""
        poll_ms = _LAST_POLL_MS if self._ending else _POLL_MS
        with broker_faults(self._kafka):
            batches: Mapping[TopicPartition, Sequence[ConsumerRecord]] = await consumer.getmany(timeout_ms=poll_ms)
        for partition, found in batches.items():
            records = [as_record(Topic.CONVERSATIONS, one) for one in found]
            entries = [entry for record in records if (entry := entry_of(record, self._epoch)) is not None]
            await self.write(partition.partition, entries)
            if records:
                self._next[partition] = records[-1].offset + 1
        self.sync_beside()
        return bool(batches)

    def sync_beside(self) -> None:
        """Have lines that have waited for it written to disk, while others are appended.

        Raises the ``OSError`` of the disk that the last time has ended with, after `patience_s` seconds.
        """
        if self._syncing is not None and self._syncing.done():
            self._syncing.result()
            self._syncing = None
        if self._syncing is None and self._journal.sync_is_due:
            self._syncing = asyncio.create_task(self._until_taken(self._journal.sync, _NOT_ON_DISK))

    async def write(self, partition: int, entries: Sequence[JournalEntry]) -> None:
        """Append entries to the journal, sealed where there are keys, as soon as disk and key store take them.

        Raises `Unavailable` of the key store, ``OSError`` of the disk, after `patience_s` seconds.
        """
        await self._until_taken(partial(self._append, partition, entries), _IN_MEMORY)

    async def _until_taken(self, work: Callable[[], Awaitable[None]], risk: str) -> None:
        """Repeat the work until disk and key store take it; tell of it at growing intervals, and of its end."""
        begun, pause, told_at = time.monotonic(), _FIRST_PAUSE_SECONDS, 0.0
        while True:
            try:
                await work()
            except (Unavailable, OSError) as fault:
                self._refusals.add(risk)
                self._taken.clear()
                waited = time.monotonic() - begun
                if waited >= told_at:
                    logger.warning("the journal waits, for %.0f s so far, and %s: %s", waited, risk, fault)
                    told_at = max(2 * waited, _TOLD_AGAIN_SECONDS)
                if waited >= self.patience_s:
                    raise
            else:
                if risk in self._refusals:
                    logger.warning("the journal goes on after %.0f s", time.monotonic() - begun)
                self._refusals.discard(risk)
                if not self._refusals:
                    self._taken.set()
                return
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)

    async def _append(self, partition: int, entries: Sequence[JournalEntry]) -> None:
        sealed = entries if self._keys is None else [await seal_entry(entry, self._keys) for entry in entries]
        self._journal.append(partition, sealed)
        self.written += len(sealed)

    async def _ends(self) -> dict[TopicPartition, int]:
        if not self._partitions:
            return {}
        async with open_consumer(self._kafka) as consumer:
            return await end_offsets(self._kafka, consumer, self._partitions)
