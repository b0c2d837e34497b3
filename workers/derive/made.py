"""The events that stages emit while a conversation is derived, held until they are written."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import Self

from eunoe.streams.packed_records import Blocks, PackedRecords
from eunoe.streams.record import Record
from eunoe.streams.topics import TOPICS, Topic
from eunoe.workers.runner.recorded_outcomes import is_failure


class MadeRecords:
    """Records of derived topics, by topic, each in its order; those of other topics are passed over."""

    def __init__(self, blocks: Callable[[], Blocks] = list[bytes]) -> None:
        """``blocks`` makes the empty place of the records of one topic, once they are many."""
        self._by_topic: defaultdict[Topic, PackedRecords] = defaultdict(lambda: PackedRecords(blocks()))
        self.failed = 0
        """Recorded outcomes of decisions that raised at every attempt."""

    @classmethod
    def of(cls, records: Iterable[Record]) -> Self:
        """Those among some records."""
        made = cls()
        made.take(records)
        return made

    def take(self, records: Iterable[Record]) -> None:
        """Add those of derived topics, and count the failures among the answers."""
        for record in records:
            topic = Topic(record.topic)
            if TOPICS[topic].derived:
                self._by_topic[topic].append(record)
            elif topic is Topic.ANSWERS and is_failure(record.value):
                self.failed += 1

    def count(self, topic: Topic) -> int:
        """The number of records of a topic."""
        return len(self._by_topic[topic]) if topic in self._by_topic else 0

    def without(self, topic: Topic) -> "MadeRecords":
        """The same but those of one topic."""
        made = MadeRecords()
        made.failed = self.failed
        made._by_topic.update({other: found for other, found in self._by_topic.items() if other is not topic})
        return made

    def __len__(self) -> int:
        """The number of records."""
        return sum(map(len, self._by_topic.values()))

    def __iter__(self) -> Iterator[Record]:
        """The records, topic by topic in the order of the pipeline."""
        for topic in TOPICS:
            yield from self._by_topic.get(topic, ())
