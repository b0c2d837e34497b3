"""Samples the progress of all stages of a process."""

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
async def monitored(health: HealthState, consumers: Mapping[str, StageConsumer], ends: EndWatch) -> AsyncIterator[None]:
    """Sample every `EVERY_S` seconds during the body."""
    task = asyncio.create_task(_run(health, consumers, ends))
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        await ends.close()


async def _run(health: HealthState, consumers: Mapping[str, StageConsumer], ends: EndWatch) -> None:
    while True:
        await sample(health, consumers, ends)
        await asyncio.sleep(EVERY_S)


async def sample(health: HealthState, consumers: Mapping[str, StageConsumer], ends: EndWatch) -> None:
    """Sample all stages once. Where no broker answers, the ends of the partitions stay those known before."""
    handled = {stage: consumer.handled() for stage, consumer in consumers.items()}
    known: dict[LogicalPartition, int] = {}
    try:
        known = await ends.ends({place for places in handled.values() for place in places})
    except Unavailable as fault:
        log.debug("the ends of the partitions are not known: %s", fault)
    for stage, consumer in consumers.items():
        health.progress(stage).sample(handled[stage], known, rebalancing=consumer.rebalancing)
