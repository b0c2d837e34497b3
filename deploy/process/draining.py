"""Stops the stages of `eunoe up` so that nothing is left between them: a clean stop, after which nothing is rebuilt."""

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress
from time import monotonic
from typing import Final

from eunoe.deploy.local.journal_writer import JournalWriter
from eunoe.deploy.local.stack import LocalStack
from eunoe.deploy.process.supervisor import WorkerProcess
from eunoe.deploy.progress import ReportProgress
from eunoe.deploy.settings import Settings
from eunoe.schemas.errors import Unavailable
from eunoe.streams.lag import Ends, ends_now, lag
from eunoe.workers.registry import STAGES, Stages

log = logging.getLogger(__name__)

DRAIN_POLL_S = 0.2
LOG_S: Final = 8.0
"""Seconds that intake may take at the stop to handle what the log holds; the rest waits for the next start."""


async def settle(
    settings: Settings,
    stack: LocalStack,
    workers: Sequence[WorkerProcess],
    writer: JournalWriter,
    report: ReportProgress,
    limit_s: float,
) -> None:
    """Drain all stages and mark the directory clean; where that fails, the next start rebuilds memory.

    Clients of other processes may go on producing, so that the log has no end. So intake stops first; what it did not
    take is in the journal, and taken at the next start. ``limit_s``: seconds that the stages behind intake may take.
    """
    starts = [worker.starts for worker in workers]
    of_log = {name: spec for name, spec in STAGES.items() if spec.reads_log}
    try:
        until = await ends_now(settings.kafka_settings, settings.names, _inputs(of_log))
        with suppress(Unavailable):  # what was asked before the stop is answered, unless there is too much
            await drained(settings, min(LOG_S, limit_s), _no_report, of_log, until)
        resting = await asyncio.gather(*(worker.rest() for worker in workers))
        behind = {name: spec for name, spec in STAGES.items() if name not in of_log}
        await drained(settings, limit_s, report, behind if all(resting) else STAGES)
        await asyncio.gather(*(worker.stop() for worker in workers))
        await writer.drain()
        if starts != [worker.starts for worker in workers]:  # also of one that had ended before
            raise Unavailable("a worker was started again meanwhile, and read on in the log")
    except Unavailable as fault:
        log.warning("not a clean stop, memory will be rebuilt at the next start: %s", fault)
        return
    stack.mark_drained()


def _no_report(_phase: str, _done: int, _total: int) -> None:
    pass


def _inputs(stages: Stages) -> set[str]:
    return {topic for spec in stages.values() for topic in spec.inputs}


async def drained(
    settings: Settings,
    limit_s: float,
    report: ReportProgress,
    stages: Stages = STAGES,
    until: Ends | None = None,
) -> None:
    """Wait until no stage has records left, up to the present ends or ``until``.

    Raises `Unavailable` after ``limit_s`` seconds.
    """
    inputs = {name: spec.inputs for name, spec in stages.items()}
    total, end = 0, monotonic() + limit_s
    while left := sum((await lag(settings.kafka_settings, settings.names, inputs, until)).values()):
        total = max(total, left)
        report("stages", total - left, total)
        if monotonic() >= end:
            raise Unavailable(f"the stages had {left} events left after {limit_s:.0f} s")
        await asyncio.sleep(DRAIN_POLL_S)
    report("stages", total, total)
