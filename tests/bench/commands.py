"""The commands of ``python -m tests.bench``."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
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
from tests.bench.erase import ErasePlan, bench_erase
from tests.bench.growth import MARKS as SESSION_MARKS
from tests.bench.growth import GrowthPlan, bench_growth, growth_plot
from tests.bench.idle import IdlePlan, bench_idle
from tests.bench.life import LONG_MARKS, LifePlan, bench_life, life_plots
from tests.bench.load import LoadPlan, Talk
from tests.bench.memory import MARKS as HELD_MARKS
from tests.bench.memory import MemoryPlan, bench_memory, memory_plot
from tests.bench.pipeline import PipelinePlan, bench_pipeline
from tests.bench.rebuild import MARKS as LOG_MARKS
from tests.bench.rebuild import RebuildBenchPlan, bench_rebuild, rebuild_plot
from tests.bench.reply import MARKS as MEMORY_MARKS
from tests.bench.reply import ReplyBenchOptions, bench_reply, reply_plot
from tests.bench.report import Plot, grid, write_report
from tests.bench.rig import ALL, RigPlan
from tests.bench.scale import ScalePlan, bench_scale, scale_plot

app = typer.Typer(
    help="Run benchmarks. Times are not asserted, but a run with a wrong result fails.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
)

REPORTS = Path("reports")

Reports = Annotated[Path, typer.Option(help="Folder for the report: JSON, Markdown, some with a plot.")]
Delay = Annotated[float, typer.Option(min=0, help="Delay of each answer of the benchmark's model server, in seconds.")]
Offline = Annotated[bool, typer.Option("--offline", help="Use the offline implementations, no language model.")]
BaseUrl = Annotated[
    str | None, typer.Option(help="OpenAI-compatible endpoint to use instead of the benchmark's model server.")
]
Attach = Annotated[
    bool,
    typer.Option(
        "--attach",
        help="Use the servers of EUNOE_KAFKA and so on, or of an `eunoe up` here, under a prefix of its own.",
    ),
]
Seed = Annotated[int, typer.Option(help="Seed of the generated conversations.")]


def _joined(numbers: Iterable[int]) -> str:
    return ",".join(map(str, numbers))


def _numbers(text: str) -> tuple[int, ...]:
    """Positive numbers between commas; raises `Refused` for anything else."""
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() and int(part) > 0 for part in parts):
        raise Refused(f"{text!r}: expected positive numbers separated by commas, like 1,2,4")
    return tuple(map(int, parts))


@app.command("ask")
def ask(
    asks: Annotated[int, typer.Option(min=2, help="Number of questions, asked one after the other.")] = 50,
    as_json: Json = False,
) -> None:
    """Measure asks from end to end on the embedded servers, by hop: p50 and p95 in milliseconds."""
    times = asyncio.run(bench_ask(read_settings(), asks))
    if as_json:
        print_json({name: _document(hop) for name, hop in times.items()} | {"asks": asks})
        return
    table = Table("hop", "p50 ms", "p95 ms", title=f"{asks} asks")
    for name, hop in times.items():
        table.add_row(name, f"{hop.p50_ms:.1f}", f"{hop.p95_ms:.1f}")
    console.print(table)


@app.command("idle")
def idle(
    seconds: Annotated[float, typer.Option(min=1, help="Time over which processor time is counted, in seconds.")] = 60,
    settle: Annotated[float, typer.Option(min=0, help="Silence before that, and before each ask, in seconds.")] = 25,
    asks: Annotated[int, typer.Option(min=0, help="Number of asks after a silence.")] = 3,
    reports: Reports = REPORTS,
    as_json: Json = False,
) -> None:
    """Measure `eunoe up` without traffic: processor time and memory by process, and asks after a silence."""
    plan = IdlePlan(settle, seconds, asks)
    with ProgressBars(quiet=as_json) as bars:
        figures = asyncio.run(bench_idle(plan, lambda share: bars("measured", round(100 * share), 100)))
    _finish("idle", asdict(plan), figures, reports, as_json=as_json)


@app.command("pipeline")
def pipeline(
    conversations: Annotated[int, typer.Option(min=1, help="Number of conversations.")] = 20,
    sessions: Annotated[int, typer.Option(min=1, help="Sessions of each conversation.")] = 20,
    turns: Annotated[int, typer.Option(min=1, help="Utterances of each session.")] = 10,
    delay: Delay = 0.2,
    offline: Offline = False,
    base_url: BaseUrl = None,
    workers: Annotated[int, typer.Option(min=1, help="Worker processes, each with all stages.")] = 1,
    attach: Attach = False,
    compare: Annotated[bool, typer.Option(help="Compare the digest with that of a sequential run.")] = True,
    talk: Annotated[Talk, typer.Option(help="Kind of generated text.")] = Talk.VARIED,
    seed: Seed = 1,
    reports: Reports = REPORTS,
    as_json: Json = False,
) -> None:
    """Measure generated conversations from the log through all stages, until the last decision is durable.

    The run fails if a session is missing, an event was dead-lettered, the index disagrees with the state store, or
    the digest differs from that of a sequential run of the same events.
    """
    rig = RigPlan((ALL,) * workers, None if offline else delay, base_url, attach=attach)
    plan = PipelinePlan(LoadPlan(conversations, sessions, turns, seed, talk), rig, compare)
    with ProgressBars(quiet=as_json) as bars:
        figures = asyncio.run(bench_pipeline(plan, read_settings(), bars))
    _finish("pipeline", asdict(plan), figures, reports, as_json=as_json)


@app.command("growth")
def growth(
    marks: Annotated[
        str, typer.Option(help="Numbers of sessions after which one more is measured, separated by commas.")
    ] = _joined(SESSION_MARKS),
    turns: Annotated[int, typer.Option(min=1, help="Utterances of each session.")] = 10,
    offline: Offline = False,
    attach: Attach = False,
    seed: Seed = 1,
    reports: Reports = REPORTS,
    as_json: Json = False,
) -> None:
    """Measure the cost of one more session in a conversation that holds many, by stage."""
    rig = RigPlan(delay_s=None if offline else 0.0, attach=attach)
    plan = GrowthPlan(_numbers(marks), turns=turns, seed=seed, rig=rig)
    with ProgressBars(quiet=as_json) as bars:
        figures = asyncio.run(bench_growth(plan, read_settings(), bars))
    _finish("growth", asdict(plan), figures, reports, as_json=as_json, plots=[growth_plot(figures)])


@app.command("erase")
def erase(
    sessions: Annotated[int, typer.Option(min=4, help="Sessions of the conversation.")] = 100,
    turns: Annotated[int, typer.Option(min=1, help="Utterances of each session.")] = 10,
    plain: Annotated[bool, typer.Option("--plain", help="Without a key store.")] = False,
    seed: Seed = 1,
    reports: Reports = REPORTS,
    as_json: Json = False,
) -> None:
    """Measure erasures in one long conversation: an utterance, a session, all of it."""
    plan = ErasePlan(sessions, turns, seed, sealed=not plain)
    with ProgressBars(quiet=as_json) as bars:
        figures = asyncio.run(bench_erase(plan, read_settings(), bars))
    _finish("erase", asdict(plan), figures, reports, as_json=as_json)


@app.command("memory")
def memory(
    marks: Annotated[
        str, typer.Option(help="Numbers of sessions after which the bytes are read, separated by commas.")
    ] = _joined(HELD_MARKS),
    turns: Annotated[int, typer.Option(min=1, help="Utterances of each session.")] = 10,
    seed: Seed = 1,
    reports: Reports = REPORTS,
    as_json: Json = False,
) -> None:
    """Measure the bytes in Redis of one growing conversation, per session, by stage and table."""
    plan = MemoryPlan(_numbers(marks), turns, seed)
    with ProgressBars(quiet=as_json) as bars:
        figures = asyncio.run(bench_memory(plan, read_settings(), bars))
    _finish("memory", asdict(plan), figures, reports, as_json=as_json, plots=[memory_plot(figures)])


@app.command("life")
def life(
    conversations: Annotated[int, typer.Option(min=2, help="Number of conversations.")] = 400,
    sessions: Annotated[int, typer.Option(min=1, help="Sessions of each of them.")] = 10,
    marks: Annotated[
        str, typer.Option(help="Sessions of the one long conversation at which it is measured, separated by commas.")
    ] = _joined(LONG_MARKS),
    turns: Annotated[int, typer.Option(min=1, help="Utterances of each session.")] = 10,
    asks: Annotated[int, typer.Option(min=2, help="Number of questions at each mark.")] = 50,
    workers: Annotated[int, typer.Option(min=1, help="Worker processes, each with all stages.")] = 1,
    seed: Seed = 1,
    reports: Reports = REPORTS,
    as_json: Json = False,
) -> None:
    """Measure many conversations, half of them cold, and a long one: bytes, memory, asks; then a rebuild of all.

    The run fails if a session is missing, an event was dead-lettered, or the rebuilt memory is another one.
    """
    plan = LifePlan(LoadPlan(conversations, sessions, turns, seed, name="life"), _numbers(marks), asks, workers)
    with ProgressBars(quiet=as_json) as bars:
        figures = asyncio.run(bench_life(plan, read_settings(), bars))
    _finish("life", asdict(plan), figures, reports, as_json=as_json, plots=life_plots(figures))


@app.command("rebuild")
def rebuild(
    marks: Annotated[
        str, typer.Option(help="Numbers of events in the log, separated by commas; 1000000 takes hours.")
    ] = _joined(LOG_MARKS),
    workers: Annotated[int, typer.Option(min=1, help="Processes of the rebuild.")] = 2,
    turns: Annotated[int, typer.Option(min=1, help="Utterances of each session.")] = 10,
    offline: Offline = False,
    attach: Attach = False,
    seed: Seed = 1,
    reports: Reports = REPORTS,
    as_json: Json = False,
) -> None:
    """Measure a rebuild with recorded answers at growing sizes of the log: speed, processor time, memory.

    The run fails if a model is asked, a decision fails, or the memory differs from that of the generation before.
    """
    rig = RigPlan((), None if offline else 0.0, attach=attach)
    plan = RebuildBenchPlan(_numbers(marks), workers, turns, seed, rig)
    with ProgressBars(quiet=as_json) as bars:
        figures = asyncio.run(bench_rebuild(plan, read_settings(), bars))
    _finish("rebuild", asdict(plan), figures, reports, as_json=as_json, plots=[rebuild_plot(figures)])


@app.command("reply")
def reply(
    marks: Annotated[
        str, typer.Option(help="Numbers of memories of the conversation, separated by commas; 100000 takes long.")
    ] = _joined(MEMORY_MARKS),
    beside: Annotated[int, typer.Option(min=0, help="Number of other conversations.")] = 1_000,
    asks: Annotated[
        int, typer.Option(min=2, help="Number of questions at each mark, asked one after the other.")
    ] = 100,
    seed: Seed = 1,
    reports: Reports = REPORTS,
    as_json: Json = False,
) -> None:
    """Measure replies without a language model over growing numbers of memories: whole, by hop and by source."""
    plan = ReplyBenchOptions(_numbers(marks), beside, asks, seed)
    with ProgressBars(quiet=as_json) as bars:
        figures = asyncio.run(bench_reply(plan, read_settings(), bars))
    _finish("reply", asdict(plan), figures, reports, as_json=as_json, plots=[reply_plot(figures)])


@app.command("scale")
def scale(
    processes: Annotated[
        str, typer.Option(help="Numbers of processes of the model-bound stages, separated by commas.")
    ] = "1,2,4,8",
    conversations: Annotated[int, typer.Option(min=1, help="Number of conversations.")] = 48,
    sessions: Annotated[int, typer.Option(min=1, help="Sessions of each conversation.")] = 3,
    delay: Delay = 2.0,
    in_flight: Annotated[
        int, typer.Option(min=2, help="Maximum concurrent model calls of a process, 20 of them reserved for replies.")
    ] = 24,
    rebalance: Annotated[bool, typer.Option(help="Add a process in the middle of the load.")] = True,
    bulk: Annotated[int, typer.Option(min=0, help="Sessions of a concurrent bulk import; 0: none.")] = 10_000,
    asks: Annotated[
        int, typer.Option(min=2, help="Number of questions to an idle system, and as many during the import.")
    ] = 20,
    reports: Reports = REPORTS,
    as_json: Json = False,
) -> None:
    """Measure the same load on more processes, the cost of a rebalance, and asks during a bulk import."""
    load = LoadPlan(conversations, sessions, turns=6)
    plan = ScalePlan(_numbers(processes), load, delay, in_flight, rebalance, bulk, asks)
    with ProgressBars(quiet=as_json) as bars:
        figures = asyncio.run(bench_scale(plan, read_settings(), bars))
    _finish("scale", asdict(plan), figures, reports, as_json=as_json, plots=[scale_plot(figures)])


def _finish(
    name: str,
    settings: Mapping[str, Any],
    figures: Mapping[str, Any],
    reports: Path,
    *,
    as_json: bool,
    plots: Sequence[Plot] = (),
) -> None:
    """Write the report and print the figures."""
    path = write_report(reports, name, settings, figures, *plots)
    if as_json:
        print_json(figures)
        return
    _print_figures(name, figures)
    errors.print(f"report: {path}", highlight=False)


def _print_figures(name: str, figures: Mapping[str, Any]) -> None:
    single = {key: value for key, value in figures.items() if not isinstance(value, Mapping | list)}
    if single:
        flat = Table("figure", "value", title=name)
        for key, value in single.items():
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
