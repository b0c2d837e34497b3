"""Reads topics on, look after look, and keeps the records of the conversations that are worked on next."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Mapping
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

from aiokafka import AIOKafkaConsumer, TopicPartition

from eunoe.streams.admin import check_log_is_open
from eunoe.streams.plain_consumer import open_consumer
from eunoe.streams.reader import partitions_of, read_news
from eunoe.streams.record import Record
from eunoe.streams.settings import KafkaSettings
from eunoe.streams.topics import Topic, TopicNames

MAX_KEPT: Final = 32 * 1024 * 1024
"""Bytes of records that are kept for conversations beside the one that is worked on."""
_RECORD_BYTES: Final = 500
"""About what a record takes beside its value."""

Place = tuple[Topic, int]
"""A topic and a partition of it."""


class TopicReader:
    """Reads what is new in partitions, with a connection for each look; `kept_reader` gives one that keeps them."""

    def __init__(self, kafka: KafkaSettings, names: TopicNames, kept: AsyncExitStack | None = None) -> None:
        """``kept``: closes the consumers that the reader keeps, one for each topic; `None`: it keeps none."""
        self._kafka, self._names, self._kept = kafka, names, kept
        self._consumers: dict[Topic, AIOKafkaConsumer] = {}
        self._partitions: dict[Topic, int] = {}
        self._checked = False
        self._looking = asyncio.Lock()

    async def check(self) -> None:
        """Raise `Refused` where the log is sealed and no key store is set, and `Unavailable`."""
        if self._kept is None or not self._checked:
            await check_log_is_open(self._kafka, self._names)
            self._checked = True

    async def partitions(self, topic: Topic) -> int:
        """Number of partitions of a topic. Raises `Refused` where it does not exist, `Unavailable`."""
        if topic not in self._partitions:
            (self._partitions[topic],) = await partitions_of(self._kafka, self._names, [topic])
        return self._partitions[topic]

    async def news(self, topic: Topic, begin: Mapping[int, int]) -> AsyncGenerator[Record]:
        """The records that partitions hold at the call, each from an offset on: partition → offset.

        Raises `Refused` where the topic does not exist, `Unavailable` when no broker answers.
        """
        await self.partitions(topic)
        first = {TopicPartition(self._names.name(topic), number): offset for number, offset in begin.items()}
        async with (
            self._looking,
            self._consumer(topic) as consumer,
            aclosing(read_news(self._kafka, consumer, topic, first)) as records,
        ):
            async for record in records:
                yield record

    @asynccontextmanager
    async def _consumer(self, topic: Topic) -> AsyncIterator[AIOKafkaConsumer]:
        if self._kept is None:
            async with open_consumer(self._kafka, brief=True) as consumer:
                yield consumer
            return
        if topic not in self._consumers:
            opened = await self._kept.enter_async_context(open_consumer(self._kafka, brief=True))
            self._consumers[topic] = opened
        consumer = self._consumers[topic]
        try:
            yield consumer
        finally:
            consumer.pause(*consumer.assignment())  # until the next look it fetches nothing


@asynccontextmanager
async def kept_reader(kafka: KafkaSettings, names: TopicNames) -> AsyncIterator[TopicReader]:
    """A reader for many looks, which keeps its connections; closed at the end."""
    async with AsyncExitStack() as kept:
        yield TopicReader(kafka, names, kept)


@dataclass(slots=True)
class _Pass:
    """The records that were read of some places, and how far."""

    begin: dict[Place, int]
    records: dict[str, dict[Topic, list[Record]]]
    """Key → its records by topic, in their order; a conversation that is not here was not read for."""


@dataclass(slots=True)
class ReadingOn:
    """The records of conversations that are worked on one after the other, as they are stored.

    One pass over a partition serves the conversations of it that come next: a partition may hold millions of records.
    Each look goes on where the last one ended.
    """

    reader: TopicReader
    places: Callable[[str], tuple[Place, ...]]
    """The places with the records of a conversation, in the order in which they are read."""
    name: Callable[[Record], str | None]
    """The key of the conversation that a record is one of."""
    max_kept: int = MAX_KEPT
    _next: dict[str, int] = field(default_factory=dict)
    """Key → its turn, of the conversations that come next."""
    _passes: dict[tuple[Place, ...], _Pass] = field(default_factory=dict)
    _kept: dict[str, int] = field(default_factory=dict)
    """Key → bytes of its records."""
    _bytes: int = 0
    _waiting: dict[str, None] = field(default_factory=dict)
    """The conversations that are kept, by their turns: the last one that is not worked on is let go of first."""
    _working: set[str] = field(default_factory=set)
    """Those that were asked for and not put down."""
    _looking: asyncio.Lock = field(default_factory=asyncio.Lock)

    def expect(self, keys: Iterable[str]) -> None:
        """Say which conversations come next, in their order."""
        self._next = {key: turn for turn, key in enumerate(dict.fromkeys(keys))}

    def put_down(self, key: str) -> None:
        """Say that a conversation is not worked on for now: it may be let go of."""
        self._working.discard(key)

    def release(self, key: str) -> None:
        """Let go of a conversation that is done."""
        self.put_down(key)
        self._next.pop(key, None)
        self._forget(key)

    async def of(self, key: str) -> dict[Topic, list[Record]]:
        """Topic → the records that it holds now of a conversation, or held at an earlier look.

        Raises as `TopicReader.news` does.
        """
        async with self._looking:
            self._working.add(key)
            places = self.places(key)
            found = self._passes.get(places)
            if found is None or key not in found.records:
                found = self._begin(key, places)
            await self._go_on(found)
            return {topic: list(records) for topic, records in found.records[key].items()}

    def _begin(self, key: str, places: tuple[Place, ...]) -> _Pass:
        """A new pass over places, for a conversation and for those that come next there."""
        for other in [one for one in self._kept if one not in self._next and one != key]:
            self._working.discard(other)
            self._forget(other)
        if (before := self._passes.pop(places, None)) is not None:
            for other in before.records:
                self._bytes -= self._kept.pop(other, 0)
        covered = dict.fromkeys([key, *(one for one in self._next if self.places(one) == places)])
        topics = dict.fromkeys(topic for topic, _ in places)
        made = _Pass(dict.fromkeys(places, 0), {one: {topic: [] for topic in topics} for one in covered})
        self._passes[places] = made
        self._kept |= dict.fromkeys(covered, 0)
        self._waiting = dict.fromkeys(one for one in self._next if one in self._kept)
        return made

    async def _go_on(self, found: _Pass) -> None:
        for topic in dict.fromkeys(topic for topic, _ in found.begin):
            begin = {number: offset for (one, number), offset in found.begin.items() if one is topic}
            async with aclosing(self.reader.news(topic, begin)) as records:
                async for record in records:
                    self._take(found, topic, record)
                    self._let_go()

    def _take(self, found: _Pass, topic: Topic, record: Record) -> None:
        found.begin[topic, record.partition] = record.offset + 1
        named = self.name(record)
        if named is not None and (kept := found.records.get(named)) is not None:
            kept[topic].append(record)
            size = len(record.value) + _RECORD_BYTES
            self._kept[named] += size
            self._bytes += size

    def _let_go(self) -> None:
        """Let go of conversations that come last, where more is kept than may be, but of none that is worked on."""
        while self._bytes > self.max_kept:
            last = next((key for key in reversed(self._waiting) if key not in self._working), None)
            if last is None:
                return
            self._forget(last)

    def _forget(self, key: str) -> None:
        self._bytes -= self._kept.pop(key, 0)
        self._waiting.pop(key, None)
        for one in self._passes.values():
            one.records.pop(key, None)
