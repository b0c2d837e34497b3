"""`eunoe reindex`."""

import asyncio
from dataclasses import asdict

import typer

from eunoe.deploy.cli.output import Json, console, print_json
from eunoe.deploy.cli.progress import ProgressBars
from eunoe.deploy.clients.bootstrap import open_clients
from eunoe.deploy.clients.connect import connected_settings
from eunoe.deploy.clients.live_settings import live_settings
from eunoe.deploy.exits import Exit
from eunoe.deploy.generations.reindex import Reindexed
from eunoe.deploy.generations.reindex import reindex as fill
from eunoe.deploy.inspect.counted import counted


def reindex(as_json: Json = False) -> None:
    """Write the points that Qdrant lacks again from Redis, while workers run.

    Use it when Qdrant lost its data, or was restored from an old snapshot. Asks and memory stages wait until a lost
    index is complete. The generation is the live one, or that of EUNOE_GENERATION. It may be interrupted and repeated.

    Exit codes:

    - 0: the index is complete
    - 1: but for conversations whose snapshot in the cold store is lost; `eunoe repair` derives them again
    - 2: wrong settings, or another embedder than before
    - 69: a server did not answer
    - 130: interrupted; run it again
    """
    done = asyncio.run(_reindex(quiet=as_json))
    if as_json:
        print_json(asdict(done))
    else:
        console.print(_line(done), highlight=False, markup=False)
    if done.lost:
        raise typer.Exit(Exit.FAILED)


async def _reindex(*, quiet: bool) -> Reindexed:
    settings = await live_settings(connected_settings())
    async with open_clients(settings, thaws=False) as clients:
        with ProgressBars(quiet=quiet, transient=True) as bars:
            return await fill(settings, clients, bars)


def _line(done: Reindexed) -> str:
    whole = f"the index of {counted(done.conversations, 'conversation')} is complete"
    if done.lost:
        whole += f"; {counted(done.lost, 'snapshot')} lost: `eunoe repair` derives such conversations again"
    if not done.points:
        return f"{done.generation}: {whole}; nothing was written"
    points, restored = counted(done.points, "point"), counted(done.restored, "conversation")
    return f"{done.generation}: {points} of {restored} written; {whole}"
