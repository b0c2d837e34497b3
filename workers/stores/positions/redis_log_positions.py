"""Index of the log on Redis or Valkey: timers of idle sessions, promotions, and the conversations by their activity."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Final

from eunoe.schemas.decisions import Timer
from eunoe.schemas.identity import split_key
from eunoe.schemas.ports import ActiveConversation
from eunoe.schemas.position_ports import DueTimer
from eunoe.workers.stores.records.promotions import last_promoted
from eunoe.workers.stores.redis.connection import RedisClient, RedisConnection, Script, as_scores, as_table, as_text
from eunoe.workers.stores.redis.keys import Keys, announcements_key

_SCHEDULE = Script.load("schedule")
_DUE = Script.load("due")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class RedisLogPositions:
    """`LogPositions`. A timer's score is ``since`` in microseconds, an integer that Redis stores exactly."""

    def __init__(self, client: RedisClient, keys: Keys) -> None:
        self._redis = RedisConnection(client)
        self._keys = keys

    async def schedule(self, partition: int, key: str, timer: Timer) -> None:
        """Set, move or (with no utterance) cancel a conversation's timer, and list the conversation as active.

        A timer with a smaller number than the last one is ignored.
        """
        active = _microseconds(timer.active or timer.since)
        since = "" if timer.after_utterance_id is None else _microseconds(timer.since)
        tenant, conversation_id = split_key(key)
        await asyncio.gather(
            self._redis.run(
                _SCHEDULE, self._timer_keys(partition), [key, since, timer.model_dump_json(), timer.number]
            ),
            self._redis.command("ZADD", self._keys.conversations(tenant), "GT", active, conversation_id),
        )

    async def due(self, partition: int, since: datetime, limit: int) -> list[DueTimer]:
        """Timers of sessions that have been idle since ``since`` or longer, oldest first, equal ones by key."""
        if limit <= 0:
            return []
        found = await self._redis.run(_DUE, self._timer_keys(partition), [_microseconds(since), limit])
        return [
            DueTimer(key=as_text(key), timer=Timer.from_json(document))
            for key, document in zip(found[::2], found[1::2], strict=True)
        ]

    async def last_active(self, key: str) -> datetime | None:
        """Log time by which a conversation is listed; `None` where it is not."""
        tenant, conversation_id = split_key(key)
        score = await self._redis.command("ZSCORE", self._keys.conversations(tenant), conversation_id)
        return None if score is None else _EPOCH + timedelta(microseconds=int(float(score)))

    async def was_announced(self, partition: int, position: int, generation: str, nonce: str | None) -> bool:
        """Whether the promotion at ``position`` was announced with this nonce, which no other place has used."""
        if nonce is None:
            return False
        announced = await self._redis.command("HGET", announcements_key(self._keys.prefix), nonce)
        if announced is None or as_text(announced) != generation:
            return False
        used = self._keys.used_nonces(partition)
        await self._redis.command("HSETNX", used, nonce, str(position))
        return int(await self._redis.command("HGET", used, nonce)) == position

    async def promote(self, partition: int, position: int, generation: str) -> None:
        """Record that ``generation`` answers asks after ``position``."""
        await self._redis.command("HSET", self._keys.promotions(partition), str(position), generation)

    async def answering(self, partition: int, position: int | None = None) -> str | None:
        """The generation that answers at a position; `None` means the end of the log."""
        found = as_table(await self._redis.command("HGETALL", self._keys.promotions(partition)))
        return last_promoted({int(at): generation for at, generation in found.items()}, position)

    async def forget(self, partition: int, key: str) -> None:
        """Remove a conversation's timer, and the conversation from the list of its tenant. Raises `Unavailable`."""
        tenant, conversation_id = split_key(key)
        timers, documents = self._timer_keys(partition)
        await self._redis.command("ZREM", timers, key)
        await self._redis.command("HDEL", documents, key)
        await self._redis.command("ZREM", self._keys.conversations(tenant), conversation_id)

    def _timer_keys(self, partition: int) -> list[str]:
        return [self._keys.timers(partition), self._keys.timer_documents(partition)]


class RedisActivityList:
    """`ActivityList`, as `RedisLogPositions.schedule` writes it."""

    def __init__(self, client: RedisClient, keys: Keys) -> None:
        self._redis = RedisConnection(client)
        self._keys = keys

    async def active(
        self, tenant: str, limit: int, after: ActiveConversation | None = None
    ) -> list[ActiveConversation]:
        """The conversations of a tenant, the last active first, equal ones by id descending; those behind ``after``."""
        newest = "+inf" if after is None else str(_microseconds(after.active))
        found: list[ActiveConversation] = []
        passed = 0
        while len(found) < limit:
            page = await self._page(tenant, newest, passed, limit)
            passed += len(page)
            found += [one for one in page if after is None or _is_behind(one, after)]
            if len(page) < limit:
                break
        return found[:limit]

    async def _page(self, tenant: str, newest: str, passed: int, limit: int) -> list[ActiveConversation]:
        words = (self._keys.conversations(tenant), newest, "-inf", "WITHSCORES", "LIMIT", passed, limit)
        found = as_scores(await self._redis.command("ZREVRANGEBYSCORE", *words))
        return [ActiveConversation(member, _EPOCH + timedelta(microseconds=int(score))) for member, score in found]


def _is_behind(one: ActiveConversation, other: ActiveConversation) -> bool:
    return (one.active, one.conversation_id.encode()) < (other.active, other.conversation_id.encode())


def _microseconds(time: datetime) -> int:
    return (time - _EPOCH) // timedelta(microseconds=1)
