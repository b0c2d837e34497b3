"""Builds the messages for a log with another number of partitions.

A copy keeps its original position, so stages do not apply or answer it again. A forwarded record gets a new position:
it came in while clients switched logs, and the new generation answers it. Both carry a header with their source
offset, so a second attempt takes no record twice.
"""

import re
from dataclasses import replace
from typing import Final

from eunoe.schemas.base import write_time
from eunoe.schemas.records import GenerationPromoted
from eunoe.schemas.versions import ContractError
from eunoe.streams.codec import decode
from eunoe.streams.position import (
    COPIED_HEADER,
    LOG_TIME_HEADER,
    Headers,
    copy_headers,
    is_copy,
    own_headers,
    record_log_time,
)
from eunoe.streams.record import Message, Record
from eunoe.streams.sealed.log import log_headers
from eunoe.streams.settings import partition_of
from eunoe.streams.topics import Topic

_SOURCE: Final = re.compile(rb"(\d{1,9}):(\d{1,9}):(\d{1,13})")


def belongs(record: Record, partitions: int) -> bool:
    """Whether a record is in the partition of its key, in a log with ``partitions``; intake dead-letters others.

    Control records have no key and do not belong: each log has its own.
    """
    return record.key is not None and partition_of(record.key, partitions) == record.partition


def copied(record: Record, epoch: int, log: int, partitions: int) -> Message:
    """The copy of a record of ``log``, read in ``epoch``, for a log with ``partitions``.

    Raises `ContractError` where its position or time is malformed; intake has dead-lettered such a record.
    """
    return _message(record, copy_headers(record, epoch), log, partitions)


def forwarded(record: Record, epoch: int, log: int, partitions: int) -> Message:
    """The record as a new one of a log with ``partitions``; of its position only the log time is kept.

    A record that is a copy already is copied. Raises as `copied` does.
    """
    if is_copy(record):
        return copied(record, epoch, log, partitions)
    time = write_time(record_log_time(record)).encode()
    return _message(record, (*own_headers(record), (LOG_TIME_HEADER, time)), log, partitions)


def carried(record: Record, log: int, partitions: int) -> Message:
    """A record of topic `log` as it is, for that of a log with ``partitions``."""
    headers = tuple((name, value) for name, value in record.headers.items() if name != COPIED_HEADER)
    return replace(_message(record, headers, log, partitions), topic=Topic.LOG)


def sealed_copy(copy: Message) -> Message:
    """The same for topic `log`, of a copy; the publisher seals it."""
    return replace(copy, topic=Topic.LOG, headers=log_headers(copy.headers))


def _message(record: Record, headers: Headers, log: int, partitions: int) -> Message:
    source = f"{log}:{record.partition}:{record.offset}".encode()
    return Message(
        topic=Topic.CONVERSATIONS,
        key=record.key,
        value=record.value,
        headers=(*headers, (COPIED_HEADER, source)),
        partition=partition_of(record.key or b"", partitions),
    )


def source_of(record: Record, log: int) -> tuple[int, int] | None:
    """(partition, offset) in ``log`` of a record taken from it; `None` for any other record.

    Clients may send any header: what a copy does not write is none of its own.
    """
    match = _SOURCE.fullmatch(record.headers.get(COPIED_HEADER, b""))
    return (int(match[2]), int(match[3])) if match is not None and int(match[1]) == log else None


def begins(record: Record, generation: str, log: int) -> bool:
    """Whether a record is the control record that hands later asks to ``generation``, which reads ``log``."""
    if record.key is not None:
        return False
    try:
        event = decode(record.value)
    except ContractError:
        return False
    return isinstance(event, GenerationPromoted) and (event.generation, event.log) == (generation, log)
