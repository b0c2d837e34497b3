"""The log of a conversation in two topics: sealed and kept for ever in `log`, and in `conversations`, its door.

Intake copies each record that it handles from `conversations` into topic `log`, sealed, with its position and log time.
The copies of a conversation are not in its order there: several generations write them, and an erasure seals what
remains of a conversation anew, at its old positions. Therefore every reader gathers the records of one conversation,
and puts them into the order of their positions; all of them gathered by conversation before.

Of a conversation, `log` has all that intake handled from some position on: intake writes in its order, and all others
write from the last record to the first. So a record of `conversations` between two of `log` is one that intake refused
or ignored, or one that was erased; what stands before them is from the time without a key store.
"""

import logging
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Final

from eunoe.schemas.keys import KeyStore
from eunoe.schemas.versions import ContractError
from eunoe.streams.position import (
    COPY_HEADERS,
    LOG_TIME_HEADER,
    POSITION_HEADER,
    Headers,
    copy_headers,
    is_copy,
    record_log_time,
    record_position,
    split_position,
)
from eunoe.streams.record import Message, Record
from eunoe.streams.retries import RETRY_HEADER
from eunoe.streams.sealed.records import SEALED_HEADER, open_record
from eunoe.streams.topics import Topic

log = logging.getLogger(__name__)

_KEPT: Final = frozenset({POSITION_HEADER, LOG_TIME_HEADER, RETRY_HEADER})
"""The headers of a copy; who produced a record may have put anything into the others."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)


def logged(record: Record, epoch: int, sealed_with: str | None = None) -> Message:
    """The copy for topic `log` of a record of `conversations` that is read in ``epoch``; the publisher seals it.

    ``sealed_with``: the id of the data key, `None` for the current one. Raises `ContractError` where the record's
    position or time is malformed.
    """
    headers = log_headers(copy_headers(record, epoch))
    return Message(Topic.LOG, record.key, record.value, headers, None, sealed_with)


def log_headers(headers: Headers) -> Headers:
    """Those headers of a record that go into `log`, where they are in clear: no other decides anything."""
    return tuple((name, value) for name, value in headers if name in _KEPT)


def position_in_log(record: Record, epoch: int) -> int:
    """The position of a record of either topic; 0 for a malformed one, which intake refuses."""
    try:
        # the copies of this epoch's records name it
        return record_position(record, epoch + 1 if record.topic == Topic.LOG else epoch)
    except ContractError:
        return 0


def original(record: Record, epoch: int) -> Record:
    """The record of `conversations` that a record of `log` is the copy of.

    Raises `ContractError` where its position or time is malformed.
    """
    first_epoch, offset = split_position(record_position(record, epoch + 1))
    if first_epoch < epoch:
        return replace(record, topic=Topic.CONVERSATIONS, offset=offset)
    own = {name: value for name, value in record.headers.items() if name not in COPY_HEADERS}
    milliseconds = (record_log_time(record) - _EPOCH) // _MILLISECOND
    return replace(record, topic=Topic.CONVERSATIONS, offset=offset, timestamp_ms=milliseconds, headers=own)


async def restored(records: Iterable[Record], keys: KeyStore | None, epoch: int) -> list[Record]:
    """The log of one conversation from its records in both topics, each topic's in its order, as they are stored.

    Records whose key was destroyed are passed over. Raises `Unavailable` where a key is missing, or no key store is
    set: wait, never skip.
    """
    copies, door = list[Record](), list[Record]()
    for record in records:
        if record.topic != Topic.LOG:
            door.append(record)
        elif (opened := await _opened(record, keys, epoch)) is not None:
            copies.append(opened)
    return in_log_order(copies, door, epoch)


async def _opened(record: Record, keys: KeyStore | None, epoch: int) -> Record | None:
    try:
        if SEALED_HEADER in record.headers:
            opened = await open_record(record, keys)
            return None if opened is None else original(opened, epoch)
        fault = "it is not sealed"
    except ContractError as error:
        fault = str(error)
    log.warning("%s is not a record that intake wrote, and is passed over: %s", record.place, fault)
    return None


def in_log_order(copies: Sequence[Record], door: Sequence[Record], epoch: int) -> list[Record]:
    """One conversation's records as intake took them, without repeats.

    ``copies``: from `log`, as `original` gives them, in any order; of equal positions the last one counts. ``door``:
    those of `conversations`, in its order.
    """
    by_position = {position_in_log(record, epoch): record for record in copies}
    by_position.pop(0, None)
    if not by_position:
        return list(door)
    ordered = [by_position[at] for at in sorted(by_position)]
    first, last = min(by_position), max(by_position)
    before, behind = list[Record](), list[Record]()
    for record in door:
        at = position_in_log(record, epoch)
        if at > last:
            behind.append(record)
        elif 0 < at < first and not _came_after(record, ordered[0]):
            before.append(record)
    return [*before, *ordered, *behind]


def _came_after(record: Record, first: Record) -> bool:
    """Whether a record claims an earlier position, and came later: intake has ignored it."""
    return not is_copy(first) and record.offset > first.offset
