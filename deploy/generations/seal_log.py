"""Copies what `conversations` holds from before there was a key store into the sealed log; then it may be let go.

From the last record to the first: of a conversation, `log` has at any time all records from some position on
(`eunoe.streams.sealed.log`). So an interrupted run is continued by another one, and readers see no hole.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, nullcontext
from dataclasses import dataclass, field, replace
from typing import Final, Protocol

from eunoe.deploy.clients.data_keys import STORE, open_data_keys
from eunoe.deploy.clients.erasures import read_erased
from eunoe.deploy.clients.shared import open_publisher
from eunoe.deploy.generations.erase.loop import no_erasure
from eunoe.deploy.progress import ReportProgress
from eunoe.deploy.settings import Settings
from eunoe.schemas.erasure import ErasedPart
from eunoe.schemas.errors import Refused
from eunoe.schemas.keys import Destroyed, KeyStore
from eunoe.schemas.records import GenerationPromoted
from eunoe.schemas.versions import ContractError
from eunoe.streams.admin import check_partitions
from eunoe.streams.codec import decode
from eunoe.streams.reader import read_all, read_range, topic_size
from eunoe.streams.record import Message, Publisher, Record
from eunoe.streams.sealed.log import logged, position_in_log
from eunoe.streams.sealed.records import key_id_of
from eunoe.streams.settings import partition_of
from eunoe.streams.topic_settings import check_alterable, set_retention
from eunoe.streams.topics import Topic
from eunoe.workers.derive.erased import is_erased, renamed

CHUNK: Final = 10_000
"""Records that are read at once."""
_BATCH: Final = 500
_PHASES: Final = ("log", "sealed")


@dataclass(frozen=True, slots=True)
class SealedLog:
    """The result of a run."""

    sealed: int
    """Records copied by this run."""
    topic: str
    hours: float | None
    """Hours for which `conversations` is kept from now on; `None` where the broker knows no retention."""


class ReadTopic(Protocol):
    """Reads what a topic holds now, partition after partition."""

    def __call__(self, topic: Topic) -> AsyncIterator[Record]:
        """The records of a topic."""
        ...


class ReadRange(Protocol):
    """Reads a part of a partition of `conversations`."""

    def __call__(self, partition: int, offsets: tuple[int, int]) -> AsyncIterator[Record]:
        """The records from the first offset up to the second, which is excluded."""
        ...


async def seal_log(settings: Settings, report: ReportProgress) -> SealedLog:
    """Copy what `log` lacks, then give `conversations` its retention.

    The reported phases are ``log`` and ``sealed``. Raises `Refused` without a key store or topic `log`, `Unavailable`.
    """
    kafka, names = settings.kafka_settings, settings.names
    name = names.name(Topic.CONVERSATIONS)
    if names.door_ms is None:
        raise Refused(f"no key store: set {STORE} (deploy/docs/privacy.md)")
    partitions = await check_partitions(kafka, names)
    if not settings.broker.embedded:
        await check_alterable(kafka, name)  # a user who may not is told before hours of copying
    total = await topic_size(kafka, names, Topic.CONVERSATIONS)

    def read_part(partition: int, offsets: tuple[int, int]) -> AsyncIterator[Record]:
        return read_range(kafka, names, Topic.CONVERSATIONS, partition, offsets)

    async with AsyncExitStack() as closing:
        keys = await closing.enter_async_context(open_data_keys(settings))
        assert keys is not None
        sealer = LogSealer(
            read=lambda topic: read_all(kafka, names, topic),
            read_range=read_part,
            publisher=await closing.enter_async_context(open_publisher(settings, keys)),
            keys=keys,
            erased=lambda: read_erased(settings),
            partitions=partitions,
            epoch=settings.log_epoch,
            report=lambda phase, done: report(phase, done, total),
            alone=lambda: no_erasure(settings),
        )
        sealed = await sealer.run()
    if settings.broker.embedded:  # it takes the setting, and removes nothing
        return SealedLog(sealed, name, None)
    await set_retention(kafka, name, names.door_ms)
    return SealedLog(sealed, name, settings.keys.door_hours)


@dataclass(slots=True)
class LogSealer:
    """Copies records into `log`."""

    read: ReadTopic
    read_range: ReadRange
    publisher: Publisher
    keys: KeyStore
    erased: Callable[[], Awaitable[Mapping[str, ErasedPart]]]
    partitions: int
    epoch: int
    report: Callable[[str, int], None] = lambda _phase, _done: None
    alone: Callable[[], AbstractAsyncContextManager[None]] = nullcontext
    """Lets no erasure run while a part is copied: it would not know of copies that come after it."""
    chunk: int = CHUNK
    _first: dict[bytes, int] = field(default_factory=dict)
    """Key → the first position of the conversation in `log`."""
    _last: dict[bytes, int] = field(default_factory=dict)
    """Key → the last position of the conversation in `conversations` so far."""
    _ignored: set[tuple[int, int]] = field(default_factory=set)
    """(partition, offset) of records that intake has ignored: they claim an earlier position than one before them."""
    _bounds: dict[int, tuple[int, int]] = field(default_factory=dict)
    """Partition of `conversations` → its first offset, and the one behind its last."""

    async def run(self) -> int:
        """Copy all that is missing; returns the number of copies."""
        await self._look()
        done = read = 0
        for partition, (begin, end) in sorted(self._bounds.items()):
            for behind in range(end, begin, -self.chunk):
                part = max(begin, behind - self.chunk), behind
                records = [record async for record in self.read_range(partition, part)]
                async with self.alone():
                    done += await self._copy(records)
                read += len(records)
                self.report(_PHASES[1], read)
        return done

    async def _look(self) -> None:
        """Find what `log` has, and what of `conversations` counts."""
        async for record in self.read(Topic.LOG):
            key_id, at = key_id_of(record), position_in_log(record, self.epoch)
            if record.key is None or key_id is None or not at:
                continue
            if not isinstance(await self.keys.get(key_id), Destroyed):
                self._first[record.key] = min(self._first.get(record.key, at), at)
        done = 0
        async for record in self.read(Topic.CONVERSATIONS):
            begin, _ = self._bounds.get(record.partition, (record.offset, 0))
            self._bounds[record.partition] = begin, record.offset + 1
            self._note(record)
            done += 1
            if done % _BATCH == 0:
                self.report(_PHASES[0], done)
        self.report(_PHASES[0], done)

    def _note(self, record: Record) -> None:
        at = position_in_log(record, self.epoch)
        if record.key is None:
            return
        if partition_of(record.key, self.partitions) != record.partition or at <= self._last.get(record.key, 0):
            self._ignored.add((record.partition, record.offset))
        else:
            self._last[record.key] = at

    async def _copy(self, records: list[Record]) -> int:
        erased = await self.erased()  # again for each part: another process may have erased meanwhile
        messages = [message for record in reversed(records) if (message := self._message(record, erased)) is not None]
        for at in range(0, len(messages), _BATCH):
            await self.publisher.publish(messages[at : at + _BATCH])
        return len(messages)

    def _message(self, record: Record, erased: Mapping[str, ErasedPart]) -> Message | None:
        key = record.key
        if key is None:
            return self._control(record)
        if (record.partition, record.offset) in self._ignored:
            return None
        at = position_in_log(record, self.epoch)
        part = erased.get(key.decode(errors="replace"))
        if at >= self._first.get(key, at + 1) or is_erased(record, part, self.epoch):
            return None
        try:
            value = record.value if part is None else renamed(record.value, part)
            return logged(replace(record, value=value), self.epoch)
        except ContractError:  # intake has dead-lettered it
            return None

    def _control(self, record: Record) -> Message | None:
        """A promotion, which is plain; a second copy of it does no harm."""
        try:
            if not isinstance(decode(record.value), GenerationPromoted):
                return None
            return replace(logged(record, self.epoch), partition=record.partition)
        except ContractError:
            return None
