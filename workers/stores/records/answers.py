"""Caches of language models' answers by request hash, so that a repeated question costs nothing.

With a key store, the answers of a conversation are its own: they lie under a keyed digest of the request, sealed with
the conversation's data key. An answer that is found under an earlier key of the conversation is stored again under the
current one; those that no decision asks for any more die with their key.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from redis.asyncio import RedisCluster

from eunoe.schemas.keys import DataKey, Destroyed, KeyState
from eunoe.schemas.records import RecordedAnswer
from eunoe.streams.codec import encode
from eunoe.streams.record import Message, Publisher, Record
from eunoe.streams.sealed.answers import sealed_request, split_request
from eunoe.streams.sealed.envelope import Tampered, seal, unseal
from eunoe.streams.sealed.records import key_id_of
from eunoe.streams.topics import Topic
from eunoe.workers.stores.data_keys.cached import CachedKeys
from eunoe.workers.stores.documents.sealed_documents import HEAD_BYTES, head_of
from eunoe.workers.stores.redis.connection import RedisClient, RedisConnection, as_text
from eunoe.workers.stores.redis.keys import Keys


@dataclass(frozen=True, slots=True)
class FoundAnswer:
    """An answer that was found."""

    text: str
    outdated: bool = False
    """Whether it is sealed with an earlier key of its conversation: store it again."""


class AnswerCache(Protocol):
    """Answers by the hash of their request. They are shared by all generations: a rebuild reads them too.

    ``conversation``: the key of the conversation that asks, whose data key seals them; '' means none. Every method
    raises `Unavailable`.
    """

    async def find(self, request_hash: str, conversation: str = "") -> FoundAnswer | None:
        """An answer; `None` where there is none, or none any more."""
        ...

    async def get(self, request_hash: str, conversation: str = "") -> str | None:
        """The answer's text; `None` where there is none, or none any more."""
        found = await self.find(request_hash, conversation)
        return None if found is None else found.text

    async def put(self, request_hash: str, text: str, conversation: str = "") -> None:
        """Store an answer in place of an earlier one of the same hash."""
        ...


class RedisAnswers(AnswerCache):
    """`AnswerCache` on Redis.

    ``ttl_s``: the time to live of an answer in seconds; `None` means no limit. ``data_keys``: the keys that answers of
    conversations are sealed with; `None`: they are plain.
    """

    def __init__(
        self, client: RedisClient, keys: Keys, *, ttl_s: int | None = None, data_keys: CachedKeys | None = None
    ) -> None:
        self._client = client
        self._redis = RedisConnection(client)
        self._keys = keys
        self._lifetime = () if ttl_s is None else ("EX", ttl_s)
        self._data_keys = data_keys

    async def find(self, request_hash: str, conversation: str = "") -> FoundAnswer | None:
        """An answer: the conversation's own, else a plain one, of a time without a key store."""
        own = await self._own(request_hash, conversation) if conversation else None
        if own is not None:
            return own
        plain = await self._redis.command("GET", self._keys.answer(request_hash))
        return None if plain is None else FoundAnswer(as_text(plain))

    async def put(self, request_hash: str, text: str, conversation: str = "") -> None:
        """Store an answer."""
        name, value = self._keys.answer(request_hash), text
        if self._data_keys is not None and conversation:
            key = await self._data_keys.current(conversation)
            request = sealed_request(key, conversation, request_hash)
            answer = encode(RecordedAnswer(request=request_hash, text=text))
            await self._set(*self._entry(request, key.id, seal(key, answer, (Topic.ANSWERS, request), deflate=True)))
            return
        await self._set(name, value)

    async def server(self) -> str:
        """The id of the server's process, which may have lost something when it changes; '' for several servers.

        Raises `Unavailable`.
        """
        if isinstance(self._client, RedisCluster):
            return ""
        (server,) = await self._redis.processes()
        return server

    async def fill(self, entries: Mapping[str, str | bytes]) -> None:
        """Store many entries in one round trip. Raises `Unavailable`."""
        if entries:
            with self._redis.translating_faults():
                pipeline = self._client.pipeline(transaction=False)
                for name, value in entries.items():
                    pipeline.execute_command("SET", name, value, *self._lifetime)
                await pipeline.execute()

    async def entry(self, record: Record) -> tuple[str, str | bytes] | None:
        """The entry for a record of the answers' topic, whose sealed bytes it shares; `None` for one that is erased.

        Raises `Unavailable`, ``ValueError`` for a record that is no answer.
        """
        key_id = key_id_of(record)
        if key_id is None:
            answer = RecordedAnswer.from_json(record.value)
            return self._keys.answer(answer.request), answer.text
        if self._data_keys is not None and isinstance(await self._data_keys.get(key_id), Destroyed):
            return None
        return self._entry((record.key or b"").decode(), key_id, record.value)

    async def forget(self, conversation: str, *, keep: str | None = None) -> int:
        """Remove the sealed answers of a conversation, but not those that the key of id ``keep`` seals.

        Returns their number; plain ones belong to no conversation. Raises `Unavailable`.
        """
        kept = None if keep is None else head_of(keep)
        removed = 0
        with self._redis.translating_faults():
            async for name in self._client.scan_iter(match=self._keys.answers_of(conversation), count=1000):
                if kept is None or await self._redis.command("GETRANGE", name, 0, HEAD_BYTES - 1) != kept:
                    removed += int(await self._redis.command("DEL", name))
        return removed

    async def _own(self, request_hash: str, conversation: str) -> FoundAnswer | None:
        if self._data_keys is None:
            return None
        current = await self._data_keys.current(conversation)
        text = await self._opened(current, conversation, request_hash)
        if text is not None:
            return FoundAnswer(text)
        for record in await self._data_keys.keys(conversation):
            if record.state is not KeyState.RETIRED:
                continue
            key = await self._data_keys.get(record.id)
            text = None if isinstance(key, Destroyed) else await self._opened(key, conversation, request_hash)
            if text is not None:
                return FoundAnswer(text, outdated=True)
        return None

    async def _opened(self, key: DataKey, conversation: str, request_hash: str) -> str | None:
        """The answer that a key seals; `None` where there is none, or one that was changed."""
        request = sealed_request(key, conversation, request_hash)
        value = await self._redis.command("GET", self._keys.sealed_answer(*_parts(request)))
        if not isinstance(value, bytes) or value[:HEAD_BYTES] != head_of(key.id):
            return None
        try:
            return RecordedAnswer.from_json(unseal(key, value[HEAD_BYTES:], (Topic.ANSWERS, request))).text
        except Tampered:
            return None

    def _entry(self, request: str, key_id: str, envelope: bytes) -> tuple[str, bytes]:
        return self._keys.sealed_answer(*_parts(request)), head_of(key_id) + envelope

    async def _set(self, name: str, value: str | bytes) -> None:
        await self._redis.command("SET", name, value, *self._lifetime)


