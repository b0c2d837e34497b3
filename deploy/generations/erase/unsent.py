"""Replies that were decided and not sent: those that rest on erased utterances are dropped."""

from collections.abc import AsyncIterator, Mapping
from typing import Final
from urllib.parse import unquote

from eunoe.deploy.clients.bootstrap import Clients
from eunoe.deploy.generations.erase.places import Naming
from eunoe.schemas.decisions import Scope
from eunoe.schemas.erasure import ErasedPart
from eunoe.workers.respond.tables import NAME as RESPOND
from eunoe.workers.stores.redis.connection import RedisConnection, as_text

_SCAN: Final = 1000


async def drop_unsent(clients: Clients, parts: Mapping[str, tuple[ErasedPart, Naming]]) -> int:
    """Drop such replies of these conversations; returns their number. The other replies are sent.

    Key → what is erased. Of a conversation of which all up to a place was erased all are dropped. Redis is looked
    through once, for all of them. Raises `Unavailable`.
    """
    dropped = 0
    async for scope in _replies(clients):
        if scope.key not in parts or (outbox := (await clients.store.ledger(scope)).outbox) is None:
            continue
        part, naming = parts[scope.key]
        if part.until > 0 or naming.names_in(outbox):
            await clients.store.mark_sent(scope, outbox.number)
            dropped += 1
        else:
            await clients.sender.send(scope, outbox)
    return dropped


async def _replies(clients: Clients) -> AsyncIterator[Scope]:
    """The scope of each reply of a generation that Redis has a ledger of."""
    keys = clients.keys
    with RedisConnection(clients.redis).translating_faults():
        async for found in clients.redis.scan_iter(match=keys.request_ledgers(RESPOND), count=_SCAN):
            name = as_text(found)
            if (key := keys.conversation_of(name)) is not None:
                yield Scope(RESPOND, key, unquote(name.rpartition("@")[2]))
