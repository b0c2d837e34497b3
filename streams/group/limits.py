"""The limits of a dispatcher, and the bytes that records hold in it."""

from dataclasses import dataclass

from eunoe.streams.record import Record

QUEUED_BYTES = 4_000_000
_RECORD_BYTES = 256
"""Bytes of a waiting record without its key, value and headers."""
KEY_BYTES = 1000
"""Bytes of a key and of its queue; the waiting records of a key share them."""
_HEADERS_BYTES = 184
"""Bytes of the mapping of a record's headers."""
_HEADER_BYTES = 50
"""Bytes of one header without its value."""
TRACKED_BYTES = 70
"""Bytes of the offset of a record that is unfinished, or done behind an unfinished one."""


@dataclass(frozen=True, slots=True)
class DispatchLimits:
    """Upper bounds of one dispatcher."""

    concurrency: int = 256
    """Keys in work at once."""
    batch: int = 1
    """Records of one key in one call of a `BatchHandler`."""
    queued: int | None = None
    """Waiting records; beyond it `Dispatcher.submit` blocks. `None` means four times ``concurrency``. Waiting records
    and records in work are never more than ``queued + concurrency`` together, unless they fit into ``ahead_bytes``."""
    queued_bytes: int = QUEUED_BYTES
    """Bytes of records that wait or are in work; beyond them only ``ahead_bytes`` lets more in. One is always taken."""
    window: int = 8192
    """Records of one partition that are unfinished, or done behind an unfinished one; more fit into ``ahead_bytes``."""
    ahead_bytes: int = 0
    """Bytes of records that may be taken beyond these numbers, so that an urgent one is seen behind many others."""
    ack_interval_s: float = 0.0
    """Seconds from one round of acks to the next; in between those of one partition are merged."""

    @property
    def max_queued(self) -> int:
        """The most waiting records."""
        return 4 * self.concurrency if self.queued is None else self.queued


def size_of(record: Record) -> int:
    """The bytes that a record holds while it waits, but for those of its key."""
    headers = _HEADERS_BYTES + sum(_HEADER_BYTES + len(value) for value in record.headers.values())
    stored = 0 if record.stored is None else size_of(record.stored)
    return _RECORD_BYTES + len(record.value) + (headers if record.headers else 0) + stored
