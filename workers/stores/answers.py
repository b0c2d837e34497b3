"""Where answers of language models are kept by request hash, so that asking the same again costs nothing."""

from collections.abc import Mapping
from typing import Protocol

from eunoe.schemas.events import RecordedAnswer
from eunoe.streams.codec import encode
from eunoe.streams.record import Message, Publisher
from eunoe.streams.topics import Topic
from eunoe.workers.stores.connection import RedisClient, RedisConnection, as_text
from eunoe.workers.stores.keys import Keys


class AnswerCache(Protocol):
    """Answers by the hash of their request. They belong to no generation: a rebuild reads them too."""

    async def get(self, request_hash: str) -> str | None:
        """The answer's text; None where there is none (any more). Raises `Unavailable`."""
        ...

    async def put(self, request_hash: str, text: str) -> None:
        """Keep an answer; a later one of the same hash takes its place. Raises `Unavailable`."""
        ...


class RedisAnswers:
    """`AnswerCache` on Redis. ``ttl_s``: seconds that an answer is kept; None: for ever."""

    def __init__(self, client: RedisClient, keys: Keys, *, ttl_s: int | None = None) -> None:
        self._client = client
        self._redis = RedisConnection(client)
        self._keys = keys
        self._lifetime = () if ttl_s is None else ("EX", ttl_s)

    async def get(self, request_hash: str) -> str | None:
        """The answer's text; None where there is none (any more)."""
        found = await self._redis.command("GET", self._keys.answer(request_hash))
        return None if found is None else as_text(found)

    async def put(self, request_hash: str, text: str) -> None:
        """Keep an answer."""
        await self._redis.command("SET", self._keys.answer(request_hash), text, *self._lifetime)

    async def fill(self, texts: Mapping[str, str]) -> None:
        """Keep many answers in one round trip."""
        if texts:
            with self._redis.watched():
                pipeline = self._client.pipeline(transaction=False)
                for request, text in texts.items():
                    pipeline.execute_command("SET", self._keys.answer(request), text, *self._lifetime)
                await pipeline.execute()


class MemoryAnswers:
    """The twin: kept as long as this object."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}

    async def get(self, request_hash: str) -> str | None:
        """The answer's text; None where there is none."""
        return self._texts.get(request_hash)

    async def put(self, request_hash: str, text: str) -> None:
        """Keep an answer."""
        self._texts[request_hash] = text


class LoggedAnswers:
    """`AnswerCache` over the topic of answers, which keeps them, and a look-up, which finds them."""

    def __init__(self, lookup: AnswerCache, publisher: Publisher) -> None:
        self._lookup = lookup
        self._publisher = publisher

    async def get(self, request_hash: str) -> str | None:
        """The answer's text; None where there is none (any more)."""
        return await self._lookup.get(request_hash)

    async def put(self, request_hash: str, text: str) -> None:
        """Keep an answer: first where it lasts. Raises `Unavailable` when broker or look-up are away."""
        answer = RecordedAnswer(request=request_hash, text=text)
        message = Message(topic=Topic.ANSWERS, key=answer.request.encode(), value=encode(answer))
        await self._publisher.publish([message])
        await self._lookup.put(request_hash, text)


class WriteOnlyAnswers:
    """`AnswerCache` that keeps what it is given and finds nothing: every question is asked anew."""

    def __init__(self, kept: AnswerCache) -> None:
        self._kept = kept

    async def get(self, request_hash: str) -> str | None:
        """None."""
        del request_hash
        return None

    async def put(self, request_hash: str, text: str) -> None:
        """Keep an answer."""
        await self._kept.put(request_hash, text)
