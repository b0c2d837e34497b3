"""Records read from topics, messages sent to them, and the ports for both."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final, Protocol

UNREADABLE_HEADER: Final = "eunoe-unreadable"
"""The reason why the value of a record is a raw batch, which could not be read (see `eunoe.streams.batches`)."""

_PLACE: Final = re.compile(r"([a-z-]{1,40})/(\d{1,9})@(\d{1,18})", re.ASCII)


@dataclass(frozen=True, slots=True)
class RecordPlace:
    """The place of a record in the log; as a text, which logs and dead letters name it by, ``segments/3@1207``."""

    topic: str
    """Logical topic, without prefix and generation."""
    partition: int
    offset: int

    @classmethod
    def parse(cls, text: str) -> "RecordPlace":
        """The place of such a text; raises ``ValueError`` for any other form."""
        match = _PLACE.fullmatch(text)
        if match is None:
            raise ValueError(f"{text!r:.100} is not TOPIC/PARTITION@OFFSET, for instance segments/3@1207")
        return cls(match[1], int(match[2]), int(match[3]))

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition}@{self.offset}"


@dataclass(frozen=True, slots=True)
class Record:
    """A record of a topic: raw bytes and their place in the log."""

    topic: str
    """Logical topic, without prefix and generation."""
    partition: int
    offset: int
    key: bytes | None
    value: bytes
    timestamp_ms: int
    """Append time of the broker where it keeps one, otherwise the time of the producer; milliseconds since 1970."""
    headers: Mapping[str, bytes] = field(default_factory=dict)
    stored: "Record | None" = None
    """The record as the topic has it, where that is sealed; `None`: as it is."""

    @property
    def place(self) -> RecordPlace:
        """The place of the record."""
        return RecordPlace(self.topic, self.partition, self.offset)

    @property
    def appended(self) -> datetime:
        """Time stamp of the record, in UTC."""
        return datetime.fromtimestamp(self.timestamp_ms / 1000, UTC)


@dataclass(frozen=True, slots=True)
class Message:
    """A record to be sent: raw bytes without a place in the log."""

    topic: str
    """Logical topic."""
    key: bytes | None
    value: bytes
    headers: tuple[tuple[str, bytes], ...] = ()
    partition: int | None = None
    """`None` means the partition of the key."""
    sealed_with: str | None = None
    """Id of the data key to seal it with, where its topic is sealed; `None` means the current one."""
    conversation: str | None = None
    """The conversation of a recorded answer, with whose data key it is sealed; `None`: of none."""


class Publisher(Protocol):
    """Port for sending messages."""

    async def publish(self, messages: Sequence[Message]) -> object:
        """Send all messages; returns when the broker has them, raises `Unavailable` when it does not answer."""
        ...


class Lease(Protocol):
    """The right to work on a record, which lasts as long as the assignment of its partition."""

    @property
    def revoked(self) -> bool:
        """Whether a rebalance or a shutdown has begun: finish the work in hand, wait for nothing."""
        ...

    async def pause(self, seconds: float) -> None:
        """Sleep; raises `Revoked` as soon as the lease is revoked."""
        ...


class Revoked(Exception):
    """The record is unfinished and must not be acknowledged; the next owner of its partition handles it."""
