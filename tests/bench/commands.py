"""The commands of ``python -m tests.bench``."""

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from eunoe.deploy.cli.output import Json, console, errors, print_json
from eunoe.deploy.cli.progress import ProgressBars
from eunoe.deploy.settings import read_settings
from eunoe.schemas.errors import Refused
from tests.bench.ask import AskTimes, bench_ask
from tests.bench.growth import MARKS as SESSION_MARKS
from tests.bench.growth import GrowthPlan, bench_growth, growth_plot
from tests.bench.load import LoadPlan, Talk
from tests.bench.pipeline import PipelinePlan, bench_pipeline
from tests.bench.reply import MARKS as MEMORY_MARKS
from tests.bench.reply import ReplyBenchOptions, bench_reply, reply_plot
from tests.bench.report import Plot, grid, write_report
from tests.bench.rig import ALL, RigPlan
from tests.bench.scale import ScalePlan, bench_scale, scale_plot

app = typer.Typer(help="Measure. No time is asserted, but a run whose result is wrong fails.", no_args_is_help=True)

REPORTS = Path("reports")

Reports = Annotated[Path, typer.Option(help="Where the report goes: JSON, Markdown, and a plot where there is one.")]
Delay = Annotated[float, typer.Option(min=0, help="Seconds before each answer of the benchmark's own model server.")]
Offline = Annotated[bool, typer.Option("--offline", help="No language model: the offline twins decide.")]
BaseUrl = Annotated[str | None, typer.Option(help="Ask this OpenAI-compatible endpoint instead.")]
Attach = Annotated[
    bool,
    typer.Option("--attach", help="On the servers of EUNOE_* or of an `eunoe up` here, under a prefix of its own."),
]
Seed = Annotated[int, typer.Option(help="Another seed, other conversations.")]


def _joined(numbers: Iterable[int]) -> str:
    return ",".join(map(str, numbers))


def _numbers(text: str) -> tuple[int, ...]:
    """Positive numbers between commas; raises `Refused` for anything else."""
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() and int(part) > 0 for part in parts):
        raise Refused(f"{text!r}: give positive numbers with commas between them, like 1,2,4")
    return tuple(map(int, parts))


@app.command("ask")
def ask(
    asks: Annotated[int, typer.Option(min=2, help="How many questions, one after the other.")] = 50,
    as_json: Json = False,
) -> None:
    """Time asks from end to end on the embedded stack, by hop: p50 and p95 in milliseconds."""
    times = asyncio.run(bench_ask(read_settings(), asks))
    if as_json:
        print_json({name: _document(hop) for name, hop in times.items()} | {"asks": asks})
        return
    table = Table("hop", "p50 ms", "p95 ms", title=f"{asks} asks")
    for name, hop in times.items():
        table.add_row(name, f"{hop.p50_ms:.1f}", f"{hop.p95_ms:.1f}")
    console.print(table)


@app.command("pipeline")
def pipeline(
    conversations: Annotated[int, typer.Option(min=1)] = 20,
    sessions: Annotated[int, typer.Option(min=1, help="Sessions of each conversation.")] = 20,
    turns: Annotated[int, typer.Option(min=1, help="Utterances of each session.")] = 10,
    delay: Delay = 0.2,
    offline: Offline = False,
    base_url: BaseUrl = None,
    workers: Annotated[int, typer.Option(min=1, help="Worker processes, each with all stages.")] = 1,
    attach: Attach = False,
    compare: Annotated[bool, typer.Option(help="Compare the digest with that of a sequential run.")] = True,
    talk: Annotated[Talk, typer.Option(help="What is said.")] = Talk.VARIED,
    seed: Seed = 1,
    reports: Reports = REPORTS,
    as_json: Json = False,
) -> None:
    """Produce generated conversations and time their way through all stages, until every last decision is durable.

    The run fails where a session is missing, an event was set aside, the index disagrees with the state store, or
    the memory is not that of a sequential run of the same events.
    """
    rig = RigPlan((ALL,) * workers, None if offline else delay, base_url, attach=attach)
    plan = PipelinePlan(LoadPlan(conversations, sessions, turns, seed, talk), rig, compare)
    with ProgressBars(quiet=as_json) as bars:
        figures = asyncio.run(bench_pipeline(plan, read_settings(), bars))
    _finish("pipeline", asdict(plan), figures, reports, as_json=as_json)


