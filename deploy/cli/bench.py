"""`eunoe bench`."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import orjson
import typer
from rich.table import Table

from eunoe.deploy.cli.forking import forks_of_this
from eunoe.deploy.cli.output import Json, console, note, print_json
from eunoe.deploy.cli.progress import ProgressBars
from eunoe.deploy.clients.connect import DATA, connected_settings, kept_stack
from eunoe.deploy.clients.live_settings import live_settings
from eunoe.deploy.evaluate.report import check_folder
from eunoe.deploy.evaluate.soak.plan import SoakLimits, SoakPlan
from eunoe.deploy.evaluate.soak.plot import draw_soak
from eunoe.deploy.evaluate.soak.run import run_soak
from eunoe.deploy.evaluate.soak.samples import SoakRecord, SoakSample, ask_figures, fresh_figures
from eunoe.deploy.evaluate.soak.verdict import Judgement, judge
from eunoe.deploy.exits import Exit
from eunoe.deploy.inspect.counted import counted
from eunoe.deploy.local.notice import find_stack
from eunoe.deploy.process.forked import ForkServer
from eunoe.deploy.process.standalone import StandaloneOptions, open_standalone
from eunoe.deploy.settings import Settings, read_settings

LIMITS = SoakLimits()

app = typer.Typer(help="Put a load on a system and judge how it holds.", no_args_is_help=True)


@app.callback()
def _group() -> None:
    """Put a load on a system and judge how it holds."""


@app.command("soak")
def soak(
    minutes: Annotated[float, typer.Option(min=0.05, help="Length of the traffic, in minutes.")] = 60.0,
    rate: Annotated[float, typer.Option(min=0.01, help="Utterances per second, asks among them.")] = 2.0,
    conversations: Annotated[int, typer.Option(min=1, help="Number of conversations under way at once.")] = 20,
    asks: Annotated[float, typer.Option(min=0, max=1, help="Share of the utterances that ask, from 0 to 1.")] = 0.2,
    attach: Annotated[
        bool,
        typer.Option("--attach", help="Load the servers of EUNOE_KAFKA and so on, or of an `eunoe up` here."),
    ] = False,
    ask_limit: Annotated[
        float, typer.Option(min=1, help="Bound for 95 % of the asks, in milliseconds.")
    ] = LIMITS.ask_p95_ms,
    fresh_limit: Annotated[
        float, typer.Option(min=1, help="Bound for 95 % of the sessions, from their end to memory, in seconds.")
    ] = LIMITS.freshness_p95_s,
    report: Annotated[
        Path | None, typer.Option(help="Folder for soak.json and the plot soak.png (extra `eval`).")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the generated words.")] = 1,
    as_json: Json = False,
) -> None:
    """Send mixed traffic at a set rate, watch asks, freshness, lag and memory, and judge whether they hold.

    Without `--attach` a system of its own is started and removed. With it, generated conversations named `soak-…` stay
    in the memory. Exit code 0: it held; 1: it did not.
    """
    check_folder(report)
    plan = SoakPlan(minutes=minutes, rate=rate, conversations=conversations, asks=asks, seed=seed)
    limits = SoakLimits(ask_p95_ms=ask_limit, freshness_p95_s=fresh_limit)
    with nullcontext() if attach else forks_of_this() as forks, ProgressBars(quiet=as_json) as bars:
        record = asyncio.run(_run(plan, bars, forks, attach=attach))
    judgements = judge(record, limits, plan.minutes * 60)
    document = _document(plan, limits, record, judgements)
    if report is not None:
        (report / "soak.json").write_bytes(orjson.dumps(document, option=orjson.OPT_INDENT_2))
        draw_soak(record, report / "soak.png")
        note(f"report: {report / 'soak.json'}, {report / 'soak.png'}", quiet=as_json)
    if as_json:
        print_json(document)
    else:
        _print(record, judgements)
    if not document["held"]:
        raise typer.Exit(Exit.FAILED)


async def _run(plan: SoakPlan, bars: ProgressBars, forks: ForkServer | None, *, attach: bool) -> SoakRecord:
    def show(sample: SoakSample) -> None:
        total = round(plan.minutes * 60)
        said = f"{sample.sent} sent, {sample.lag} left, {counted(sample.dead_letters, 'dead letter')}"
        bars("seconds", min(round(sample.at_s), total), total, said)

    async with _system(bars, forks, attach=attach) as (settings, pid):
        return await run_soak(settings, plan, pid, show)


@asynccontextmanager
async def _system(
    bars: ProgressBars, forks: ForkServer | None, *, attach: bool
) -> AsyncIterator[tuple[Settings, int | None]]:
    """The settings of the system to load, and the process id of its `eunoe up` where there is one."""
    if attach:
        settings = connected_settings()
        stack = find_stack(DATA) if kept_stack(settings) is not None else None
        yield await live_settings(settings), None if stack is None else stack.pid
        return
    with TemporaryDirectory(prefix="eunoe-soak-") as data:
        async with open_standalone(read_settings(), StandaloneOptions(Path(data)), bars, forks) as system:
            yield system.settings, os.getpid()


def _document(plan: SoakPlan, limits: SoakLimits, record: SoakRecord, judgements: list[Judgement]) -> dict[str, Any]:
    return {
        "held": all(one.held for one in judgements),
        "judgements": [asdict(one) for one in judgements],
        "plan": asdict(plan),
        "limits": asdict(limits),
        "asks": len(record.asks),
        "sessions": len(record.fresh),
        **ask_figures([one.took_s for one in record.asks]),
        **fresh_figures([one.took_s for one in record.fresh]),
        **record.document(),
    }


def _print(record: SoakRecord, judgements: list[Judgement]) -> None:
    figures = ask_figures([one.took_s for one in record.asks]) | fresh_figures([one.took_s for one in record.fresh])
    sent = record.samples[-1].sent if record.samples else 0
    console.print(
        f"{counted(sent, 'utterance')}, {counted(len(record.asks), 'ask')} answered,"
        f" {counted(len(record.fresh), 'session')} remembered;"
        f" {', '.join(f'{name} {value}' for name, value in figures.items())}",
        highlight=False,
    )
    for failure in record.failures[:5]:
        console.print(f"  {failure}", markup=False, highlight=False)
    table = Table("condition", "figures", "held")
    for one in judgements:
        table.add_row(one.what, one.figures, "yes" if one.held else "[red]no[/red]")
    console.print(table)
