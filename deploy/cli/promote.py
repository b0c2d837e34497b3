"""`eunoe promote`."""

import asyncio
from typing import Annotated

import typer

from eunoe.deploy.cli.output import Json, console, note, print_json
from eunoe.deploy.clients.connect import connected_settings
from eunoe.deploy.generations.promotion import promote as let_answer


def promote(
    generation: Annotated[str, typer.Argument(help="The generation that shall answer.")], as_json: Json = False
) -> None:
    """Let another generation answer from now on; `eunoe promote` of the old one undoes it.

    Waits until the generation's workers have caught up with the log. Every ask is answered by exactly one generation;
    keep the workers of both running until the change has passed, then stop those of the old one.
    """

    def tell(left: int) -> None:
        note(f"{generation}: {left} records behind", quiet=as_json or not left)

    before = asyncio.run(let_answer(connected_settings(), generation, tell))
    if as_json:
        print_json({"live": generation, "before": before})
    else:
        console.print(f"{generation} answers now; {before} did before, and `eunoe promote {before}` undoes it")
