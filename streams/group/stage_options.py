"""The behaviour that a stage gives its consumer."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from eunoe.streams.group.handlers import Backpressure, Urgent
from eunoe.streams.group.limits import QUEUED_BYTES
from eunoe.streams.group.partition import BeforeAck
from eunoe.streams.record import Record

StartPosition = Callable[[str, int, int], Awaitable[int | None]]
"""Awaited before the first record of each partition, with topic, partition and next offset.

Returns an earlier offset to start from, or `None`. It may be awaited again for the same assignment.
"""


@dataclass(frozen=True, slots=True)
class StageOptions:
    """The behaviour of a stage's consumer."""

    before_ack: BeforeAck | None = None
    start_position: StartPosition | None = None
    barrier: Callable[[Record], bool] = lambda _record: False
    """Whether a record waits for all earlier ones of its partition, and holds back the later ones."""
    concurrency: int = 256
    """Keys in work at once; fewer under ``backpressure``."""
    batch: int = 1
    """Records of one key in one call of the handler; a rebalance waits for all of them."""
    backpressure: Backpressure = lambda: None
    urgent: Urgent = lambda _record: False
    """Whether somebody waits for a record, by its looks: its key goes before others."""
    queued_bytes: int = QUEUED_BYTES
    """Bytes of records that wait or are in work."""
    ahead_bytes: int = 0
    """Bytes of records that are read ahead of the handler, to find urgent ones."""
    loop_lag_s: Callable[[], float] = lambda: 0.0
    """Current lag of the event loop, in seconds. The adapter of the broker may pace fetches by it."""
    interactive: bool = True
    """Whether somebody waits for the outcome of the records."""
