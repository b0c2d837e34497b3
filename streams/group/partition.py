"""One partition between two rebalances: its unfinished records and its acks."""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from eunoe.streams.group.ack_rounds import AckRounds
from eunoe.streams.group.offset_tracker import OffsetTracker
from eunoe.streams.record import Lease, Revoked

log = logging.getLogger(__name__)

LogicalPartition = tuple[str, int]
"""Logical topic and number of the partition."""

BeforeAck = Callable[[str, int, int, Lease], Awaitable[None]]
"""Awaited before an ack, with topic, partition, offset and the lease of the assignment."""


class Assignment:
    """The time between two rebalances; the `Lease` of all records taken in it."""

    def __init__(self) -> None:
        self._over = asyncio.Event()
        self.closed = False
        """Whether records that finish now are no longer acked."""

    @property
    def revoked(self) -> bool:
        """Whether a rebalance or a shutdown has begun: finish the records in work, wait for nothing."""
        return self._over.is_set()

    def revoke(self) -> None:
        """Begin the end of the assignment."""
        self._over.set()

    def close(self) -> None:
        """End the assignment."""
        self._over.set()
        self.closed = True

    async def pause(self, seconds: float) -> None:
        """Sleep; raises `Revoked` as soon as the assignment is revoked."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._over.wait()
        if self.revoked:
            raise Revoked("a rebalance or a shutdown has begun")


@dataclass(frozen=True, slots=True)
class AckCallbacks:
    """The hooks around a partition's acks."""

    before_ack: BeforeAck | None
    returned: Callable[[LogicalPartition], None]
    """Called when ``before_ack`` raised `Revoked` while the assignment stands: the partition is to be read again."""
    flushed: Callable[[BaseException | None], None]
    """Called when no ack waits for ``before_ack`` any more; with the fault that ended the acks, or `None`."""


class PartitionState:
    """Acks the records of one partition in log order.

    Acks that fall due before the next of ``rounds``, or while ``before_ack`` is awaited, are merged into one.
    """

    def __init__(
        self, partition: LogicalPartition, assignment: Assignment, callbacks: AckCallbacks, rounds: AckRounds
    ) -> None:
        self.partition = partition
        self.offsets = OffsetTracker()
        self.acked: int | None = None
        """Newest acked offset: all records up to it are done, and the owner may commit it."""
        self.acking: asyncio.Task[None] | None = None
        self._assignment = assignment
        self._callbacks = callbacks
        self._rounds = rounds
        self._pending: int | None = None

    @property
    def any_ack_due(self) -> bool:
        """Whether an ack waits for its round or for ``before_ack``."""
        return self._pending is not None or self.acking is not None

    def finish(self, offset: int) -> None:
        """Note that the record at ``offset`` is done; ack what is now done without a gap."""
        newest = self.offsets.leave(offset)
        if newest is None:
            return
        if self._callbacks.before_ack is None:
            self.acked = newest
            return
        joins = not self.any_ack_due
        self._pending = newest
        if joins:
            self._rounds.join(self._begin)

    def _begin(self) -> None:
        before_ack = self._callbacks.before_ack
        if before_ack is not None and self._pending is not None and not self._assignment.closed:
            newest, self._pending = self._pending, None
            self.acking = asyncio.create_task(self._ack_after(before_ack, newest))

    async def _ack_after(self, before_ack: BeforeAck, newest: int) -> None:
        failure = None
        try:
            await before_ack(*self.partition, newest, self._assignment)
            if not self._assignment.closed:
                self.acked = newest
        except Revoked:
            self._pending = None  # not acked: the next owner of the partition reads these records again
            if not self._assignment.revoked:
                self._callbacks.returned(self.partition)
        except Exception as error:
            self._pending = None
            if not self._assignment.closed:
                log.exception("acks stopped: %s/%d", *self.partition)
                failure = error
        finally:
            self.acking = None
            if self._pending is not None:
                self._rounds.join(self._begin)
            self._callbacks.flushed(failure)
