"""The log, copied into one with another number of partitions while clients go on producing.

Up to the control record that hands the asks over (`LogMove.seen` tells whether every partition has it), records are
copied with their first place; behind it they are forwarded as new ones. What is there already is read back first, and
is the only memory of an attempt that was stopped.
"""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Protocol

from eunoe.deploy.progress import ReportCount
from eunoe.deploy.repartition.records import begins, belongs, copied, forwarded, source_of
from eunoe.schemas.errors import Refused
from eunoe.schemas.events import DeadLetterReason, GenerationPromoted
from eunoe.schemas.versions import ContractError
from eunoe.streams.codec import encode
from eunoe.streams.dead_letters import dead_letter
from eunoe.streams.publisher import size_of
from eunoe.streams.record import Message, Publisher, Record
from eunoe.streams.topics import TOPICS, Topic

_BATCH_RECORDS = 500
_BATCH_BYTES = 4 * 1024 * 1024

Make = Callable[[Record, int, int, int], Message]
"""From a record, the epoch and number of its log, and the partitions of the other one."""


class ReadLog(Protocol):
    """The records that a log holds now, partition after partition."""

    def __call__(self, begin: Mapping[int, int]) -> AsyncIterator[Record]:
        """From these offsets on; a partition that is not named from its first record."""
        ...


@dataclass(frozen=True, slots=True)
class LogEnd:
    """One of the two logs."""

    log: int
    partitions: int
    read: ReadLog
    publisher: Publisher


@dataclass(slots=True)
class LogMove:
    """From one log into another. Call `look` first, and again before each step of a second attempt."""

    source: LogEnd
    target: LogEnd
    epoch: int
    """In which the source is read."""
    generation: str
    """Who shall answer, from the target."""
    nonce: str
    """The word by which intake believes the promotion."""
    report: ReportCount = lambda _taken: None
    """Called with the number of records taken, those of earlier attempts included."""
    taken: int = 0
    left_out: int = 0
    """Records that intake set aside as they came: they are among the dead letters."""
    _there: dict[tuple[int, int], int] = field(default_factory=dict)
    """(source's partition, target's partition) → the offset in the source of the last record that was taken."""
    _looked: dict[int, int] = field(default_factory=dict)
    _opened: set[int] = field(default_factory=set)
    _handed: dict[int, int] = field(default_factory=dict)
    """Source's partition → the offset of the control record that hands the asks over."""
    _next: dict[int, int] = field(default_factory=dict)
    _batch: list[Message] = field(default_factory=list)
    _bytes: int = 0

    @property
    def next_offsets(self) -> dict[int, int]:
        """Source's partition → the first offset that was not taken."""
        return {partition: self._next.get(partition, 0) for partition in range(self.source.partitions)}

    @property
    def seen(self) -> bool:
        """True: every partition of the source is copied up to the control record."""
        return len(self._handed) == self.source.partitions

    async def look(self, *, strict: bool = True) -> None:
        """Read what the target holds.

        ``strict``: raises `Refused` where somebody produced into it before it was ready.
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
                    f"somebody produced into log {self.target.log} before it was ready (partition {record.partition},"
                    f" offset {record.offset}): their order is lost. Let clients go on with the present log, run"
                    f" `eunoe drop {self.generation}`, and begin again"
                )

    async def copy(self) -> int:
        """Copy what is before the control records, or before the ends; returns how many records were written."""
        return await self._take(copied, lambda partition: partition not in self._handed)

    async def forward(self) -> int:
        """Forward what is behind the control records now. Call it when the target is open."""
        return await self._take(forwarded, lambda partition: partition in self._handed)

    async def hand_over(self) -> None:
        """Let the new generation answer what comes from here on, in every partition of the source."""
        await self._promote(self.source, [one for one in range(self.source.partitions) if one not in self._handed])

    async def open(self) -> None:
        """Let the new generation answer in the target, behind all copies; harmless when it does already."""
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
        """None for what intake did not take."""
        if record.key is None:
            return None
        with suppress(ContractError):
            if belongs(record, self.source.partitions):
                return make(record, self.epoch, self.source.log, self.target.partitions)
        self.left_out += 1
        return None

    async def _add(self, record: Record, message: Message) -> None:
        assert message.partition is not None
        if self._there.get((record.partition, message.partition), -1) >= record.offset:
            return
        self._note(record.partition, record.offset, message.partition)
        if size_of(message) > TOPICS[Topic.CONVERSATIONS].max_bytes:
            why = "with the headers that tell its first place it is over the topic's limit, so it was not copied"
            message = dead_letter(record, "intake", DeadLetterReason.TOO_LONG, why)
        self._batch.append(message)
        self._bytes += len(message.value)
        if len(self._batch) >= _BATCH_RECORDS or self._bytes >= _BATCH_BYTES:
            await self._send()

    async def _send(self) -> None:
        batch, self._batch, self._bytes = self._batch, [], 0
        if batch:
            await self.target.publisher.publish(batch)
        self.report(self.taken)

    def _note(self, partition: int, offset: int, target: int) -> None:
        """A record is in the target; one that was noted is not counted twice."""
        place = partition, target
        if offset > self._there.get(place, -1):
            self._there[place] = offset
            self.taken += 1
