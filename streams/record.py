"""A record as it came from a topic, and a message as it goes to one."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final, Protocol

UNREADABLE_HEADER: Final = "eunoe-unreadable"
"""The reason why the value of a record is a raw batch, which could not be read (see `eunoe.streams.batches`)."""


@dataclass(frozen=True, slots=True)
class Record:
    """Raw bytes and where they stood."""

    topic: str
    """The logical topic, without prefix and generation."""
    partition: int
    offset: int
    key: bytes | None
    value: bytes
    timestamp_ms: int
    """The broker's append time where it keeps one, else the producer's clock."""
    headers: Mapping[str, bytes] = field(default_factory=dict)

    @property
    def appended(self) -> datetime:
        """The record's own time stamp, in UTC."""
        return datetime.fromtimestamp(self.timestamp_ms / 1000, UTC)


@dataclass(frozen=True, slots=True)
class Message:
    """Raw bytes on their way to a topic."""

    topic: str
    """The logical topic."""
    key: bytes | None
    value: bytes
    headers: tuple[tuple[str, bytes], ...] = ()
    partition: int | None = None
    """None: the partition of the key."""


class Publisher(Protocol):
    """Sends messages and waits for the broker."""

    async def publish(self, messages: Sequence[Message]) -> None:
        """Send all and return when the broker has all; raises `Unavailable` when it does not answer."""
        ...


class Lease(Protocol):
    """The right to work on a record while its partition is ours."""

    @property
    def revoked(self) -> bool:
        """True: a rebalance or a shutdown has begun; finish what is started, wait for nothing."""
        ...

    async def pause(self, seconds: float) -> None:
        """Sleep; raises `Revoked` as soon as the lease is revoked."""
        ...


class Revoked(Exception):
    """The record was not finished and must not be acknowledged: its next owner does it."""