@app.command("growth")
def growth(
    marks: Annotated[str, typer.Option(help="Sessions that are held when one more is measured.")] = _joined(
        SESSION_MARKS
    ),
    turns: Annotated[int, typer.Option(min=1, help="Utterances of each session.")] = 10,
    offline: Offline = False,
    attach: Attach = False,
    seed: Seed = 1,
    reports: Reports = REPORTS,
    as_json: Json = False,
) -> None:
    """What one more session costs in a conversation that holds many; draws a line per stage."""
    rig = RigPlan(delay_s=None if offline else 0.0, attach=attach)
    plan = GrowthPlan(_numbers(marks), turns=turns, seed=seed, rig=rig)
    with ProgressBars(quiet=as_json) as bars:
        figures = asyncio.run(bench_growth(plan, read_settings(), bars))
    _finish("growth", asdict(plan), figures, reports, as_json=as_json, plot=growth_plot(figures))


@app.command("reply")
def reply(
    marks: Annotated[str, typer.Option(help="Memories of the conversation asked; 100000 takes long.")] = _joined(
        MEMORY_MARKS
    ),
    beside: Annotated[int, typer.Option(min=0, help="Conversations beside it.")] = 1_000,
    asks: Annotated[int, typer.Option(min=2, help="Questions at each mark, one after the other.")] = 100,
    seed: Seed = 1,
    reports: Reports = REPORTS,
    as_json: Json = False,
) -> None:
    """Time replies without a language model beside more and more memories: whole, by hop and by source."""
    plan = ReplyBenchOptions(_numbers(marks), beside, asks, seed)
    with ProgressBars(quiet=as_json) as bars:
        figures = asyncio.run(bench_reply(plan, read_settings(), bars))
    _finish("reply", asdict(plan), figures, reports, as_json=as_json, plot=reply_plot(figures))


@app.command("scale")
def scale(
    processes: Annotated[str, typer.Option(help="How many processes of the model-bound stages.")] = "1,2,4,8",
    conversations: Annotated[int, typer.Option(min=1)] = 48,
    sessions: Annotated[int, typer.Option(min=1, help="Sessions of each conversation.")] = 3,
    delay: Delay = 2.0,
    in_flight: Annotated[
        int, typer.Option(min=2, help="Model calls that one process may have under way, 20 of them for replies only.")
    ] = 24,
    rebalance: Annotated[bool, typer.Option(help="Let a process join in the middle of the load.")] = True,
    bulk: Annotated[int, typer.Option(min=0, help="Sessions of an import that wait meanwhile; 0: none.")] = 10_000,
    asks: Annotated[int, typer.Option(min=2, help="Questions of an idle system, and as many beside the import.")] = 20,
    reports: Reports = REPORTS,
    as_json: Json = False,
) -> None:
    """The same load on more processes, what a rebalance costs, and asks beside a bulk import."""
    load = LoadPlan(conversations, sessions, turns=6)
    plan = ScalePlan(_numbers(processes), load, delay, in_flight, rebalance, bulk, asks)
    with ProgressBars(quiet=as_json) as bars:
        figures = asyncio.run(bench_scale(plan, read_settings(), bars))
    _finish("scale", asdict(plan), figures, reports, as_json=as_json, plot=scale_plot(figures))


def _finish(
    name: str,
    settings: Mapping[str, Any],
    figures: Mapping[str, Any],
    reports: Path,
    *,
    as_json: bool,
    plot: Plot | None = None,
) -> None:
    """Write the report and print the figures."""
    path = write_report(reports, name, settings, figures, plot)
    if as_json:
        print_json(figures)
        return
    _print_figures(name, figures)
    errors.print(f"the report: {path}", highlight=False)


def _print_figures(name: str, figures: Mapping[str, Any]) -> None:
    flat = Table("figure", "value", title=name)
    for key, value in figures.items():
        if not isinstance(value, Mapping | list):
            flat.add_row(key, str(value))
    console.print(flat)
    for key, value in figures.items():
        if isinstance(value, Mapping | list) and value:
            console.print(_inner_table(key, value))


def _inner_table(title: str, value: Mapping[str, Any] | list[Any]) -> Table:
    heads, rows = grid(value)
    table = Table(title, *heads)
    for name, cells in rows.items():
        table.add_row(name, *cells)
    return table


def _document(times: AskTimes) -> dict[str, Any]:
    return {"p50_ms": times.p50_ms, "p95_ms": times.p95_ms}
