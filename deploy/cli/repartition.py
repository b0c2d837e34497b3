"""What `eunoe topics repartition` does and says."""

import asyncio
from contextlib import AsyncExitStack
from dataclasses import dataclass

import typer

from eunoe.deploy.cli.output import console, errors, note, print_json
from eunoe.deploy.cli.progress import ProgressBars
from eunoe.deploy.cli.rebuild import shown_on
from eunoe.deploy.generations.rebuild.follow import until_stopped
from eunoe.deploy.repartition.run import Move, Moved, repartition, survey
from eunoe.deploy.settings import Settings


@dataclass(frozen=True, slots=True)
class RepartitionOptions:
    """What was asked for."""

    partitions: int
    into: str | None
    workers: int
    following: bool
    asking: bool
    as_json: bool


def change_partitions(settings: Settings, wish: RepartitionOptions) -> None:
    """Look, ask, do it, tell."""
    move = asyncio.run(survey(settings, wish.partitions, wish.into))
    if wish.asking:
        typer.confirm(_question(move), abort=True, err=True)
    asyncio.run(_repartition(move, wish))


def _question(move: Move) -> str:
    old, new = move.names
    again = "" if move.is_new else " (it was begun already, and goes on)"
    return (
        f"Copy {old} ({move.before} partitions) into {new} ({move.partitions}), make generation {move.row.name} from it"
        f"{again}, and then refuse what clients produce into {old}?"
    )


async def _repartition(move: Move, wish: RepartitionOptions) -> None:
    as_json = wish.as_json

    def report_lag(left: int) -> None:
        note(f"{move.row.name}: {left} records behind", quiet=as_json or not left)

    async with AsyncExitStack() as closing:
        with ProgressBars(quiet=as_json) as bars:
            done, worker = await repartition(move, closing, shown_on(bars), report_lag, workers=wish.workers)
        _tell(move, done, as_json=as_json)
        if wish.following:
            note(f"the workers of {move.row.name} run here; Ctrl-C stops them", quiet=as_json)
            await until_stopped(worker)


def _tell(move: Move, done: Moved, *, as_json: bool) -> None:
    old, new = move.names
    log = move.target.names.log
    if as_json:
        told = {"topic": new, "log": log, "partitions": move.partitions, "generation": move.row.name}
        before = {"topic": old, "partitions": move.before, "generation": move.row.source}
        made = done.made.model_dump(mode="json")
        print_json(
            {**told, "before": before, "records": done.copied, "left_out": done.left_out, **made, "note": done.note}
        )
        return
    console.print(
        f"{move.row.name} answers now, from {new} with {move.partitions} partitions: {done.copied} records were taken"
        f" over, {done.made.calls} model calls made. {old} is refused from here on.\n"
        f"Start the workers afresh (with EUNOE_PARTITIONS={move.partitions}), and tell clients EUNOE_LOG={log}",
        highlight=False,
    )
    if done.left_out:
        errors.print(f"{done.left_out} records that intake had set aside stay where they were", highlight=False)
    note(done.note, quiet=not done.note)
