"""The records that a dispatcher has taken: one by one while they wait, in batches while their handler runs."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from time import perf_counter

from eunoe.streams.group.fair_queues import OrderingKey
from eunoe.streams.group.limits import KEY_BYTES, size_of
from eunoe.streams.group.partition import PartitionState
from eunoe.streams.record import Record


@dataclass(frozen=True, slots=True)
class Job:
    """A record that was taken."""

    record: Record
    ordering_key: OrderingKey
    state: PartitionState
    urgent: bool
    """Whether somebody waits for it."""
    shares_key: bool
    """Whether the bytes of its key are those of another waiting record."""
    taken: float = field(default_factory=perf_counter)

    @property
    def size(self) -> int:
        """The bytes that it holds."""
        return size_of(self.record) + (0 if self.shares_key else KEY_BYTES)


def ordering_key_of(record: Record) -> OrderingKey:
    """The key of a record, over all topics; for a record without a key its partition."""
    return record.key if record.key is not None else (record.topic, record.partition)


Batch = tuple[Job, ...]
"""Consecutive jobs of one key."""


def place_of(batch: Batch) -> str:
    """The place of a batch in the log, in words."""
    first, last = batch[0].record, batch[-1].record
    more = f" to {last.offset}" if last is not first else ""
    return f"{first.place}{more}"


class InWork:
    """The batches whose handlers run, and their sums."""

    def __init__(self) -> None:
        self.records = 0
        """Number of records."""
        self.bytes = 0
        """Their bytes."""
        self.urgent = 0
        """Number of those for which somebody waits."""
        self.waited_s = 0.0
        """Seconds that all records together have waited for their handler, also those that are done."""
        self._running: dict[asyncio.Task[None], Batch] = {}

    @property
    def keys(self) -> int:
        """Number of batches, each of another key."""
        return len(self._running)

    @property
    def running(self) -> Mapping[asyncio.Task[None], Batch]:
        """The batches by task, as of now."""
        return dict(self._running)

    def begin(self, task: "asyncio.Task[None]", batch: Batch) -> None:
        """Count a batch until the end of the task that handles it."""
        self._running[task] = batch
        self._count(batch, 1)
        now = perf_counter()
        self.waited_s += sum(now - job.taken for job in batch)

    def end(self, task: "asyncio.Task[None] | None") -> None:
        """Count the batch of a task no more."""
        batch = self._running.pop(task, None) if task is not None else None
        if batch is not None:
            self._count(batch, -1)

    def _count(self, batch: Batch, sign: int) -> None:
        self.records += sign * len(batch)
        self.bytes += sign * sum(job.size for job in batch)
        self.urgent += sign * sum(job.urgent for job in batch)
