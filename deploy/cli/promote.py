"""`eunoe promote`."""

import asyncio
from typing import Annotated

import typer

from eunoe.deploy.cli.output import Json, console, note, print_json
from eunoe.deploy.clients.connect import connected_settings, left_behind
from eunoe.deploy.generations.promotion import promote as make_live
from eunoe.deploy.inspect.counted import counted


def promote(
    generation: Annotated[str, typer.Argument(help="Name of the generation, for instance v2.")], as_json: Json = False
) -> None:
    """Make a generation live; promote the old one to undo it.

    First waits until the generation's workers have caught up with the log; refused where there are none. Exactly one
    generation answers each ask. Keep the workers of both generations running until the command ends, then stop the old
    one's. `eunoe up` runs those of the generation that is live at its start: start it again afterwards.
    """
    told = 0

    def report_lag(left: int) -> None:
        nonlocal told
        note(f"{generation}: {counted(left, 'record')} behind", quiet=as_json or left in (0, told))
        told = left

    settings = connected_settings()
    before = asyncio.run(make_live(settings, generation, report_lag))
    if as_json:
        print_json({"live": generation, "before": before})
    else:
        console.print(f"{generation} is live now, instead of {before}; to undo: eunoe promote {before}")
    if (advice := left_behind(settings, generation)) is not None:
        note(advice)
