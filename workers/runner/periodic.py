"""Repeats the background work of a stage while its process runs."""

import asyncio
import math

from eunoe.workers.runner.backoff import Backoff, Outages, UnboundedLease
from eunoe.workers.stage import PeriodicTask


async def run_periodically(task: PeriodicTask, outages: Outages) -> None:
    """Run rounds forever; a server that is away only delays the next round."""
    backoff = Backoff(first=task.interval_s)
    while True:
        await outages.retry(task.run, UnboundedLease(), backoff, math.inf)
        await asyncio.sleep(task.interval_s)
