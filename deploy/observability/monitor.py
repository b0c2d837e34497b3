"""Takes the pulse of all stages of a process, again and again."""

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress

from eunoe.deploy.observability.health import HealthState
from eunoe.schemas.errors import Unavailable
from eunoe.streams.group.end_watch import EndWatch
from eunoe.streams.group.partition import LogicalPartition
from eunoe.streams.group.stage_consumer import StageConsumer

log = logging.getLogger(__name__)

EVERY_S = 2.0


@asynccontextmanager
async def monitored(health: HealthState, apps: Mapping[str, StageConsumer], ends: EndWatch) -> AsyncIterator[None]:
    """Sample beside the body."""
    task = asyncio.create_task(_run(health, apps, ends))
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        await ends.close()


async def _run(health: HealthState, apps: Mapping[str, StageConsumer], ends: EndWatch) -> None:
    while True:
        await sample(health, apps, ends)
        await asyncio.sleep(EVERY_S)


async def sample(health: HealthState, apps: Mapping[str, StageConsumer], ends: EndWatch) -> None:
    """One look at all stages. Where no broker answers, the ends are those known before."""
    handled = {stage: app.handled() for stage, app in apps.items()}
    known: dict[LogicalPartition, int] = {}
    try:
        known = await ends.ends({place for places in handled.values() for place in places})
    except Unavailable as fault:
        log.debug("the ends of the partitions are not known: %s", fault)
    for stage, app in apps.items():
        health.progress(stage).sample(handled[stage], known, rebalancing=app.rebalancing)
