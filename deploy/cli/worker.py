"""`eunoe worker`."""

import asyncio
import logging
from typing import Annotated

import typer

from eunoe.deploy.cli.output import errors
from eunoe.deploy.clients.connect import connected_settings
from eunoe.deploy.event_loop import use_fast_loops
from eunoe.deploy.process.worker import run_worker
from eunoe.schemas.errors import Refused
from eunoe.workers.registry import GROUPS, STAGES


def worker(
    stages: Annotated[
        list[str],
        typer.Argument(
            help=f"The stages: {', '.join(STAGES)}. Or a group of them: all; replies ({', '.join(GROUPS['replies'])});"
            " memory (the others)."
        ),
    ],
    health: Annotated[
        str | None,
        typer.Option(help="HOST:PORT of /live, /ready and /metrics; a PORT alone is on loopback, 0 is any free one."),
    ] = None,
    log_level: Annotated[str, typer.Option(help="debug, info, warning or error.")] = "info",
) -> None:
    """Run stages in this process until it is told to stop (SIGTERM, Ctrl-C).

    Start as many processes as there are partitions at most: each stage is a consumer group of its own, and its
    conversations are shared out among its processes. `worker replies` beside `worker memory` keeps asks fast while
    much is imported. A server that is away is waited for. SIGTERM finishes or gives
    back what has begun, within EUNOE_SHUTDOWN_SECONDS. Exit codes: 0 stopped, 2 wrong settings, 69 a server stayed
    away, 70 it crashed, 75 another process took over (start it again), 78 too many events failed, 124 not stopped in
    time, 130 told twice.
    """
    logging.getLogger("eunoe").setLevel(log_level.upper())
    names = choose_stages(stages)
    settings = connected_settings()
    if health is not None:
        settings = settings.model_copy(update={"health": health})
    use_fast_loops()
    asyncio.run(run_worker(settings, names, lambda: errors.print(f"ready: {', '.join(names)}")))


def choose_stages(stages: list[str]) -> list[str]:
    """The stages that were named, by themselves or as a group; raises `Refused` for one that does not exist."""
    unknown = [stage for stage in stages if stage not in STAGES and stage not in GROUPS]
    if unknown:
        raise Refused(
            f"no stage {', '.join(unknown)}; there are {', '.join(STAGES)}, or the groups {', '.join(GROUPS)}"
        )
    return list(dict.fromkeys(name for stage in stages for name in GROUPS.get(stage, (stage,))))
