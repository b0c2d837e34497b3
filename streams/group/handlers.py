"""Functions that handle records, and those that a dispatcher asks of its owner."""

from collections.abc import Awaitable, Callable, Sequence

from eunoe.streams.record import Lease, Record

Handler = Callable[[Record, Lease], Awaitable[None]]
"""Handles one record; returns when the work is done for good."""

BatchHandler = Callable[[Sequence[Record], Lease], Awaitable[None]]
"""Handles consecutive records of one key; returns when the work of all of them is done for good."""

Backpressure = Callable[[], int | None]
"""The most keys that may be in work now, at least one; `None`: as many as the limits allow."""

Urgent = Callable[[Record], bool]
"""Whether somebody waits for a record. It goes before those of other keys; a wrong answer harms nothing else."""

OnRevoked = Callable[[str, int], None]
"""Called with topic and partition when a handler or a `BeforeAck` raises `Revoked` while its lease stands.

The partition makes no progress until it is read again.
"""


def one_by_one(handle: Handler) -> BatchHandler:
    """A batch handler that calls ``handle`` for each record."""

    async def handle_batch(records: Sequence[Record], lease: Lease) -> None:
        for record in records:
            await handle(record, lease)

    return handle_batch
