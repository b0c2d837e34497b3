"""One partition between two rebalances: what was taken of it, and how far it is acked."""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from eunoe.streams.group.offset_tracker import OffsetTracker
from eunoe.streams.record import Lease, Revoked

log = logging.getLogger(__name__)

Place = tuple[str, int]
"""Logical topic and partition."""

Ack = Callable[[str, int, int], None]
"""Topic, partition, offset: everything up to this offset is done."""

BeforeAck = Callable[[str, int, int, Lease], Awaitable[None]]
"""Awaited with the same before the ack."""


class Assignment:
    """The time between two rebalances, and the lease of every record taken in it."""

    def __init__(self) -> None:
        self._over = asyncio.Event()
        self.closed = False
        """True: what finishes now is not acked any more."""

    @property
    def revoked(self) -> bool:
        """True: finish what is started, wait for nothing."""
        return self._over.is_set()

    def revoke(self) -> None:
        """Begin the end."""
        self._over.set()

    def close(self) -> None:
        """End it."""
        self._over.set()
        self.closed = True

    async def pause(self, seconds: float) -> None:
        """Sleep; raises `Revoked` as soon as the term is revoked."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._over.wait()
        if self.revoked:
            raise Revoked("a rebalance or a shutdown has begun")


@dataclass(frozen=True, slots=True)
class Outlet:
    """Where acks go."""

    ack: Ack
    before_ack: BeforeAck | None
    flushed: Callable[[BaseException | None], None]
    """Told when all that waited for ``before_ack`` is through, or why nothing more is acked."""


class PartitionState:
    """Lets acks out in log order; those that come while ``before_ack`` is awaited, as one."""

    def __init__(self, place: Place, assignment: Assignment, outlet: Outlet) -> None:
        self.place = place
        self.offsets = OffsetTracker()
        self.released: int | None = None
        """The newest offset that was acked."""
        self.releasing: asyncio.Task[None] | None = None
        self._assignment = assignment
        self._outlet = outlet
        self._pending: int | None = None

    def leave(self, offset: int) -> None:
        """Note that the record at ``offset`` is done, and ack what that lets through."""
        newest = self.offsets.leave(offset)
        if newest is None:
            return
        if self._outlet.before_ack is None:
            self._release(newest)
            return
        self._pending = newest
        if self.releasing is None:
            self.releasing = asyncio.create_task(self._release_after(self._outlet.before_ack))

    async def _release_after(self, before_ack: BeforeAck) -> None:
        failure = None
        try:
            while self._pending is not None:
                newest, self._pending = self._pending, None
                await before_ack(*self.place, newest, self._assignment)
                if self._assignment.closed:
                    return
                self._release(newest)
        except Revoked:
            self._pending = None  # nothing is acked: the next owner has these records again
        except Exception as error:
            if not self._assignment.closed:
                log.exception("nothing more is acked in %s/%d", *self.place)
                failure = error
        finally:
            self.releasing = None
            self._outlet.flushed(failure)

    def _release(self, offset: int) -> None:
        self.released = offset
        self._outlet.ack(*self.place, offset)
