"""`eunoe skip`."""

import asyncio
from dataclasses import asdict
from typing import Annotated

import typer

from eunoe.deploy.cli.output import Json, console, print_json
from eunoe.deploy.clients.connect import connected_settings
from eunoe.deploy.clients.live_settings import live_settings
from eunoe.deploy.inspect.skips import SkipTarget, find_target, parse_place, store_skip
from eunoe.schemas.errors import Refused


def skip(
    where: Annotated[
        str, typer.Argument(metavar="TOPIC/PARTITION@OFFSET", help="The record, as the log of a stage names it.")
    ],
    reason: Annotated[str, typer.Option(help="Reason, kept in the dead letter.")] = "no reason given",
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Skip the confirmation.")] = False,
    as_json: Json = False,
) -> None:
    """Pass over a record that a stage cannot handle: it becomes a dead letter, and its partition goes on.

    The stages that read its topic may run or be down: a running one passes over it within seconds, when the attempt
    under way has ended, another one at its start. The session goes on as skipped, also in a rebuild;
    `eunoe dead-letters retry` decides it after all.

    Exit codes:

    - 0: recorded
    - 2: no such record, or another form of argument
    - 69: a server did not answer
    """
    place = parse_place(where)
    if not reason.strip():
        raise Refused("--reason is empty: say why the record is passed over, or leave the option out")
    settings = asyncio.run(live_settings(connected_settings()))
    target = asyncio.run(find_target(settings, place))
    if not yes:
        if as_json:
            raise Refused("--json cannot ask for confirmation: add --yes")
        typer.confirm(f"Pass over {_described(target)}?", abort=True, err=True)
    asyncio.run(store_skip(settings, place, reason))
    if as_json:
        print_json({**asdict(target), "place": str(place)})
    else:
        console.print(f"{_described(target)}: passed over as soon as it comes", highlight=False, markup=False)


def _described(target: SkipTarget) -> str:
    return f"{target.place} (key {target.key}, {target.size} bytes; read by {', '.join(target.stages)})"
