"""Runs the workers of a generation, so that it keeps up with the log."""

import asyncio

from eunoe.deploy.clients.connect import environment
from eunoe.deploy.clients.live_settings import of_generation
from eunoe.deploy.event_loop import stop_signal
from eunoe.deploy.generations.promotion import caught_up
from eunoe.deploy.generations.rebuild.plan import RebuildPlan
from eunoe.deploy.process.supervisor import WorkerProcess
from eunoe.deploy.progress import ReportCount
from eunoe.deploy.settings import Settings
from eunoe.streams.cancelling import first_ended


async def follow(settings: Settings, plan: RebuildPlan, report_lag: ReportCount) -> None:
    """Run all stages of the generation until Ctrl-C or SIGTERM.

    ``report_lag`` is called with the number of records behind until it is 0. Raises `Unavailable` when the worker
    ends for good.
    """
    target = of_generation(settings, plan.into, plan.changes)
    worker = WorkerProcess(["all"], environment(target))
    stop = stop_signal()
    try:
        await worker.start()
        await caught_up(target, report_lag)
        await until_stopped(worker, stop)
    finally:
        await worker.stop()


async def until_stopped(worker: WorkerProcess, stop: asyncio.Event | None = None) -> None:
    """Return at Ctrl-C or SIGTERM; raises `Unavailable` when the worker ends for good before."""
    stop = stop or stop_signal()
    await first_ended(worker.failed(), stop.wait())
