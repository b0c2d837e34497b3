"""The ledger of erasures that the settings name, and what it says is erased."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path

from eunoe.deploy.clients.redis import open_redis_url
from eunoe.deploy.clients.shared import open_redis
from eunoe.deploy.settings import Settings, reveal
from eunoe.schemas.erasure import ErasedPart, ErasureLedger, erased_parts
from eunoe.schemas.errors import Refused
from eunoe.workers.stores.erasures.ledgers import AppliedErasures, RedisErasures
from eunoe.workers.stores.erasures.sqlite_ledger import SqliteErasures

NO_LEDGER = (
    "no ledger of erasures: set EUNOE_ERASURES to a file, or to the URL of a Redis of its own, for every process of"
    " this deployment (`eunoe up` has one)"
)


@asynccontextmanager
async def open_erasures(settings: Settings) -> AsyncIterator[ErasureLedger]:
    """The ledger of erasures, closed at the end; raises `Refused` where none is set."""
    where = reveal(settings.erasures)
    if where is None:
        raise Refused(NO_LEDGER)
    if "://" not in where:
        yield SqliteErasures(Path(where))
    elif where == reveal(settings.redis_url):
        raise Refused("EUNOE_ERASURES is the Redis of derived state, which may be thrown away: give it one of its own")
    else:
        async with open_redis_url(where) as client:
            yield RedisErasures(client, settings.prefix)


async def waiting_erasures(ledger: ErasureLedger) -> dict[tuple[str, str], datetime]:
    """Conversation and request → since when, of all that is requested or begun, and neither done nor refused.

    Only the ledger is asked. Raises `Unavailable`.
    """
    ended = {(done.key, done.request_id) for done in await ledger.done()}
    ended |= {(refused.key, refused.request_id) for refused in await ledger.refusals()}
    asked = {(erasure.key, erasure.request_id): erasure.at for erasure in await ledger.erasures()}
    asked |= {(request.key, request.request_id): request.at for request in await ledger.requests()}
    return {name: at for name, at in asked.items() if name not in ended}


async def is_pending(ledger: ErasureLedger) -> bool:
    """Whether a request or an erasure waits; only the ledger is asked. Raises `Unavailable`."""
    return bool(await waiting_erasures(ledger))


async def unseen_erasures(settings: Settings, ledger: ErasureLedger) -> tuple[int, int]:
    """Count the finished erasures that the state store lacks, as it does where it went back, and all finished ones.

    Raises `Unavailable`.
    """
    done = {(one.key, one.request_id) for one in await ledger.done()}
    if not done:
        return 0, 0
    async with open_redis(settings) as redis:
        lacking = done - await AppliedErasures(redis, settings.prefix).all()
    return len(lacking), len(done)


async def check_store_has_seen_erasures(settings: Settings) -> None:
    """Raise `Refused` where the state store lacks finished erasures (it was restored), and `Unavailable`."""
    if settings.erasures is None:
        return
    async with open_erasures(settings) as ledger:
        lacking, done = await unseen_erasures(settings, ledger)
    if lacking:
        raise Refused(
            f"Redis has not seen {lacking} of {done} finished erasures: it was restored from a backup;"
            " run `eunoe erase replay` before any worker"
        )


async def read_erased(settings: Settings) -> dict[str, ErasedPart]:
    """Key → what is erased of the conversation, for those who read the log.

    Raises `Refused` where erasures were carried out on these servers and the ledger is not set, or lacks some: reading
    the log without it would bring back what was erased. Raises `Unavailable`.
    """
    async with open_redis(settings) as redis:
        applied = await AppliedErasures(redis, settings.prefix).all()
    if settings.erasures is None:
        if applied:
            raise Refused(f"erasures were carried out on these servers ({len(applied)}), but there is {NO_LEDGER}")
        return {}
    async with open_erasures(settings) as ledger:
        erasures = await ledger.erasures()
    if lacking := applied - {(one.key, one.request_id) for one in erasures}:
        raise Refused(
            f"the ledger of erasures lacks {len(lacking)} of {len(applied)} that were carried out on these servers:"
            " it is another one, or an old copy; restore the latest"
        )
    return erased_parts(erasures)
