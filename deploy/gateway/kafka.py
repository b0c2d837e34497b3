"""`GatewayLog` on Kafka."""

import asyncio
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import datetime
from time import monotonic
from typing import Final

from eunoe.deploy.settings import Settings
from eunoe.schemas.errors import EunoeError, Unavailable
from eunoe.schemas.events import ConversationEvent
from eunoe.streams.cancelling import cancelled
from eunoe.streams.codec import encode
from eunoe.streams.feed import Feed, Subscription, Takes
from eunoe.streams.publisher import KafkaPublisher, MessageTooLarge
from eunoe.streams.reader import offset_at, partitions_of, read_all, read_one, read_range
from eunoe.streams.record import Message, Publisher, Record, RecordPlace
from eunoe.streams.settings import KafkaSettings, partition_of
from eunoe.streams.topics import Topic, TopicNames

AWAY_S: Final = 30.0
"""Time for which a failed append counts: only requests show that it is over, and none come to who is not ready."""


class KafkaLog:
    """The topics of one log and generation."""

    def __init__(self, kafka: KafkaSettings, names: TopicNames) -> None:
        self._kafka = kafka
        self.names = names
        self._publisher = KafkaPublisher(kafka, names)
        self._feeds: dict[Topic, Feed] = {}
        self._partitions: dict[Topic, int] = {}
        self._is_away_until = float("inf")

    async def start(self) -> None:
        """Connect; raises `Unavailable` when no broker answers, `Refused` where the topics do not exist."""
        topics = [Topic.CONVERSATIONS, Topic.REPLIES, Topic.CHANGES, Topic.DEAD_LETTERS]
        found = await partitions_of(self._kafka, self.names, topics)
        self._partitions = dict(zip(topics, found, strict=True))
        await self._publisher.start()
        self._is_away_until = float("-inf")

    @property
    def healthy(self) -> bool:
        """Whether it is connected and no append has failed since the last one that succeeded, for `AWAY_S` seconds."""
        return monotonic() >= self._is_away_until

    def notify(self) -> None:
        """Report that there may be new records."""
        for feed in self._feeds.values():
            feed.notify()

    async def stop(self) -> None:
        """Disconnect."""
        for feed in self._feeds.values():
            await feed.stop()
        await self._publisher.stop()

    async def retire(self, seconds: float) -> None:
        """Disconnect once no answer is awaited here any more, after ``seconds`` at the latest.

        All generations answer in one topic, so that the answers to what was asked here still come. All other feeds
        are lost at once.
        """
        answers = self._feeds.pop(Topic.REPLIES, None)
        try:
            for feed in self._feeds.values():
                await feed.stop()
            if answers is not None:
                with suppress(TimeoutError):
                    async with asyncio.timeout(seconds):
                        await answers.unused()
        finally:
            if answers is not None:
                await answers.stop()
            await self.stop()

    @property
    def publisher(self) -> Publisher:
        """For the records of retried dead letters."""
        return self._publisher

    async def append(self, events: Sequence[ConversationEvent]) -> list[RecordPlace]:
        """Append events to ``conversations``; returns their places when all in-sync replicas have them."""
        partitions = self._partitions[Topic.CONVERSATIONS]
        keys = [event.key.encode() for event in events]
        messages = [
            Message(Topic.CONVERSATIONS, key, encode(event), partition=partition_of(key, partitions))
            for key, event in zip(keys, events, strict=True)
        ]
        try:
            places = await self._publisher.publish(messages)
        except MessageTooLarge:
            raise  # Kafka has answered
        except EunoeError:
            self._is_away_until = monotonic() + AWAY_S
            raise
        self._is_away_until = float("-inf")
        return places

    async def partitions(self, topic: Topic) -> int:
        """The number of partitions of a topic."""
        return self._partitions[topic]

    @asynccontextmanager
    async def subscribe(
        self, topic: Topic, begin: Mapping[int, int | None], takes: Takes
    ) -> AsyncIterator[Subscription]:
        """The records of partitions of a topic from an offset on; `None` means from now on."""
        feed = self._feeds.get(topic)
        if feed is None:
            replies = topic == Topic.REPLIES
            feed = self._feeds[topic] = Feed(self._kafka, self.names, topic, interactive=replies)
        async with feed.subscribe(begin, takes) as subscription:
            yield subscription

    async def offset_at(self, topic: Topic, partition: int, time: datetime) -> int:
        """The first offset at or after a time; the end where nothing is later."""
        return await offset_at(self._kafka, self.names, topic, partition, round(time.timestamp() * 1000))

    async def read_one(self, topic: str, partition: int, offset: int) -> Record | None:
        """The record at a place; `None` where the topic does not hold it."""
        return await read_one(self._kafka, self.names, topic, (partition, offset))

    def read_range(self, topic: Topic, partition: int, begin: int) -> AsyncGenerator[Record]:
        """The records that a partition holds now, from an offset on; closed, it has closed its consumer."""
        return read_range(self._kafka, self.names, topic, partition, (begin, sys.maxsize))

    def read_all(self, topic: Topic, begin: Mapping[int, int]) -> AsyncGenerator[Record]:
        """All records that a topic holds now, from these offsets on; closed, it has closed its consumer."""
        return read_all(self._kafka, self.names, topic, begin=begin)


class MovingLog:
    """The log of the live generation; another promoted generation or log is taken up by `move`."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._log: KafkaLog | None = None
        self._lock = asyncio.Lock()
        self._retiring: set[asyncio.Task[None]] = set()

    async def move(self, names: TopicNames) -> None:
        """Use these names from now on; raises `Unavailable`, `Refused`."""
        if self._log is not None and self._log.names == names:
            return
        async with self._lock:
            if self._log is not None and self._log.names == names:
                return
            limit_ms = round(self._settings.gateway.kafka_seconds * 1000)
            kafka = self._settings.kafka_settings.model_copy(update={"request_timeout_ms": limit_ms})
            log = KafkaLog(kafka, names)
            await log.start()
            before, self._log = self._log, log
        if before is not None:
            # a task of its own: it ends streams, and with them those who asked for this
            retiring = asyncio.create_task(before.retire(self._settings.gateway.max_wait_seconds))
            self._retiring.add(retiring)
            retiring.add_done_callback(self._retiring.discard)

    def notify(self) -> None:
        """Report that there may be new records."""
        if self._log is not None:
            self._log.notify()

    async def stop(self) -> None:
        """Disconnect."""
        try:
            await cancelled(*self._retiring)
        finally:
            if self._log is not None:
                await self._log.stop()

    @property
    def log(self) -> KafkaLog:
        """The log in use; raises `Unavailable` before the first one."""
        if self._log is None:
            raise Unavailable("not connected yet", "Kafka")
        return self._log
