"""The port for brokers whose consumers need more than the Kafka protocol, and the adapter for ordinary brokers."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

from aiokafka import AIOKafkaConsumer, TopicPartition

Notify = Callable[[], None]
"""Reports to one consumer that its topics have new records; callable from any thread."""


@dataclass(frozen=True, slots=True)
class ConsumerLoad:
    """The facts about a consumer and its process by which an adapter may pace its fetches."""

    loop_lag_s: Callable[[], float] = lambda: 0.0
    """Current lag of the process's event loop, in seconds."""
    interactive: bool = True
    """Whether somebody waits for the outcome of the records."""
    is_awaited: Callable[[], bool] = lambda: True
    """Whether somebody waits now; a notification tells that somebody began to."""
    is_fed: Callable[[], bool] = lambda: False
    """Whether what is written to its topics is written in this process, which notifies it each time."""
    may_rest: Callable[[], bool] = lambda: True
    """Whether records may be fetched ever more seldom while none come; a notification ends that."""
    brief: bool = False
    """Whether the consumer lives for one look only and must never be delayed."""


class BrokerAdapter(Protocol):
    """Adapts consumers to the quirks of one kind of broker. Immutable: all consumers of a process share it."""

    @property
    def consumer_class(self) -> type[AIOKafkaConsumer]:
        """The class to build consumers from."""
        ...

    def attach(self, consumer: AIOKafkaConsumer, load: ConsumerLoad) -> Notify:
        """Adapt a started consumer, in its own event loop; returns its notification of new records."""
        ...

    async def end_offsets(
        self, consumer: AIOKafkaConsumer, partitions: Sequence[TopicPartition]
    ) -> dict[TopicPartition, int]:
        """The offset after the last record of each partition; may replace the assignment of the consumer.

        Raises what aiokafka raises when no broker answers.
        """
        ...

    def before_leave(self, consumer: AIOKafkaConsumer) -> None:
        """Prepare a member of a group for leaving it; called in the event loop of the consumer."""
        ...


@dataclass(frozen=True, slots=True)
class OrdinaryBroker:
    """The adapter for brokers that need no adaptation: plain aiokafka."""

    consumer_class: ClassVar[type[AIOKafkaConsumer]] = AIOKafkaConsumer

    def attach(self, consumer: AIOKafkaConsumer, load: ConsumerLoad) -> Notify:
        """Change nothing; a notification does nothing either, because the broker answers as soon as it has records."""
        del consumer, load
        return _ignore

    async def end_offsets(
        self, consumer: AIOKafkaConsumer, partitions: Sequence[TopicPartition]
    ) -> dict[TopicPartition, int]:
        """The broker's latest offsets."""
        ends: dict[TopicPartition, int] = await consumer.end_offsets(partitions)
        return ends

    def before_leave(self, consumer: AIOKafkaConsumer) -> None:
        """Do nothing."""


def _ignore() -> None:
    """Do nothing."""
