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
from eunoe.streams.codec import decode
from eunoe.streams.position import record_log_time, record_position
from eunoe.streams.reader import partitions_of, read_all
from eunoe.streams.record import Record
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

    Of what is ``erased`` (by key) only the place is spooled.

    Raises `Unavailable` when no broker answers, `Refused` where there is no log.
    """
    (partitions,) = await partitions_of(settings.kafka_settings, settings.names, [Topic.CONVERSATIONS])
    read = LogRead(partitions)
    batch: list[Record] = []
    spool.create()
    async for record in read_all(settings.kafka_settings, settings.names, Topic.CONVERSATIONS):
        read.ends[record.partition] = record.offset + 1
        if record.key is None:
            _note_promotion(read, record, settings.log_epoch)
        elif _is_wanted(record, plan, partitions):
            part = erased.get(record.key.decode(errors="replace")) if erased else None
            gone = part is not None and is_erased(record, part, settings.log_epoch)
            batch.append(replace(record, value=b"") if gone else record)
            read.events += 1
        if len(batch) >= _BATCH:
            spool.add(batch)
            batch.clear()
            report(read.events)
    spool.add(batch)
    spool.finish()
    report(read.events)
    return read


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
        place = record_position(record, epoch)
    except ContractError:
        return
    if isinstance(event, GenerationPromoted):
        read.promotions.append((record.partition, Promotion(event.generation, place, event.nonce)))
