"""`eunoe topics repartition`, imported only when it runs."""

import asyncio
from contextlib import AsyncExitStack
from dataclasses import dataclass

import typer

from eunoe.deploy.cli.output import console, errors, note, print_json
from eunoe.deploy.cli.progress import ProgressBars
from eunoe.deploy.cli.rebuild import shown_on
from eunoe.deploy.generations.rebuild.follow import until_stopped
from eunoe.deploy.generations.rebuild.processes import forks_for_shares
from eunoe.deploy.inspect.counted import counted
from eunoe.deploy.repartition.plan import Move, survey
from eunoe.deploy.repartition.run import Moved, RebuildProcesses, repartition
from eunoe.deploy.settings import Settings


@dataclass(frozen=True, slots=True)
class RepartitionOptions:
    """The options of the command."""

    partitions: int
    into: str | None
    workers: int
    following: bool
    asking: bool
    as_json: bool


def change_partitions(settings: Settings, options: RepartitionOptions) -> None:
    """Survey, ask for confirmation, repartition, print the result."""
    with forks_for_shares() as forks:
        move = asyncio.run(survey(settings, options.partitions, options.into))
        if options.asking:
            typer.confirm(_question(move), abort=True, err=True)
        asyncio.run(_repartition(move, options, RebuildProcesses(options.workers, forks)))


def _question(move: Move) -> str:
    old, new = move.names
    again = "" if move.is_new else " (continuing an earlier attempt)"
    return (
        f"Copy {old} ({counted(move.before, 'partition')}) into {new} ({move.partitions}), build generation"
        f" {move.row.name} from"
        f" it{again}, and then refuse records that clients produce into {old}?"
    )


async def _repartition(move: Move, options: RepartitionOptions, processes: RebuildProcesses) -> None:
    as_json = options.as_json

    def report_lag(left: int) -> None:
        note(f"{move.row.name}: {counted(left, 'record')} behind", quiet=as_json or not left)

    async with AsyncExitStack() as closing:
        with ProgressBars(quiet=as_json) as bars:
            done, worker = await repartition(move, closing, shown_on(bars), report_lag, processes)
        _print(move, done, as_json=as_json)
        if options.following:
            note(f"workers of {move.row.name} run here until Ctrl-C", quiet=as_json)
            await until_stopped(worker)


def _print(move: Move, done: Moved, *, as_json: bool) -> None:
    old, new = move.names
    log = move.target.names.log
    if as_json:
        document = {"topic": new, "log": log, "partitions": move.partitions, "generation": move.row.name}
        before = {"topic": old, "partitions": move.before, "generation": move.row.source}
        made = done.made.model_dump(mode="json")
        print_json(
            {**document, "before": before, "records": done.copied, "left_out": done.left_out, **made, "note": done.note}
        )
        return
    console.print(
        f"{move.row.name} is live now, on {new} with {counted(move.partitions, 'partition')}:"
        f" {counted(done.copied, 'record')} copied, {counted(done.made.calls, 'model call')}."
        f" New records in {old} are refused.\n"
        f"Restart the workers with EUNOE_PARTITIONS={move.partitions}, and set EUNOE_LOG={log} for all clients",
        highlight=False,
    )
    if done.left_out:
        errors.print(f"not copied: {counted(done.left_out, 'record')} that intake had dead-lettered", highlight=False)
    note(done.note, quiet=not done.note)
