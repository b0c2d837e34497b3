"""Ledgers that are damaged, on their way to be replaced by a repair.

What a ledger guards is derived again with the state: the numbers applied and skipped, and the decision that was not yet
sent. Its count of late sessions refuses decisions and points of before: one ahead of all others takes its place.
"""

import logging
import time

from eunoe.schemas.decisions import Ledger, Scope
from eunoe.schemas.errors import StateDamaged
from eunoe.workers.stores.redis.connection import RedisClient, RedisConnection, Script
from eunoe.workers.stores.redis.keys import Keys
from eunoe.workers.stores.state.redis_store import RedisStore

log = logging.getLogger(__name__)

_CONDEMN = Script.load("condemn_ledger")


async def ledger_to_replace(store: RedisStore, client: RedisClient, keys: Keys, scope: Scope) -> Ledger:
    """The ledger of a stage; in place of a damaged one, which is marked as such, one that has decided nothing.

    `Transplants.swap` accepts and replaces what is marked; until then the ledger stays damaged to all others. Raises
    `Unavailable`.
    """
    redis, name = RedisConnection(client), keys.ledger(scope)
    while True:
        fields = await redis.command("HGETALL", name)
        try:
            return await store.ledger(scope)
        except StateDamaged as fault:
            words = [word for row in fields.items() for word in row]
            if lates := await redis.run(_CONDEMN, [name], [int(time.time()), *words]):
                log.warning("%s", fault)
                return Ledger(lates=int(lates))
