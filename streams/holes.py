"""A consumer that waits at a hole in the log, for brokers whose offsets have none.

The embedded broker (Tansu 0.6.0) may show a record before an earlier one of another producer: for some milliseconds
there is a hole, and who reads on has lost what comes to stand in it.
"""

import collections
import logging
import time
from collections.abc import Callable, Iterator

from aiokafka import AIOKafkaConsumer, ConsumerRecord, TopicPartition
from aiokafka.consumer.fetcher import FetchResult, PartitionRecords

log = logging.getLogger(__name__)

GAP_WAIT_S = 2.0
"""After this time nothing will come to stand in a hole."""


class Gaps:
    """The holes that a consumer stands before."""

    def __init__(self, retry_limit_s: float = GAP_WAIT_S, clock: Callable[[], float] = time.monotonic) -> None:
        self._retry_limit_s = retry_limit_s
        self._clock = clock
        self._since: dict[TopicPartition, tuple[int, float]] = {}

    def until_hole(
        self, place: TopicPartition, fetched: PartitionRecords, records: Iterator[ConsumerRecord]
    ) -> Iterator[ConsumerRecord]:
        """What was fetched, up to the first record that does not follow the one before it; the next fetch begins there.

        A hole that stays for the time of patience is passed over, and told.
        """
        offset = fetched.next_fetch_offset
        for record in records:
            if record.offset != offset and self._waits(place, offset, record.offset):
                fetched.next_fetch_offset = offset
                return
            offset = record.offset + 1
            yield record

    def _waits(self, place: TopicPartition, offset: int, found: int) -> bool:
        known, since = self._since.get(place, (None, 0.0))
        if known != offset:
            self._since[place] = (offset, self._clock())
            return True
        if self._clock() - since < self._retry_limit_s:
            return True
        log.warning("%s/%d has no records from %d to %d", place.topic, place.partition, offset, found - 1)
        return False


class _Results(collections.OrderedDict[TopicPartition, object]):
    """The fetcher's results, each of which ends at a hole."""

    def __init__(self, holes: Gaps) -> None:
        super().__init__()
        self._holes = holes

    def __setitem__(self, place: TopicPartition, result: object) -> None:
        if isinstance(result, FetchResult):
            fetched = result._partition_records  # noqa: SLF001
            fetched._records_iterator = self._holes.until_hole(place, fetched, fetched._records_iterator)  # noqa: SLF001
        super().__setitem__(place, result)


class GaplessConsumer(AIOKafkaConsumer):  # type: ignore[misc]
    """An aiokafka consumer that waits at holes."""

    async def start(self) -> None:
        """Connect, as every consumer does, then have an eye on what is fetched."""
        await super().start()
        self._fetcher._records = _Results(Gaps())  # noqa: SLF001


def consumer_class(*, dense: bool) -> type[AIOKafkaConsumer]:
    """The consumer for a broker whose offsets have no holes (``dense``), or may have."""
    return GaplessConsumer if dense else AIOKafkaConsumer
