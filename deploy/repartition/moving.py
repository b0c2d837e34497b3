"""Copies the log into one with another number of partitions while clients keep producing.

Each partition of the source gets a control record that hands its asks over to the new generation; `LogMove.seen` is
whether all have it. Records before it are copied with their original position, records after it are forwarded as new
ones. The progress of an interrupted attempt is stored nowhere else: `LogMove.look` reads it back from the target.
"""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Protocol

from eunoe.deploy.progress import ReportCount
from eunoe.deploy.repartition.records import begins, belongs, copied, forwarded, sealed_copy, source_of
from eunoe.schemas.erasure import ErasedPart
from eunoe.schemas.errors import Refused
from eunoe.schemas.records import DeadLetterReason, GenerationPromoted
from eunoe.schemas.versions import ContractError
from eunoe.streams.codec import encode
from eunoe.streams.dead_letters import dead_letter
from eunoe.streams.position import POSITION_HEADER
from eunoe.streams.publisher import size_of
from eunoe.streams.record import Message, Publisher, Record
from eunoe.streams.topics import TOPICS, Topic
from eunoe.workers.derive.erased import is_erased

_BATCH_RECORDS = 500
_BATCH_BYTES = 4 * 1024 * 1024

Make = Callable[[Record, int, int, int], Message]
"""Makes the message for the target from a record, the epoch and the number of its log, and the target's partitions."""


class ReadLog(Protocol):
    """Reads the records that a log holds now, partition after partition."""

    def __call__(self, begin: Mapping[int, int]) -> AsyncIterator[Record]:
        """The records from these offsets on; from the first one for a partition that is not given."""
        ...


@dataclass(frozen=True, slots=True)
class LogEnd:
    """The source or the target log."""

    log: int
    partitions: int
    read: ReadLog
    publisher: Publisher
    is_sealed: bool = False
    """Whether a copy goes into topic `log`, too: intake of the generation that reads the target begins behind it."""


