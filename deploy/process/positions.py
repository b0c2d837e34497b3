"""How far the log is handled, as the state store knows it: written before each ack, asked before reading on."""

import logging

from eunoe.schemas.ports import LogPositions
from eunoe.streams.group.partition import BeforeAck
from eunoe.streams.group.stage_consumer import StartPosition
from eunoe.streams.position import position, split_position
from eunoe.streams.record import Lease
from eunoe.workers.runner.backoff import Backoff, Outages, UnboundedLease

log = logging.getLogger(__name__)

START_RETRY_S = 30.0
"""How long the start of a partition waits for the store: no lease tells there that a rebalance has begun."""


def remember_position(log_positions: LogPositions, epoch: int, outages: Outages, retry_limit_s: float) -> BeforeAck:
    """What stores how far a partition is handled, before the ack; while the store is away nothing is acked.

    Raises `Unavailable` after ``patience_s`` seconds, `GiveWay` when a rebalance comes first.
    """

    async def before_ack(topic: str, partition: int, offset: int, lease: Lease) -> None:
        handled = position(epoch, offset)
        await outages.retry(lambda: log_positions.remember(partition, handled), lease, Backoff(), retry_limit_s)

    return before_ack


def start_position(log_positions: LogPositions, epoch: int, outages: Outages) -> StartPosition:
    """Where to go back to: a committed offset beyond the handled position means that the store lost writes.

    Raises `Unavailable` where the store stays away for `START_RETRY_S`.
    """

    async def start(topic: str, partition: int, offset: int) -> int | None:
        handled = await outages.retry(
            lambda: log_positions.position(partition), UnboundedLease(), Backoff(), START_RETRY_S
        )
        handled_epoch, handled_offset = (epoch, -1) if handled is None else split_position(handled)
        next_offset = handled_offset + 1 if handled_epoch == epoch else 0
        if next_offset >= offset:
            return None
        log.warning("%s/%d: committed up to %d, handled up to %d: going back", topic, partition, offset, next_offset)
        return next_offset

    return start
