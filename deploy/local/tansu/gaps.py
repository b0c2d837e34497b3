"""A consumer that waits at a gap in the log, for a broker whose offsets have none.

The embedded broker (Tansu 0.6.0) may show a record before an earlier one of another producer. For some milliseconds
there is a gap, and a consumer that reads on loses the record that fills it.
"""

import collections
import logging
import time
from collections.abc import Callable, Iterator

from aiokafka import ConsumerRecord, TopicPartition
from aiokafka.consumer.fetcher import FetchResult, PartitionRecords

from eunoe.streams.batches import UnreadableBatch

log = logging.getLogger(__name__)

GAP_WAIT_S = 2.0
"""Longest wait for the records of a gap, in seconds; a gap older than that stays empty."""


class Gaps:
    """The gaps at which a consumer waits, one for each partition at most."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._since: dict[TopicPartition, tuple[int, float]] = {}

    def until_gap(
        self, partition: TopicPartition, fetched: PartitionRecords, records: Iterator[ConsumerRecord]
    ) -> Iterator[ConsumerRecord]:
        """The fetched records up to the first gap, where the next fetch begins.

        A gap older than `GAP_WAIT_S` is passed over and logged.
        """
        offset = fetched.next_fetch_offset
        for record in records:
            if record.offset != offset and self._waits(partition, offset, record.offset):
                fetched.next_fetch_offset = offset
                return
            value = record.value  # a batch that cannot be read is one record, and no gap
            offset = (value.last if isinstance(value, UnreadableBatch) else record.offset) + 1
            yield record

    def _waits(self, partition: TopicPartition, offset: int, found: int) -> bool:
        known, since = self._since.get(partition, (None, 0.0))
        if known != offset:
            self._since[partition] = (offset, self._clock())
            return True
        if self._clock() - since < GAP_WAIT_S:
            return True
        log.warning("gap passed over: %s/%d@%d to %d", partition.topic, partition.partition, offset, found - 1)
        return False


class GaplessResults(collections.OrderedDict[TopicPartition, object]):
    """The results of aiokafka's fetcher; each of them ends at the first gap."""

    def __init__(self, gaps: Gaps) -> None:
        super().__init__()
        self._gaps = gaps

    def __setitem__(self, partition: TopicPartition, result: object) -> None:
        if isinstance(result, FetchResult):
            fetched = result._partition_records  # noqa: SLF001
            records = fetched._records_iterator  # noqa: SLF001
            fetched._records_iterator = self._gaps.until_gap(partition, fetched, records)  # noqa: SLF001
        super().__setitem__(partition, result)
