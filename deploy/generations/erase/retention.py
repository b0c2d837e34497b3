"""Retention: erases the sessions that are older than their tenant keeps, by the times of the log.

Which sessions go is written into the ledger of erasures, so that a rebuild leaves out the same ones at any later time.
"""

import logging
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Final
from uuid import uuid4

from eunoe.deploy.clients.shared import open_redis, open_store
from eunoe.deploy.generations.erase.batch import WorkedOff, in_batches
from eunoe.deploy.generations.erase.run import Eraser
from eunoe.deploy.inspect.known import last_known
from eunoe.deploy.settings import Settings
from eunoe.schemas.decisions import Scope
from eunoe.schemas.erasure import Erasure, ErasureRequest, RetentionPolicy, current_policies
from eunoe.schemas.errors import Refused, RequestRefused, StateLost
from eunoe.schemas.identity import conversation_key
from eunoe.schemas.ports import StateStore
from eunoe.workers.stores.redis.connection import RedisConnection
from eunoe.workers.update.tables import NAME as UPDATE

log = logging.getLogger(__name__)

MAX_AHEAD_S: Final = 3600.0
"""Seconds that the clock may be ahead of that of the state store; policies are of days."""


async def outdated(eraser: Eraser, now: datetime, tenant: str | None = None) -> list[ErasureRequest]:
    """A request for each conversation with sessions that are too old, of a tenant or of all. Raises `Unavailable`.

    Only the state store is read; which utterances go is found in the log when the erasure is planned.
    """
    found = []
    async with open_store(eraser.settings) as store:
        for policy in current_policies(await eraser.ledger.retentions(tenant)).values():
            limit = limit_of(policy, now)
            found += [
                ErasureRequest(request_id=f"retention-{uuid4()}", key=key, at=now, older_than=limit)
                for key in await eraser.conversations(conversation_key(policy.key, "x").removesuffix("x"))
                if await _has_older(store, key, limit, await eraser.ledger.erasures(key))
            ]
    return found


async def trusted_now(settings: Settings, clock: Callable[[], datetime] = lambda: datetime.now(UTC)) -> datetime:
    """The time by which retention may erase: what goes too early cannot be brought back.

    Raises `Refused` where the clock of this machine is far ahead of that of the state store, `Unavailable`.
    """
    async with open_redis(settings) as redis:
        there_s = await RedisConnection(redis).clock()
    now = clock()
    if (ahead_s := now.timestamp() - there_s) > MAX_AHEAD_S:
        raise Refused(
            f"the clock of this machine is {ahead_s / 3600:.1f} hours ahead of that of Redis: retention would erase"
            " sessions too early, for good, and erases nothing until they agree. Set the clock that is wrong"
        )
    return now


def limit_of(policy: RetentionPolicy, now: datetime) -> datetime:
    """The time before which the last utterance of a session must have come, so that it is too old."""
    assert policy.days is not None
    return now - timedelta(days=policy.days)


async def _has_older(store: StateStore, key: str, limit: datetime, erasures: Sequence[Erasure]) -> bool:
    """Whether more sessions were remembered before this time than before that of the last run; else unknown: true."""
    try:
        last = (await store.ledger(Scope(UPDATE, key))).applied
        runs = [one.older_than for one in erasures if one.older_than is not None]
        done = await last_known(store, key, last, max(runs)) if runs else 0
        return await last_known(store, key, last, limit) > done
    except StateLost as fault:  # the log tells; the erasure derives it again
        log.warning("retention: %s", fault)
        return True


async def plan_retention(eraser: Eraser, requests: Sequence[ErasureRequest]) -> list[Erasure]:
    """The entries that the requests would make; nothing is written. Raises `Refused`, `Unavailable`."""
    planned = []
    eraser.expect(one.key for one in requests)
    for request in requests:
        try:
            planned.append(await eraser.plan(request))
        except RequestRefused as fault:  # it was remembered long ago, but spoken in later
            log.info("retention: %s", fault)
    return planned


async def run_retention(
    eraser: Eraser, now: datetime, tenant: str | None = None, outcome: WorkedOff | None = None
) -> WorkedOff:
    """Erase what is too old: one entry of the ledger for each conversation.

    One that is still written to is left, and so is one that meets a fault. Raises `Refused`, and `Unavailable` where
    several in a row do: then some of it may still be there, so run it again; ``outcome`` has what was done before.
    """
    outcome = outcome or WorkedOff()
    async with eraser.kept() as kept, in_batches(kept, outcome) as batches:
        requests = await outdated(kept, now, tenant)
        kept.expect(one.key for one in requests)
        await batches.carry_out((request.key, partial(_begun, kept, request)) for request in requests)
    return outcome


async def _begun(eraser: Eraser, request: ErasureRequest) -> list[Erasure]:
    """The erasure that a request begins; none where nothing of it is left to erase."""
    try:
        return [await eraser.begin(request)]
    except RequestRefused as fault:
        log.info("retention: %s", fault)
        return []