@dataclass(slots=True)
class LogMove:
    """Moves records from one log into another. Call `look` first, and again before each step of a second attempt."""

    source: LogEnd
    target: LogEnd
    epoch: int
    """Epoch of the source's positions."""
    generation: str
    """The generation that reads the target and will answer."""
    nonce: str
    """Nonce by which intake recognizes the control record as authorized."""
    erased: Mapping[str, ErasedPart] = field(default_factory=dict)
    """Key → what is erased of the conversation: of such a record only the place is copied."""
    report: ReportCount = lambda _taken: None
    """Called with the number of records taken, those of earlier attempts included."""
    taken: int = 0
    left_out: int = 0
    """Records that were not taken because intake has dead-lettered them."""
    _there: dict[tuple[int, int], int] = field(default_factory=dict)
    """(partition of the source, partition of the target) → source offset of the last record taken."""
    _looked: dict[int, int] = field(default_factory=dict)
    _opened: set[int] = field(default_factory=set)
    _handed: dict[int, int] = field(default_factory=dict)
    """Partition of the source → offset of its control record."""
    _next: dict[int, int] = field(default_factory=dict)
    _batch: list[Message] = field(default_factory=list)
    _bytes: int = 0

    @property
    def next_offsets(self) -> dict[int, int]:
        """Partition of the source → the first offset not taken yet."""
        return {partition: self._next.get(partition, 0) for partition in range(self.source.partitions)}

    @property
    def seen(self) -> bool:
        """Whether every partition of the source is copied up to its control record."""
        return len(self._handed) == self.source.partitions

    async def look(self, *, strict: bool = True) -> None:
        """Read back the progress of earlier attempts from the target.

        With ``strict``, raises `Refused` where a client produced into the target before it was ready.
        """
        async for record in self.target.read(self._looked):
            self._looked[record.partition] = record.offset + 1
            source = source_of(record, self.source.log)
            if source is not None:
                self._note(*source, record.partition)
            elif begins(record, self.generation, self.target.log):
                self._opened.add(record.partition)
            elif strict and record.partition not in self._opened:
                raise Refused(
                    f"a client produced into log {self.target.log} before it was ready (partition {record.partition},"
                    f" offset {record.offset}), so the order of records is lost. Point clients at the present log, run"
                    f" `eunoe drop {self.generation}`, and start again"
                )

    async def copy(self) -> int:
        """Copy the records before the control records, or up to the ends; returns the number of records written."""
        return await self._take(copied, lambda partition: partition not in self._handed)

    async def forward(self) -> int:
        """Forward the records that now follow the control records; call it when the target is open."""
        return await self._take(forwarded, lambda partition: partition in self._handed)

    async def hand_over(self) -> None:
        """Publish the control record into every partition of the source: the new generation answers from there on."""
        await self._promote(self.source, [one for one in range(self.source.partitions) if one not in self._handed])

    async def open(self) -> None:
        """Publish the control record behind the copies in every partition of the target; idempotent."""
        await self.look(strict=False)
        await self._promote(self.target, [one for one in range(self.target.partitions) if one not in self._opened])

    async def _promote(self, side: LogEnd, partitions: list[int]) -> None:
        event = GenerationPromoted(
            generation=self.generation, at=datetime.now(UTC), nonce=self.nonce, log=self.target.log
        )
        messages = [Message(Topic.CONVERSATIONS, None, encode(event), partition=partition) for partition in partitions]
        if messages:
            await side.publisher.publish(messages)

    async def _take(self, make: Make, wanted: Callable[[int], bool]) -> int:
        before = self.taken
        async for record in self.source.read(self._next):
            if not wanted(record.partition):
                continue
            self._next[record.partition] = record.offset + 1
            if begins(record, self.generation, self.target.log):
                self._handed.setdefault(record.partition, record.offset)
            elif message := self._made(record, make):
                await self._add(record, message)
        await self._send()
        return self.taken - before

    def _made(self, record: Record, make: Make) -> Message | None:
        """The message for the target; `None` for a control record and for one that intake dead-lettered."""
        if record.key is None:
            return None
        with suppress(ContractError):
            if belongs(record, self.source.partitions):
                return make(self._without_erased(record), self.epoch, self.source.log, self.target.partitions)
        self.left_out += 1
        return None

    def _without_erased(self, record: Record) -> Record:
        part = self.erased.get((record.key or b"").decode(errors="replace")) if self.erased else None
        return replace(record, value=b"") if is_erased(record, part, self.epoch) else record

    async def _add(self, record: Record, message: Message) -> None:
        assert message.partition is not None
        if self._there.get((record.partition, message.partition), -1) >= record.offset:
            return
        self._note(record.partition, record.offset, message.partition)
        if size_of(message) > TOPICS[Topic.CONVERSATIONS].max_bytes:
            why = "not copied: with the headers of its original position it exceeds the topic's size limit"
            message = dead_letter(record, "intake", DeadLetterReason.TOO_LONG, why)
        self._batch.append(message)
        self._bytes += len(message.value)
        if len(self._batch) >= _BATCH_RECORDS or self._bytes >= _BATCH_BYTES:
            await self._send()

    async def _send(self) -> None:
        batch, self._batch, self._bytes = self._batch, [], 0
        sealed = [sealed_copy(one) for one in batch if one.value and POSITION_HEADER in dict(one.headers)]
        if self.target.is_sealed and sealed:  # first: what stands in the target is not copied again
            await self.target.publisher.publish(sealed)
        if batch:
            await self.target.publisher.publish(batch)
        self.report(self.taken)

    def _note(self, partition: int, offset: int, target: int) -> None:
        """Note that a record is in the target; counts it at the first call only."""
        place = partition, target
        if offset > self._there.get(place, -1):
            self._there[place] = offset
            self.taken += 1
