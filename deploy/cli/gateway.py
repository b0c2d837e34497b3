"""`eunoe gateway`."""

import asyncio
from typing import Annotated

import typer

from eunoe.deploy.cli.output import errors, set_log_level
from eunoe.deploy.clients.connect import connected_settings
from eunoe.deploy.event_loop import use_fast_loops
from eunoe.deploy.gateway.server import run_gateway


def gateway(
    address: Annotated[
        str | None,
        typer.Option(help="HOST:PORT that serves clients; PORT alone: on loopback; 0: any free port."),
    ] = None,
    health: Annotated[
        str | None,
        typer.Option(
            help="HOST:PORT that serves /live, /ready and /metrics; PORT alone: on loopback; 0: any free port."
        ),
    ] = None,
    log_level: Annotated[str, typer.Option(help="Log level: debug, info, warning or error.")] = "info",
) -> None:
    """Serve the memory over HTTP until SIGTERM or Ctrl-C.

    Start any number of them behind a load balancer: they hold nothing that a restart loses. Clients send a key of
    `eunoe keys create`. Exit codes are those of `eunoe worker`.
    """
    set_log_level(log_level)
    settings = connected_settings()
    if address is not None:
        changed = settings.gateway.model_copy(update={"address": address})
        settings = settings.model_copy(update={"gateway": changed})
    if health is not None:
        settings = settings.model_copy(update={"health": health})
    use_fast_loops()
    asyncio.run(run_gateway(settings, lambda url: errors.print(f"ready: {url}", highlight=False, soft_wrap=True)))
