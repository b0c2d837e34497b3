"""Handled positions of the log, in the state store: written before each ack, checked before a partition is read."""

import logging

from eunoe.schemas.ports import LogPositions
from eunoe.streams.group.partition import BeforeAck
from eunoe.streams.group.stage_consumer import StartPosition
from eunoe.streams.position import position, split_position
from eunoe.streams.record import Lease
from eunoe.workers.runner.backoff import Backoff, Outages, UnboundedLease

log = logging.getLogger(__name__)

START_RETRY_S = 30.0
"""Seconds that the start of a partition waits for the store: no lease reports a rebalance there."""


def remember_position(log_positions: LogPositions, epoch: int, outages: Outages, retry_limit_s: float) -> BeforeAck:
    """A hook that stores the handled position of a partition before each ack; without the store nothing is acked.

    It raises `Unavailable` after ``retry_limit_s`` seconds, `Revoked` when a rebalance comes first.
    """

    async def before_ack(topic: str, partition: int, offset: int, lease: Lease) -> None:
        handled = position(epoch, offset)
        await outages.retry(lambda: log_positions.remember(partition, handled), lease, Backoff(), retry_limit_s)

    return before_ack


def start_position(log_positions: LogPositions, epoch: int, outages: Outages) -> StartPosition:
    """A hook that gives the offset to start from: where the commit is ahead of the store, the store lost writes.

    It raises `Unavailable` where the store stays away for `START_RETRY_S`.
    """

    async def start(topic: str, partition: int, offset: int) -> int | None:
        handled = await outages.retry(
            lambda: log_positions.position(partition), UnboundedLease(), Backoff(), START_RETRY_S
        )
        handled_epoch, handled_offset = (epoch, -1) if handled is None else split_position(handled)
        next_offset = handled_offset + 1 if handled_epoch == epoch else 0
        if next_offset >= offset:
            return None
        log.warning(
            "%s/%d: committed up to %d, but handled up to %d only: reading again from there",
            topic,
            partition,
            offset,
            next_offset,
        )
        return next_offset

    return start
