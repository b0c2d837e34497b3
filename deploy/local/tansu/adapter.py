"""The adapter for the embedded broker (Tansu 0.6.0)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from aiokafka import AIOKafkaConsumer, TopicPartition

from eunoe.deploy.local.tansu.consumer import TansuConsumer
from eunoe.deploy.local.tansu.pacing import Pacing
from eunoe.streams.broker_adapter import ConsumerLoad, Notify

DELAY_S = 0.01
"""Least time between two fetches of a consumer on whose records somebody waits."""
_ENDS_POLL_MS = 20


@dataclass(frozen=True, slots=True)
class TansuAdapter:
    """A `eunoe.streams.broker_adapter.BrokerAdapter`: waits at gaps, reads from 0, paces fetches, leaves groups."""

    consumer_class: ClassVar[type[AIOKafkaConsumer]] = TansuConsumer

    def attach(self, consumer: AIOKafkaConsumer, load: ConsumerLoad) -> Notify:
        """Pace the fetches of a consumer; a brief one is not delayed."""
        least_s = 0.0 if load.brief else DELAY_S
        pacing = Pacing(
            least_s, load.loop_lag_s, lambda: load.interactive and load.is_awaited(), load.is_fed, load.may_rest
        )
        pacing.attach(consumer)
        return pacing.notify

    async def end_offsets(
        self, consumer: AIOKafkaConsumer, partitions: Sequence[TopicPartition]
    ) -> dict[TopicPartition, int]:
        """The ends as fetches report them; the consumer is left assigned to the partitions.

        Asked for its latest offset, the broker gives the first offset of the last batch, plus one. The end that it
        reports with a fetch is right.
        """
        ends: dict[TopicPartition, int] = await consumer.end_offsets(partitions)
        consumer.assign(list(partitions))
        for partition in partitions:
            consumer.seek(partition, ends[partition])
        while any(consumer.highwater(partition) is None for partition in partitions):
            await consumer.getmany(timeout_ms=_ENDS_POLL_MS)
        return {partition: max(ends[partition], consumer.highwater(partition)) for partition in partitions}

    def before_leave(self, consumer: AIOKafkaConsumer) -> None:
        """Let a member of generation 0 leave its group.

        The broker counts generations from 0, which aiokafka takes for "no member" and then sends no leave request.
        """
        coordinator = getattr(consumer, "_coordinator", None)
        if coordinator is not None and getattr(coordinator, "generation", None) == 0:
            coordinator.generation = 1
