"""`eunoe drop`."""

import asyncio
from typing import Annotated

import typer

from eunoe.deploy.cli.output import Json, console, print_json
from eunoe.deploy.clients.connect import connected_settings
from eunoe.deploy.generations.promotion import check_droppable
from eunoe.deploy.generations.promotion import drop as delete
from eunoe.deploy.inspect.counted import counted


def drop(
    generation: Annotated[str, typer.Argument(help="Name of the generation, for instance v1.")],
    yes: Annotated[bool, typer.Option("--yes", help="Skip the confirmation.")] = False,
    as_json: Json = False,
) -> None:
    """Delete a generation: its topics, vectors and state; the log and recorded answers stay.

    Stop its workers first: while they run it is refused. The live generation is refused.
    """
    settings = connected_settings()
    asyncio.run(check_droppable(settings, generation))
    if not yes:
        typer.confirm(f"Delete generation {generation}: its topics, vectors and state?", abort=True, err=True)
    removed = asyncio.run(delete(settings, generation))
    if as_json:
        print_json({"dropped": generation, "keys": removed})
    else:
        console.print(
            f"{generation} deleted ({counted(removed, 'Redis key')}); to build it again:"
            f" eunoe rebuild --into {generation}"
        )
