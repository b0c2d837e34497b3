"""Watches the vector index of a worker: holds readiness and says so while it lacks points."""

import asyncio
import logging
from typing import Final

from eunoe.deploy.clients.bootstrap import open_qdrant
from eunoe.deploy.clients.shared import open_redis, store_keys
from eunoe.deploy.observability.health import HealthState
from eunoe.deploy.observability.rounds import Faults, repeat
from eunoe.deploy.settings import Settings
from eunoe.schemas.errors import Unavailable
from eunoe.workers.derive.index_guard import SERVER, IndexGuard
from eunoe.workers.runner.backoff import Absence
from eunoe.workers.stores.records.index_record import RedisIndexRecord, lost_reason
from eunoe.workers.stores.vectors.qdrant import QdrantIndex

log = logging.getLogger(__name__)

EVERY_S: Final = 5.0
"""Seconds between two checks."""
LOG_EVERY: Final = 12
"""Checks between two log lines about the same trouble."""


async def watch_index(guard: IndexGuard, health: HealthState) -> None:
    """Check the index forever; a server that is away delays the next check, and counts as waited for."""
    bad, absence = 0, Absence(health.outages)
    while True:
        try:
            bad = await check_index(guard, health, bad)
            absence.end()
        except Unavailable as fault:
            absence.note(fault)
        await asyncio.sleep(EVERY_S)


async def check_index(guard: IndexGuard, health: HealthState, bad: int) -> int:
    """Check the index once; ``bad`` is the number of checks in a row that found trouble, and so is the result.

    Raises `Unavailable`.
    """
    await guard.check()
    reason = guard.lost or await guard.sample()
    if reason is None:
        if bad:
            log.warning("%s is complete again", SERVER)
        health.held.pop(SERVER, None)
        return 0
    health.held[SERVER] = reason
    if bad % LOG_EVERY == 0:
        log.error("%s: %s; %s", SERVER, reason, "all searches wait" if guard.lost else "only these wait")
    return bad + 1


async def report_lost_index(settings: Settings) -> None:
    """Log forever when the index is lost, for a process without stages: workers log to files of their own."""
    before: str | None = None
    keys = store_keys(settings)
    async with open_redis(settings) as redis, open_qdrant(settings) as client:
        record, index = RedisIndexRecord(redis, keys), QdrantIndex(client, keys)

        async def look() -> None:
            nonlocal before
            lost = lost_reason(await record.read(), await index.identities())
            if lost is not None and before is None:
                log.error("%s: %s; asks wait", SERVER, lost)
            elif lost is None and before is not None:
                log.warning("%s is complete again", SERVER)
            before = lost

        await repeat(look, EVERY_S, Faults("the look at the vector index"))
