"""Ports of stages and runner to what was handled of the log; each has an in-memory implementation, too."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from eunoe.schemas.decisions import Scope, Timer


@dataclass(frozen=True, slots=True)
class DueTimer:
    """A timer of a conversation that may have become idle."""

    key: str
    timer: Timer


@dataclass(frozen=True, slots=True)
class ReadPartition:
    """A partition of a topic, as one stage reads it."""

    stage: str
    topic: str
    partition: int


@dataclass(frozen=True, slots=True)
class Witness:
    """Progress that a process has seen in the state store; a store that shows less has lost writes."""

    scope: Scope
    applied: int = 0
    """`Ledger.applied`, at least."""
    lates: int = 0
    """`Ledger.lates`, at least."""
    number: int = 0
    """Number of a session with a parked event; once it is applied, the event may be gone."""
    slot: str | None = None
    """Slot of that event; `None` means that no event is expected."""
    sent: bool = False
    """Whether the outbox of the decision at ``applied`` and ``lates`` must be sent."""


@dataclass(frozen=True, slots=True)
class Handled:
    """Progress in a partition, as a server of the state store shows it."""

    position: int = 0
    """Position handled last (see `eunoe.streams.position`); 0: none."""
    writes: int = 0
    """Writes of this position, also of an unchanged one. A server that shows fewer than before has lost some."""


Positions = Mapping[str, Handled]
"""Server of the state store → what it shows. Only servers that hold state of conversations."""


@dataclass(frozen=True, slots=True)
class Stored:
    """Findings of the store when a position was to be written."""

    before: Positions
    owned: bool = True
    """Whether no other process has taken the partition on any server."""
    missing: tuple[Witness, ...] = ()
    """Witnesses of which the store shows less."""


class HandledPositions(Protocol):
    """Handled positions of partitions, on each server of the state store.

    A server that loses writes goes back as a whole: it shows an earlier position than it was given, or fewer writes of
    it. All methods raise `Unavailable`.
    """

    @property
    def verifies_separately(self) -> bool:
        """Whether `store` checks witnesses only after it has recorded the position, because they lie on other servers.

        Check them first then, in a call that records no position.
        """
        ...

    async def stored(self, reader: ReadPartition) -> Positions:
        """The position handled last, by server."""
        ...

    async def stored_for(self, reader: ReadPartition, key: str) -> tuple[str, Handled]:
        """The server that holds the state of a conversation, and what it shows."""
        ...

    async def take(self, reader: ReadPartition, owner: str, position: int) -> Positions:
        """Let only ``owner`` record positions from now on; a stored one above ``position`` is lowered to it.

        Returns what the servers show then.
        """
        ...

    async def store(
        self, reader: ReadPartition, owner: str, position: int, expected: Positions, witnesses: Sequence[Witness] = ()
    ) -> Stored:
        """Record a handled position on each server; a lower one than the stored one counts as a write of that.

        A server that shows less than ``expected``, or another owner, keeps what it shows.
        """
        ...


class LogPositions(Protocol):
    """Intake's index of the log, by partition; it can be derived again from the log."""

    async def schedule(self, partition: int, key: str, timer: Timer) -> None:
        """Set or move the timer of a conversation; a timer without utterance cancels it.

        A timer with a smaller number than the last one is ignored: it is of a process that lost its partition.
        It also lists the conversation as active at the time of the timer.
        """
        ...

    async def due(self, partition: int, since: datetime, limit: int) -> list[DueTimer]:
        """Timers of sessions without utterances since ``since``, the oldest first."""
        ...

    async def was_announced(self, partition: int, position: int, generation: str, nonce: str | None) -> bool:
        """Whether the promotion at ``position`` was announced with this nonce, and no other position has used it."""
        ...

    async def promote(self, partition: int, position: int, generation: str) -> None:
        """Record that ``generation`` answers asks after ``position``."""
        ...

    async def answering(self, partition: int, position: int | None = None) -> str | None:
        """The generation that answers asks at a position, by default at the end; `None` where none was promoted."""
        ...
