"""Caches of language models' answers by request hash, so that a repeated question costs nothing."""

from collections.abc import Mapping
from typing import Protocol

from eunoe.schemas.events import RecordedAnswer
from eunoe.streams.codec import encode
from eunoe.streams.record import Message, Publisher
from eunoe.streams.topics import Topic
from eunoe.workers.stores.connection import RedisClient, RedisConnection, as_text
from eunoe.workers.stores.keys import Keys


class AnswerCache(Protocol):
    """Answers by the hash of their request. They are shared by all generations: a rebuild reads them too."""

    async def get(self, request_hash: str) -> str | None:
        """The answer's text; `None` where there is none, or none any more. Raises `Unavailable`."""
        ...

    async def put(self, request_hash: str, text: str) -> None:
        """Store an answer in place of an earlier one of the same hash. Raises `Unavailable`."""
        ...


class RedisAnswers:
    """`AnswerCache` on Redis. ``ttl_s``: the time to live of an answer in seconds; `None` means no limit."""

    def __init__(self, client: RedisClient, keys: Keys, *, ttl_s: int | None = None) -> None:
        self._client = client
        self._redis = RedisConnection(client)
        self._keys = keys
        self._lifetime = () if ttl_s is None else ("EX", ttl_s)

    async def get(self, request_hash: str) -> str | None:
        """The answer's text; `None` where there is none, or none any more."""
        found = await self._redis.command("GET", self._keys.answer(request_hash))
        return None if found is None else as_text(found)

    async def put(self, request_hash: str, text: str) -> None:
        """Store an answer."""
        await self._redis.command("SET", self._keys.answer(request_hash), text, *self._lifetime)

    async def fill(self, texts: Mapping[str, str]) -> None:
        """Store many answers in one round trip. Raises `Unavailable`."""
        if texts:
            with self._redis.translating_faults():
                pipeline = self._client.pipeline(transaction=False)
                for request, text in texts.items():
                    pipeline.execute_command("SET", self._keys.answer(request), text, *self._lifetime)
                await pipeline.execute()


class MemoryAnswers:
    """In-memory `AnswerCache`."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}

    async def get(self, request_hash: str) -> str | None:
        """The answer's text; `None` where there is none."""
        return self._texts.get(request_hash)

    async def put(self, request_hash: str, text: str) -> None:
        """Store an answer."""
        self._texts[request_hash] = text


class LoggedAnswers:
    """`AnswerCache` that publishes answers to their topic, which is durable, and reads them from another cache."""

    def __init__(self, lookup: AnswerCache, publisher: Publisher) -> None:
        self._lookup = lookup
        self._publisher = publisher

    async def get(self, request_hash: str) -> str | None:
        """The answer's text; `None` where there is none, or none any more."""
        return await self._lookup.get(request_hash)

    async def put(self, request_hash: str, text: str) -> None:
        """Publish an answer, then cache it. Raises `Unavailable` while the broker or the cache is."""
        answer = RecordedAnswer(request=request_hash, text=text)
        message = Message(topic=Topic.ANSWERS, key=answer.request.encode(), value=encode(answer))
        await self._publisher.publish([message])
        await self._lookup.put(request_hash, text)


class WriteOnlyAnswers:
    """`AnswerCache` that stores answers but finds none: every question goes to the model again."""

    def __init__(self, kept: AnswerCache) -> None:
        self._cache = kept

    async def get(self, request_hash: str) -> str | None:
        """Always `None`."""
        del request_hash
        return None

    async def put(self, request_hash: str, text: str) -> None:
        """Store an answer."""
        await self._cache.put(request_hash, text)
