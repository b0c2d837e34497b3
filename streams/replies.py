"""The reader of replies, shared by all conversations of a process."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiokafka import ConsumerRecord, TopicPartition

from eunoe.schemas.errors import Unavailable
from eunoe.schemas.replies import Reply
from eunoe.schemas.versions import ContractError
from eunoe.streams.codec import decode
from eunoe.streams.follower import Follower
from eunoe.streams.settings import KafkaSettings, partition_of
from eunoe.streams.topics import Topic, TopicNames

log = logging.getLogger(__name__)


class RepliesReader:
    """Reads those partitions of ``replies`` that somebody waits for, each from its end at the first wait.

    It belongs to no group: every process reads all replies of its partitions, and takes those that it expects.
    """

    def __init__(self, kafka: KafkaSettings, names: TopicNames, partitions: int) -> None:
        self._kafka = kafka
        self._topic = names.name(Topic.REPLIES)
        self._partitions = partitions
        self._waiting: dict[tuple[bytes, str], asyncio.Future[Reply]] = {}
        self._keys: dict[bytes, int] = {}
        self._follower = Follower(kafka, self._take, self._fail, lambda: bool(self._waiting))

    async def stop(self) -> None:
        """Disconnect; pending waits raise `Unavailable`."""
        self._fail("connection closed")
        await self._follower.stop()

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
            await self._follower.follow([TopicPartition(self._topic, partition_of(wanted[0], self._partitions))])
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
