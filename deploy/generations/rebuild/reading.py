"""Reads the log into the spool, and reads on where an earlier run was interrupted."""

import hashlib
from collections.abc import Mapping
from contextlib import aclosing
from dataclasses import dataclass, field, replace

import orjson

from eunoe.deploy.generations.rebuild.plan import RebuildPlan
from eunoe.deploy.generations.rebuild.spool import Places, ReadUpTo, Spool, digest_of
from eunoe.deploy.progress import ReportCount
from eunoe.deploy.settings import Settings
from eunoe.schemas.erasure import ErasedPart
from eunoe.schemas.records import GenerationPromoted
from eunoe.schemas.versions import ContractError
from eunoe.streams.admin import check_log_is_open
from eunoe.streams.codec import decode
from eunoe.streams.log_reader import log_topics, read_both
from eunoe.streams.offsets import ends_of
from eunoe.streams.position import record_log_time
from eunoe.streams.reader import partitions_of, read_range
from eunoe.streams.record import Record
from eunoe.streams.sealed.log import position_in_log
from eunoe.streams.settings import partition_of
from eunoe.streams.topics import Topic
from eunoe.workers.derive.erased import is_erased
from eunoe.workers.runner.inbound import Promotion

_BATCH = 2_000
_SURROUNDINGS, _PROMOTIONS = "surroundings", "promotions"


@dataclass(slots=True)
class LogRead:
    """Partitions, end offsets and promotions of the part of the log that was read."""

    partitions: int
    events: int = 0
    """Events in the spool."""
    before: int = 0
    """Records that an earlier run had read."""
    ends: dict[int, int] = field(default_factory=dict)
    """Partition → the offset after its last record read."""
    answering: list[tuple[int, int, str]] = field(default_factory=list)
    """(partition, position, generation that answers the asks behind it, as intake has recorded it)."""
    promotions: list[tuple[int, Promotion]] = field(default_factory=list)
    """(partition, promotion recorded in it)."""


async def read_log(
    settings: Settings, plan: RebuildPlan, spool: Spool, report: ReportCount, erased: Mapping[str, ErasedPart]
) -> LogRead:
    """Fill the spool with the records of the log that the plan includes; ``report`` is called with their number.

    A spool that an earlier run of the same plan has begun is read on, where the log still has the last records that it
    had then, and the same is ``erased`` (by key) as then; else it begins anew. Of what is erased only the place is
    spooled. What `log` has is spooled as it is, sealed.

    Raises `Unavailable` when no broker answers, `Refused` where there is no log, or a sealed one and no key store.
    """
    kafka, names = settings.kafka_settings, settings.names
    (partitions,) = await partitions_of(kafka, names, [Topic.CONVERSATIONS])
    await check_log_is_open(kafka, names)
    spool.create()
    begin = await _begin(settings, spool, f"{partitions} {settings.log_epoch} {_digest_of(erased)}")
    # a partition may have an end and no record: all were past their retention
    read = LogRead(partitions, ends=_log_ends(begin) | await _ends(settings, partitions), promotions=_promotions(spool))
    read.before = spool.size()
    reading = _Reading(settings, plan, spool, erased, read, read.before)
    async with aclosing(read_both(kafka, names, {place: one.next for place, one in begin.items()})) as records:
        async for record in records:
            reading.take(record)
            if len(reading.batch) >= _BATCH:
                reading.flush()
                report(reading.done)
    reading.flush()
    spool.finish()
    report(reading.done)
    read.events = spool.events()
    return read