def _parts(request: str) -> tuple[str, str]:
    found = split_request(request.encode())
    if found is None:
        raise ValueError(f"not the key of a sealed answer: {request!r:.80}")
    return found


class MemoryAnswers(AnswerCache):
    """In-memory `AnswerCache`, which seals nothing."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}

    async def find(self, request_hash: str, conversation: str = "") -> FoundAnswer | None:
        """An answer; `None` where there is none."""
        del conversation
        text = self._texts.get(request_hash)
        return None if text is None else FoundAnswer(text)

    async def put(self, request_hash: str, text: str, conversation: str = "") -> None:
        """Store an answer."""
        del conversation
        self._texts[request_hash] = text


class LoggedAnswers(AnswerCache):
    """`AnswerCache` that publishes answers to their topic, which is durable, and reads them from another cache."""

    def __init__(self, lookup: AnswerCache, publisher: Publisher) -> None:
        self._lookup = lookup
        self._publisher = publisher

    async def find(self, request_hash: str, conversation: str = "") -> FoundAnswer | None:
        """An answer; one under an earlier key of its conversation is published and cached again."""
        found = await self._lookup.find(request_hash, conversation)
        if found is None or not found.outdated:
            return found
        await self.put(request_hash, found.text, conversation)
        return FoundAnswer(found.text)

    async def put(self, request_hash: str, text: str, conversation: str = "") -> None:
        """Publish an answer, then cache it. Raises `Unavailable` while the broker or the cache is."""
        answer = RecordedAnswer(request=request_hash, text=text)
        of = conversation or None
        message = Message(topic=Topic.ANSWERS, key=answer.request.encode(), value=encode(answer), conversation=of)
        await self._publisher.publish([message])
        await self._lookup.put(request_hash, text, conversation)


class WriteOnlyAnswers(AnswerCache):
    """`AnswerCache` that stores answers but finds none: every question goes to the model again."""

    def __init__(self, kept: AnswerCache) -> None:
        self._cache = kept

    async def find(self, request_hash: str, conversation: str = "") -> FoundAnswer | None:
        """Always `None`."""
        del request_hash, conversation
        return None

    async def put(self, request_hash: str, text: str, conversation: str = "") -> None:
        """Store an answer."""
        await self._cache.put(request_hash, text, conversation)
