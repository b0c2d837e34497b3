"""The position of a record: its (epoch, offset) as one number, comparable across resets of broker and topic.

A copy of a record (from a kept data directory, or in a topic with another number of partitions) carries its first
position and log time in two headers. So applied records stay applied, and new ones come after them.
"""

import re
from datetime import datetime, timedelta
from typing import Final

from pydantic import TypeAdapter, ValidationError

from eunoe.schemas.base import Time, write_time
from eunoe.schemas.records import DeadLetterReason
from eunoe.schemas.versions import ContractError
from eunoe.streams.record import Record

POSITION_HEADER: Final = "eunoe-position"
"""``<epoch>:<offset>``, in decimal digits."""
LOG_TIME_HEADER: Final = "eunoe-log-time"
"""RFC 3339."""
COPIED_HEADER: Final = "eunoe-copied"
"""``<log>:<partition>:<offset>``, in decimal digits: the source of a record in a log with other partitions."""
COPY_HEADERS: Final = frozenset({POSITION_HEADER, LOG_TIME_HEADER, COPIED_HEADER})

# A trillion records per partition and epoch; up to epoch 8,191 a position is also exact as a double (Lua, JavaScript).
_OFFSETS = 2**40
_EPOCHS = 2**23
LAST_EPOCH: Final = _EPOCHS - 1
"""The epoch of a log that holds only copies: every epoch that a copy can name lies before it."""
_CLOCK_SKEW = timedelta(days=1)
_POSITION = re.compile(rb"(\d{1,7}):(\d{1,13})")
_TIME: TypeAdapter[datetime] = TypeAdapter(Time)

Headers = tuple[tuple[str, bytes], ...]


def position(epoch: int, offset: int) -> int:
    """The position of ``offset`` in ``epoch``, from 1 on; 0 comes before all records.

    Raises ``ValueError`` for an epoch that is not in [0, 2^23) or an offset not in [0, 2^40 - 1).
    """
    if not (0 <= epoch < _EPOCHS and 0 <= offset < _OFFSETS - 1):
        raise ValueError(f"no position: epoch {epoch}, offset {offset}")
    return epoch * _OFFSETS + offset + 1


def split_position(value: int) -> tuple[int, int]:
    """(epoch, offset) of a `position`; raises ``ValueError`` for any other number."""
    epoch, rest = divmod(value, _OFFSETS)
    if rest == 0 or not 0 <= epoch < _EPOCHS:
        raise ValueError(f"not a position: {value}")
    return epoch, rest - 1


def is_copy(record: Record) -> bool:
    """Whether the record is a copy of an earlier one."""
    return POSITION_HEADER in record.headers


def record_position(record: Record, epoch: int) -> int:
    """The position of a record that is read in ``epoch``; for a copy, its first position.

    Raises `ContractError` (``invalid``) where the header is malformed, or names an epoch that has not ended. A copy
    comes from an earlier epoch; a later position would hide all records before it.
    """
    return position(*_first_position(record, epoch))


def record_log_time(record: Record) -> datetime:
    """The time of a record's append to the log, in UTC; for a copy, that of the first append.

    A log time counts only beside the other headers of a copy. Raises `ContractError` (``invalid``) where the header is
    malformed, is later than the copy by more than a day (brokers' clocks differ) or is missing from a copy, and where
    the record's time stamp is no date.
    """
    try:
        appended = record.appended
    except (ValueError, OverflowError, OSError):
        raise _invalid(f"time stamp {record.timestamp_ms} is no date") from None
    text = record.headers.get(LOG_TIME_HEADER)
    if text is not None and COPY_HEADERS & record.headers.keys() > {LOG_TIME_HEADER}:
        return _read_time(text, appended)
    if is_copy(record):
        raise _invalid(f"header {POSITION_HEADER} without {LOG_TIME_HEADER}")
    return appended


def copy_headers(record: Record, epoch: int) -> Headers:
    """Headers for a copy of a record that is read in ``epoch``: its own, its first position and its log time."""
    first_epoch, first_offset = _first_position(record, epoch)
    return (
        *own_headers(record),
        (POSITION_HEADER, f"{first_epoch}:{first_offset}".encode()),
        (LOG_TIME_HEADER, write_time(record_log_time(record)).encode()),
    )


def own_headers(record: Record) -> Headers:
    """The headers of a record without those of a copy, for sending it as a new record, like a retried dead letter."""
    return tuple((name, value) for name, value in record.headers.items() if name not in COPY_HEADERS)


def _first_position(record: Record, epoch: int) -> tuple[int, int]:
    """(epoch, offset), both within their bounds."""
    header = record.headers.get(POSITION_HEADER)
    if header is None:
        return epoch, record.offset
    match = _POSITION.fullmatch(header)
    if match is None:
        raise _invalid(f"header {POSITION_HEADER}: expected epoch:offset, got {header[:40]!r}")
    first_epoch, first_offset = int(match[1]), int(match[2])
    try:
        position(first_epoch, first_offset)
    except ValueError as error:
        raise _invalid(f"header {POSITION_HEADER}: {error}") from None
    if first_epoch >= epoch:
        raise _invalid(f"header {POSITION_HEADER}: epoch {first_epoch} is not before this log's, {epoch}")
    return first_epoch, first_offset


def _read_time(text: bytes, appended: datetime) -> datetime:
    try:
        found = _TIME.validate_python(text.decode("ascii"))
    except (UnicodeDecodeError, ValidationError):
        raise _invalid(f"header {LOG_TIME_HEADER}: expected an RFC 3339 time with a zone, got {text[:40]!r}") from None
    if found - appended > _CLOCK_SKEW:
        raise _invalid(f"header {LOG_TIME_HEADER}: {write_time(found)} is later than the copy, {write_time(appended)}")
    return found


def _invalid(message: str) -> ContractError:
    return ContractError(DeadLetterReason.INVALID, message)