@dataclass(slots=True)
class _Reading:
    """A reading of the log under way."""

    settings: Settings
    plan: RebuildPlan
    spool: Spool
    erased: Mapping[str, ErasedPart]
    read: LogRead
    done: int
    """Records in the spool and in the batch."""
    batch: list[Record] = field(default_factory=list)
    last: dict[tuple[str, int], Record] = field(default_factory=dict)
    """Topic and partition → its last record read since the last `flush`."""

    def take(self, record: Record) -> None:
        """Add a record to the batch, if the plan includes it."""
        self.last[record.topic, record.partition] = record
        if record.topic == Topic.CONVERSATIONS:
            self.read.ends[record.partition] = max(self.read.ends.get(record.partition, 0), record.offset + 1)
        if record.key is None:
            _note_promotion(self.read, record, self.settings.log_epoch)
        elif _is_wanted(record, self.plan, self.read.partitions):
            self.batch.append(self._without_erased(record, record.key))
            self.done += 1

    def flush(self) -> None:
        """Write what was read, and how far that is."""
        self.spool.note(_PROMOTIONS, orjson.dumps([_as_row(*one) for one in self.read.promotions]).decode())
        places = {place: ReadUpTo(record.offset + 1, digest_of(record)) for place, record in self.last.items()}
        self.spool.add(self.batch, self.settings.log_epoch, places)
        self.batch.clear()
        self.last.clear()

    def _without_erased(self, record: Record, key: bytes) -> Record:
        part = self.erased.get(key.decode(errors="replace")) if self.erased else None
        gone = record.topic == Topic.CONVERSATIONS and is_erased(record, part, self.settings.log_epoch)
        return replace(record, value=b"") if gone else record


# ---- reading on


async def _begin(settings: Settings, spool: Spool, surroundings: str) -> Places:
    """The places up to which the spool was filled; clears it where the log is another one, or more was erased."""
    places = spool.places()
    if spool.noted(_SURROUNDINGS) != surroundings or not await _is_of(settings, places):
        spool.clear()
        places = {}
    spool.note(_SURROUNDINGS, surroundings)
    return places


async def _is_of(settings: Settings, places: Places) -> bool:
    """Whether the log has, at the same places, the last records that were read."""
    kafka, names = settings.kafka_settings, settings.names
    if not {topic for topic, _ in places} <= set(log_topics(names)):
        return False
    for (topic, partition), known in places.items():
        offsets = (known.next - 1, known.next)
        found = [digest_of(record) async for record in read_range(kafka, names, topic, partition, offsets)]
        if found != [known.digest]:
            return False
    return True


def _digest_of(erased: Mapping[str, ErasedPart]) -> str:
    """A digest of all that is erased."""
    parts = (
        [key, part.until, [place.position for place in part.placeholders], sorted(part.refused)]
        for key, part in sorted(erased.items())
    )
    return hashlib.sha256(orjson.dumps(list(parts))).hexdigest()


def _log_ends(places: Places) -> dict[int, int]:
    return {partition: one.next for (topic, partition), one in places.items() if topic == Topic.CONVERSATIONS}


def _promotions(spool: Spool) -> list[tuple[int, Promotion]]:
    rows = orjson.loads(spool.noted(_PROMOTIONS) or "[]")
    return [(partition, Promotion(*promotion)) for partition, *promotion in rows]


def _as_row(partition: int, found: Promotion) -> tuple[int, str, int, str | None]:
    return partition, found.generation, found.position, found.nonce


async def _ends(settings: Settings, partitions: int) -> dict[int, int]:
    if settings.names.door_ms is None:
        return {}
    ends = await ends_of(settings.kafka_settings, settings.names, [Topic.CONVERSATIONS], partitions)
    return {partition: end for (_, partition), end in ends.items() if end}


def _is_wanted(record: Record, plan: RebuildPlan, partitions: int) -> bool:
    key = record.key or b""
    if plan.conversations and key.decode(errors="replace") not in plan.conversations:
        return False
    if partition_of(key, partitions) != record.partition:  # intake dead-lettered it
        return False
    try:
        return plan.until is None or record_log_time(record) <= plan.until
    except ContractError:
        return True


def _note_promotion(read: LogRead, record: Record, epoch: int) -> None:
    try:
        event = decode(record.value)
        place = position_in_log(record, epoch)
    except ContractError:
        return
    if isinstance(event, GenerationPromoted) and place:
        found = record.partition, Promotion(event.generation, place, event.nonce)
        if found not in read.promotions:  # a killed run may have noted it, and not that it was read
            read.promotions.append(found)
