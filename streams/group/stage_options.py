"""The options by which a stage adapts its consumer."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from eunoe.streams.group.handlers import Backpressure, Urgent
from eunoe.streams.group.limits import DispatchLimits
from eunoe.streams.group.partition import BeforeAck
from eunoe.streams.record import Record

StartPosition = Callable[[str, int, int], Awaitable[int | None]]
"""Awaited before the first record of each partition, with topic, partition and next offset.

Returns an earlier offset to start from, or `None`. It may be awaited again for the same assignment.
"""


@dataclass(frozen=True, slots=True)
class StageOptions:
    """The hooks and limits of a stage's consumer."""

    before_ack: BeforeAck | None = None
    start_position: StartPosition | None = None
    barrier: Callable[[Record], bool] = lambda _record: False
    """Whether a record waits for all earlier ones of its partition, and holds back the later ones."""
    limits: DispatchLimits = field(default_factory=DispatchLimits)
    """Limits of the dispatcher; the consumer itself sets the interval of acks."""
    backpressure: Backpressure = lambda: None
    urgent: Urgent = lambda _record: False
    loop_lag_s: Callable[[], float] = lambda: 0.0
    """Current lag of the event loop, in seconds. The adapter of the broker may pace fetches by it."""
    interactive: bool = True
    """Whether somebody waits for the outcome of the records."""
    is_fed: Callable[[], bool] = lambda: False
    """Whether what is written to its topics is written in this process, which notifies it each time."""
