"""`eunoe drop`."""

import asyncio
from typing import Annotated

import typer

from eunoe.deploy.cli.output import Json, console, print_json
from eunoe.deploy.clients.connect import connected_settings
from eunoe.deploy.generations.promotion import check_droppable
from eunoe.deploy.generations.promotion import drop as remove


def drop(
    generation: Annotated[str, typer.Argument(help="The generation to remove.")],
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    as_json: Json = False,
) -> None:
    """Remove a generation for good: its topics, its points, its state. The log and recorded answers stay.

    Refused for the one that is live. Stop its workers first.
    """
    settings = connected_settings()
    asyncio.run(check_droppable(settings, generation))
    if not yes:
        typer.confirm(f"Remove all that generation {generation} remembers?", abort=True, err=True)
    removed = asyncio.run(remove(settings, generation))
    if as_json:
        print_json({"dropped": generation, "keys": removed})
    else:
        console.print(f"{generation} is gone ({removed} keys); it can be made again from the log")
