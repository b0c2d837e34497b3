"""Replies that were decided and not sent: one look over Redis finds those of several conversations that are to go."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from eunoe.deploy.generations.erase.places import Naming
from eunoe.deploy.generations.erase.unsent import drop_unsent
from eunoe.schemas.decisions import Commit, Outbox, OutMessage, Scope
from eunoe.schemas.erasure import ErasedPart, Erasure, ErasureLevel, Numbers, hashed_id
from eunoe.workers.stores.redis.connection import RedisClient
from eunoe.workers.stores.redis.keys import Keys
from eunoe.workers.stores.state.redis_store import RedisStore

NOW = datetime(2026, 11, 1, tzinfo=UTC)
PART, WHOLE, OTHER = "acme/a b", "acme/whole", "acme/other"


@dataclass
class Found:
    """The clients of a generation; what is sent is noted."""

    redis: RedisClient
    keys: Keys
    store: RedisStore
    sent: list[str] = field(default_factory=list)

    @property
    def sender(self) -> "Found":
        return self

    async def send(self, scope: Scope, outbox: Outbox) -> None:
        self.sent.append(scope.request_id or "")
        await self.store.mark_sent(scope, outbox.number)


def part_of(key: str, *ids: str) -> tuple[ErasedPart, Naming]:
    erasure = Erasure(
        request_id="r",
        key=key,
        level=ErasureLevel.UTTERANCES if ids else ErasureLevel.CONVERSATION,
        at=NOW,
        until=9,
        salt="salt",
        refused=tuple(hashed_id("salt", one) for one in ids),
        numbers=None if ids else Numbers(opened=1, closed=1, turn=1, remembered=1),
    )
    part = ErasedPart.of([erasure])
    assert part is not None
    return part, Naming(part)


async def decided(found: Found, key: str, request_id: str, cited: Sequence[str]) -> Scope:
    scope = Scope("respond", key, request_id)
    text = json.dumps({"text": "You moved.", "evidence": [{"utterance_id": one} for one in cited]})
    outbox = Outbox(number=1, messages=(OutMessage(topic="replies", key=key, text=text),))
    assert await found.store.commit(scope, Commit(expect=0, applied=1, outbox=outbox))
    return scope


async def test_of_each_conversation_go_those_that_rest_on_the_erased(
    redis: RedisClient | None, keys: Keys, store: Any
) -> None:
    if redis is None:
        return
    found = Found(redis, keys, store)
    named = await decided(found, PART, "named@1", ["u0"])
    kept = await decided(found, PART, "kept", ["u1"])
    whole = await decided(found, WHOLE, "whole", ["u1"])
    other = await decided(found, OTHER, "other", ["u0"])
    parts = {PART: part_of(PART, "u0"), WHOLE: part_of(WHOLE)}
    clients: Any = found
    assert await drop_unsent(clients, parts) == 2
    assert found.sent == ["kept"]
    left = [(await found.store.ledger(scope)).outbox is not None for scope in (named, kept, whole, other)]
    assert left == [False, False, False, True]
    assert await drop_unsent(clients, parts) == 0
