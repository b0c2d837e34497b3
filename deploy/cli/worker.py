"""`eunoe worker`."""

import asyncio
from contextlib import nullcontext
from functools import partial
from typing import Annotated

import typer

from eunoe.deploy.cli.model_check import model_checked
from eunoe.deploy.cli.output import errors, set_log_level
from eunoe.deploy.clients.connect import connected_settings
from eunoe.deploy.event_loop import share_one_heap, use_fast_loops
from eunoe.deploy.process.supervisor import RESTED
from eunoe.deploy.process.worker import run_worker
from eunoe.deploy.settings import Settings
from eunoe.schemas.errors import Refused
from eunoe.workers.models.questions.metering import ASKING_STAGES
from eunoe.workers.registry import GROUPS, STAGES, load_stages


def worker(
    stages: Annotated[
        list[str],
        typer.Argument(
            help=f"Stages: {', '.join(STAGES)}; or groups: all, replies ({', '.join(GROUPS['replies'])}),"
            " memory (the others)."
        ),
    ],
    health: Annotated[
        str | None,
        typer.Option(
            help="HOST:PORT that serves /live, /ready and /metrics; PORT alone: on loopback; 0: any free port."
        ),
    ] = None,
    log_level: Annotated[str, typer.Option(help="Log level: debug, info, warning or error.")] = "info",
) -> None:
    """Run stages in this process until SIGTERM or Ctrl-C.

    Each stage is a consumer group; start up to as many processes as the topics have partitions. Run `worker replies`
    and `worker memory` as separate processes to keep replies fast during imports. A server that is down is waited
    for. On SIGTERM the process finishes or gives back its work within EUNOE_SHUTDOWN_SECONDS.

    Exit codes:

    - 0: stopped
    - 2: wrong settings or topics
    - 69: a server stayed down
    - 70: crashed
    - 72: a part of the installation is missing
    - 75: another process took over; start this one again
    - 78: events of too many conversations failed
    - 124: not stopped in time
    - 130: stopped at once by a second signal
    """
    set_log_level(log_level)
    names = choose_stages(stages)
    settings = connected_settings()
    if health is not None:
        settings = settings.model_copy(update={"health": health})
    load_stages()
    share_one_heap()
    use_fast_loops()
    asyncio.run(_worker(settings, names))


async def _worker(settings: Settings, names: list[str]) -> None:
    async with model_checked(settings) if set(names) & set(ASKING_STAGES) else nullcontext():
        ready = partial(errors.print, f"ready: {', '.join(names)}")
        await run_worker(settings, names, ready, partial(errors.print, RESTED))


def choose_stages(stages: list[str]) -> list[str]:
    """The named stages, groups expanded, each once; raises `Refused` for an unknown name."""
    unknown = [stage for stage in stages if stage not in STAGES and stage not in GROUPS]
    if unknown:
        raise Refused(
            f"no stage {', '.join(unknown)}; there are {', '.join(STAGES)}, or the groups {', '.join(GROUPS)}"
        )
    return list(dict.fromkeys(name for stage in stages for name in GROUPS.get(stage, (stage,))))
