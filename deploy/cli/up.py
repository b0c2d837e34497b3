"""`eunoe up`."""

import asyncio
import logging
import signal
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from eunoe.deploy.cli.output import Json, console, errors, print_json
from eunoe.deploy.cli.progress import ProgressBars
from eunoe.deploy.clients.connect import DATA
from eunoe.deploy.local.stack import Ports
from eunoe.deploy.process.standalone import Standalone, StandaloneOptions, open_standalone
from eunoe.deploy.settings import read_settings


def up(
    data: Annotated[Path, typer.Option(help="Directory that keeps the memory between starts.")] = DATA,
    throw_away: Annotated[
        bool, typer.Option("--throw-away", help="Keep nothing: use a temporary directory, deleted at the end.")
    ] = False,
    workers: Annotated[bool, typer.Option(help="Run the stages too, not only the servers.")] = True,
    kafka_port: Annotated[int, typer.Option(help="Port of the broker; 0: any free port.")] = 0,
    redis_port: Annotated[int, typer.Option(help="Port of Redis; 0: any free port.")] = 0,
    qdrant_port: Annotated[int, typer.Option(help="Port of Qdrant; 0: any free port.")] = 0,
    as_json: Json = False,
) -> None:
    """Run a broker, Redis, Qdrant and all stages on this machine until Ctrl-C.

    One worker process replies, another builds the memory. Other commands started in the same directory find the
    servers by themselves. The memory is kept in the data directory: the next start continues with it.
    """
    plan = StandaloneOptions(
        data=None if throw_away else data, workers=workers, ports=Ports(kafka_port, redis_port, qdrant_port)
    )
    with ProgressBars(quiet=as_json) as bars:
        asyncio.run(_up(plan, bars, as_json))


async def _up(plan: StandaloneOptions, bars: ProgressBars, as_json: bool) -> None:
    logging.getLogger("eunoe").setLevel(logging.INFO)
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with open_standalone(read_settings(), plan, bars) as home:
        _print_ready(home, plan, as_json)
        failed, stopping = asyncio.ensure_future(home.failed()), asyncio.ensure_future(stop.wait())
        done, waiting = await asyncio.wait({failed, stopping}, return_when=asyncio.FIRST_COMPLETED)
        for task in waiting:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        if failed in done:
            failed.result()
        errors.print("stopping …")


def _print_ready(home: Standalone, plan: StandaloneOptions, as_json: bool) -> None:
    urls = home.stack.urls
    if as_json:
        print_json({**urls.model_dump(mode="json"), "data": None if plan.data is None else str(plan.data)})
        return
    stages = "all stages run" if plan.workers else "no stage runs: start `eunoe worker all`"
    kept = "nothing is kept" if plan.data is None else f"the memory is kept in {plan.data}"
    console.print(
        f"ready: {stages}; {kept}; Ctrl-C stops\n  EUNOE_KAFKA={urls.kafka}\n"
        f"  EUNOE_REDIS_URL={urls.redis_url}\n  EUNOE_QDRANT_URL={urls.qdrant_url}",
        highlight=False,
    )
