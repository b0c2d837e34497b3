"""Reads the log into the spool."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from eunoe.deploy.generations.rebuild.plan import RebuildPlan
from eunoe.deploy.generations.rebuild.spool import Spool
from eunoe.deploy.progress import ReportCount
from eunoe.deploy.settings import Settings
from eunoe.schemas.erasure import ErasedPart
from eunoe.schemas.events import GenerationPromoted
from eunoe.schemas.versions import ContractError
from eunoe.streams.admin import check_log_is_open
from eunoe.streams.codec import decode
from eunoe.streams.log_reader import read_both
from eunoe.streams.offsets import ends_of
from eunoe.streams.position import record_log_time
from eunoe.streams.reader import partitions_of
from eunoe.streams.record import Record
from eunoe.streams.sealed_log import position_in_log
from eunoe.streams.settings import partition_of
from eunoe.streams.topics import Topic
from eunoe.workers.derive.erased import is_erased
from eunoe.workers.runner.inbound import Promotion

_BATCH = 2_000


@dataclass(slots=True)
class LogRead:
    """Partitions, end offsets and promotions of the part of the log that was read."""

    partitions: int
    events: int = 0
    """Records in the spool."""
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

    Of what is ``erased`` (by key) only the place is spooled. What `log` has is spooled as it is, sealed.

    Raises `Unavailable` when no broker answers, `Refused` where there is no log, or a sealed one and no key store.
    """
    kafka, names, epoch = settings.kafka_settings, settings.names, settings.log_epoch
    (partitions,) = await partitions_of(kafka, names, [Topic.CONVERSATIONS])
    await check_log_is_open(kafka, names)
    # a partition may have an end and no record: all were past their retention
    read = LogRead(partitions, ends=await _ends(settings, partitions))
    batch: list[Record] = []
    done = 0
    spool.create()
    async for record in read_both(kafka, names):
        if record.topic == Topic.CONVERSATIONS:
            read.ends[record.partition] = record.offset + 1
        if record.key is None:
            _note_promotion(read, record, epoch)
        elif _is_wanted(record, plan, partitions):
            part = erased.get(record.key.decode(errors="replace")) if erased else None
            gone = record.topic == Topic.CONVERSATIONS and is_erased(record, part, epoch)
            batch.append(replace(record, value=b"") if gone else record)
            done += 1
        if len(batch) >= _BATCH:
            spool.add(batch, epoch)
            batch.clear()
            report(done)
    spool.add(batch, epoch)
    spool.finish()
    report(done)
    read.events = sum(one.events for one in spool.conversations(0, 1))
    return read


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
        read.promotions.append((record.partition, Promotion(event.generation, place, event.nonce)))
