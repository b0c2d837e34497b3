"""The reader of replies, shared by all conversations of a process."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import chain

from aiokafka import AIOKafkaConsumer, ConsumerRecord, TopicPartition

from eunoe.schemas.errors import Unavailable
from eunoe.schemas.events import Reply
from eunoe.schemas.versions import ContractError
from eunoe.streams.codec import decode
from eunoe.streams.plain_consumer import end_offsets, open_consumer
from eunoe.streams.settings import KafkaSettings, partition_of
from eunoe.streams.topics import Topic, TopicNames

log = logging.getLogger(__name__)

_POLL_MS = 60_000
_PAUSE_S = 1.0


class RepliesReader:
    """Reads those partitions of ``replies`` that somebody waits for, each from its end at the first wait.

    It belongs to no group: every process reads all replies of its partitions, and takes those that it expects.
    """

    def __init__(self, kafka: KafkaSettings, names: TopicNames, partitions: int) -> None:
        self._kafka = kafka
        self._topic = names.name(Topic.REPLIES)
        self._partitions = partitions
        self._next: dict[TopicPartition, int] = {}
        self._waiting: dict[tuple[bytes, str], asyncio.Future[Reply]] = {}
        self._keys: dict[bytes, int] = {}
        self._resources = AsyncExitStack()
        self._consumer: AIOKafkaConsumer | None = None
        self._lock = asyncio.Lock()

    async def stop(self) -> None:
        """Disconnect; pending waits raise `Unavailable`."""
        self._fail("connection closed")
        self._consumer = None
        await self._resources.aclose()

    @asynccontextmanager
    async def expecting(self, key: str, request_id: str) -> AsyncIterator[asyncio.Future[Reply]]:
        """The reply to a request, as a future; send the request inside the block, so that no reply is missed.

        Raises `Unavailable` when no broker answers, ``ValueError`` for a request that is waited for already.
        """
        wanted = key.encode(), request_id
        if wanted in self._waiting:
            raise ValueError(f"request_id: {request_id!r} is waited for already")
        reply: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self._waiting[wanted] = reply
        self._keys[wanted[0]] = self._keys.get(wanted[0], 0) + 1
        try:
            await self._follow(TopicPartition(self._topic, partition_of(wanted[0], self._partitions)))
            yield reply
        finally:
            self._forget(wanted)

    def _forget(self, wanted: tuple[bytes, str]) -> None:
        reply = self._waiting.pop(wanted)
        if not reply.cancel() and not reply.cancelled():
            reply.exception()  # retrieved, so that asyncio does not log it
        self._keys[wanted[0]] -= 1
        if not self._keys[wanted[0]]:
            del self._keys[wanted[0]]

    async def _follow(self, partition: TopicPartition) -> None:
        """Read a partition from its present end, unless it is read already."""
        async with self._lock:
            if partition in self._next:
                return
            consumer = self._consumer or await self._connect()
            async with open_consumer(self._kafka, brief=True) as scout:
                self._next |= await end_offsets(self._kafka, scout, [partition])
            # an assignment replaces the one before and all its positions; nothing is awaited in between
            consumer.assign(list(self._next))
            for followed, offset in self._next.items():
                consumer.seek(followed, offset)

    async def _connect(self) -> AIOKafkaConsumer:
        consumer = await self._resources.enter_async_context(open_consumer(self._kafka))
        await self._resources.enter_async_context(_running(self._read(consumer)))
        self._consumer = consumer
        return consumer

    async def _read(self, consumer: AIOKafkaConsumer) -> None:
        while True:
            try:
                batches = await consumer.getmany(timeout_ms=_POLL_MS)
            except Exception as fault:
                log.exception("reading failed: %s", self._topic)
                self._fail(f"reading {self._topic}: {fault}")
                await asyncio.sleep(_PAUSE_S)
                continue
            for partition, batch in batches.items():
                self._next[partition] = batch[-1].offset + 1
            for found in chain.from_iterable(batches.values()):
                self._take(found)

    def _take(self, found: ConsumerRecord) -> None:
        if found.key not in self._keys:
            return
        try:
            reply = decode(found.value or b"")
        except ContractError as fault:
            log.warning("not a reply: %s/%d@%d: %s", found.topic, found.partition, found.offset, fault)
            return
        waiting = self._waiting.get((found.key, reply.request_id)) if isinstance(reply, Reply) else None
        if waiting is not None and not waiting.done() and isinstance(reply, Reply):
            waiting.set_result(reply)

    def _fail(self, why: str) -> None:
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(Unavailable(f"{self._kafka.server}: {why}"))


@asynccontextmanager
async def _running(work: Coroutine[None, None, None]) -> AsyncIterator[None]:
    """Run ``work`` as a task beside the block; cancel it at the end."""
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
