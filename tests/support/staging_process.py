"""Replaces the state of a conversation, and stops itself in the middle of what is written beside its place.

``python -m tests.support.staging_process URL PREFIX GENERATION KEY SIGNAL``: SIGKILL ends it there; after SIGSTOP it
goes on when it is told to. Says at the end whether the state was replaced.
"""

import asyncio
import os
import signal
import sys
from typing import Any
from unittest.mock import patch

from eunoe.deploy.clients.redis import open_redis_url
from eunoe.schemas.decisions import Ledger, Scope
from eunoe.schemas.ports import StoredConversation
from eunoe.workers.stores.redis.connection import RedisConnection, Script
from eunoe.workers.stores.redis.keys import Keys
from eunoe.workers.stores.state.redis_store import RedisStore
from eunoe.workers.stores.state.transplants import RedisTransplants

TABLES = {"intake": ("lines",), "update": ("memories",)}
TEXT = "zebrafish"
PIECES = 12
"""Commands that the state takes; the signal comes after the first of them."""


def long_state(applied: int) -> StoredConversation:
    """State that is written beside its place first."""
    rows = {f"m{number}": f"{TEXT} {number}" for number in range(PIECES * 500)}
    return StoredConversation({"intake": Ledger(applied)}, {("update", "memories"): rows}, {})


async def replace_state(url: str, keys: Keys, key: str, number: int) -> bool:
    """Replace the state, with the signal after the first staged piece."""
    run, sent = RedisConnection.run, 0

    async def interrupted(self: RedisConnection, script: Script, *words: Any) -> Any:
        nonlocal sent
        done = await run(self, script, *words)
        sent += script.name == "stage"
        if sent == 1 and script.name == "stage":
            os.kill(os.getpid(), number)
        return done

    async with open_redis_url(url) as client:
        store = RedisStore(client, keys)
        there = await store.ledger(Scope("intake", key))
        with patch.object(RedisConnection, "run", interrupted):
            return await RedisTransplants(store, client, keys).swap(key, TABLES, long_state(there.applied), there)


if __name__ == "__main__":
    where, prefix, generation, conversation, name = sys.argv[1:]
    print(asyncio.run(replace_state(where, Keys(prefix, generation), conversation, signal.Signals[name].value)))
