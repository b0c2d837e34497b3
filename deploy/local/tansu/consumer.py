"""The consumer for the embedded broker (Tansu 0.6.0)."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.consumer.fetcher import OffsetResetStrategy

from eunoe.deploy.local.tansu.gaps import GaplessResults, Gaps

Offsets = dict[TopicPartition, tuple[int, int | None]]
"""Offset and time of each partition, as the broker answers."""
Wanted = Mapping[str, Sequence[tuple[int, int]]]
"""Topic → partitions, each with the time that is asked for, or `OffsetResetStrategy.EARLIEST` or ``LATEST``."""


class TansuConsumer(AIOKafkaConsumer):  # type: ignore[misc]
    """An aiokafka consumer that waits at gaps, and for which every partition begins at offset 0.

    Where several producers begin a partition at once, the broker may say that its earliest offset is 1, and keep the
    record before that. It never deletes records.
    """

    async def start(self) -> None:
        """Connect as every consumer does, then watch what the broker answers."""
        await super().start()
        fetcher = self._fetcher
        fetcher._records = GaplessResults(Gaps())  # noqa: SLF001
        fetcher._proc_offset_request = partial(offsets_from_zero, fetcher._proc_offset_request)  # noqa: SLF001


async def offsets_from_zero(
    request: Callable[[Any, Wanted], Awaitable[Offsets]],
    node: Any,  # noqa: ANN401 - aiokafka's
    wanted: Wanted,
) -> Offsets:
    """The offsets that ``request`` gives, with 0 for every earliest one."""
    found = await request(node, wanted)
    for topic, partitions in wanted.items():
        for number, asked in partitions:
            place = TopicPartition(topic, number)
            if asked == OffsetResetStrategy.EARLIEST and place in found:
                found[place] = (0, found[place][1])
    return found
