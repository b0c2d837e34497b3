"""`eunoe eval`."""

import asyncio
import os
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from eunoe.deploy.cli import evalmemory, evalmodel
from eunoe.deploy.cli.evaluating import (
    Embedding,
    ReportFolder,
    Samples,
    Seed,
    cores,
    counting,
    fields,
    finish,
    settings_with,
    table,
)
from eunoe.deploy.cli.output import Json, console, print_json
from eunoe.deploy.evaluate.baselines import BASELINES
from eunoe.deploy.evaluate.corpus import answerable, with_questions
from eunoe.deploy.evaluate.multihop import evaluate_multihop
from eunoe.deploy.evaluate.operations import ContradictionScores, PairScores, evaluate_file
from eunoe.deploy.evaluate.parallel import measure_all
from eunoe.deploy.evaluate.replay import ReplayScores, replay_file
from eunoe.deploy.evaluate.report import OFFLINE, Report, check_folder, hashes
from eunoe.deploy.evaluate.retrieval import BUDGETS, RetrievalPlan, retrieval_bars, retrieval_rows
from eunoe.deploy.evaluate.segmentation import (
    Dialogue,
    SegmentationRow,
    evaluate_segmentation,
    read_dialogues,
    segmentation_bars,
    splice,
)
from eunoe.deploy.models import open_embedder
from eunoe.deploy.settings import Settings
from eunoe.schemas.errors import Refused
from eunoe.schemas.events import Strategy
from eunoe.workers.models.embedding import WordLlamaEmbedder
from eunoe.workers.segment.offline import OfflineSegmenter

app = typer.Typer(help="Measure quality on data of yours.", no_args_is_help=True)
for command in (evalmodel.replies, evalmodel.teafarm, evalmemory.memory, evalmemory.ablation):
    app.command(command.__name__)(command)


@app.command("multihop")
def multihop(
    data: Annotated[Path, typer.Option(help="Facts and questions in MultiHop-RAG's format, as JSON.")],
    as_json: Json = False,
) -> None:
    """Does the tree help to find the facts that a question needs together? Recall of evidence facts, by retriever.

    The facts enter the tree one by one in the order of their dates; every row sees the same facts and questions.
    """
    rows = asyncio.run(evaluate_multihop(data, WordLlamaEmbedder()))
    if as_json:
        print_json([asdict(row) for row in rows])
    else:
        console.print(table(fields(rows)))


@app.command("retrieval")
def retrieval(
    data: Annotated[Path, typer.Option(help="Conversations with questions, in LoCoMo's format or our JSON lines.")],
    sample: Samples = None,
    strategy: Annotated[
        list[Strategy] | None, typer.Option(help="Only this strategy; may be given several times.")
    ] = None,
    budgets: Annotated[str, typer.Option(help="Token budgets, with commas.")] = ",".join(map(str, BUDGETS)),
    embedder: Embedding = None,
    baselines: Annotated[bool, typer.Option(help="Compare with simple retrievers.")] = True,
    jobs: Annotated[int, typer.Option(min=0, help="Processes; 0: one for each core.")] = 0,
    report: ReportFolder = None,
    as_json: Json = False,
) -> None:
    """How much of the evidence stands in the context, by strategy, beside simple retrievers of the same run.

    In percent, inside token budgets of exactly the text that the responder sends, days and speakers included; an
    utterance counts when it stands there whole. Simple retrievers: turns, four turns and sessions by cosine (dense),
    BM25 and both (rrf). No language model is asked. Example:

    eunoe eval retrieval --data locomo.json --strategy fused --strategy segment --budgets 500,2000 --report reports
    """
    check_folder(report)
    settings = settings_with(embedder)
    plan = RetrievalPlan(
        budgets=_budgets(budgets),
        strategies=tuple(dict.fromkeys(strategy or Strategy)),
        baselines=BASELINES if baselines else (),
        settings=settings.stages,
    )
    conversations = with_questions(data, sample or ())
    total = len(plan.ways) * sum(len(answerable(loaded)) for loaded in conversations)
    with counting("asked", total, quiet=as_json) as bar:
        found = asyncio.run(measure_all(data, conversations, settings, plan, jobs or cores(), bar.step))
    rows = retrieval_rows(found, plan)
    made = Report(
        name="retrieval",
        rows=fields(rows),
        settings={"budgets": list(plan.budgets), "samples": [loaded.conversation_id for loaded in conversations]},
        models={"language": OFFLINE, "embedder": settings.embedding},
        data=hashes(data),
        bars=retrieval_bars(rows),
        notes=(f"Recall of evidence in percent inside {' / '.join(map(str, plan.budgets))} tokens.",),
    )
    finish(made, report, as_json=as_json)


def _budgets(text: str) -> tuple[int, ...]:
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not parts or not all(part.isdecimal() and int(part) > 0 for part in parts):
        raise typer.BadParameter(
            f"expected numbers of tokens with commas, like 500,1000, got {text!r}", param_hint="--budgets"
        )
    return tuple(dict.fromkeys(map(int, parts)))


@app.command("segmentation")
def segmentation(
    data: Annotated[
        list[Path] | None, typer.Option(help="Dialogues with gold segments; may be given several times.")
    ] = None,
    spliced: Annotated[
        Path | None,
        typer.Option(help="Conversations in LoCoMo's format: splice dialogues from starts and middles of sessions."),
    ] = None,
    dialogues: Annotated[int, typer.Option(min=1, help="How many to splice of each kind.")] = 200,
    seed: Seed = 7,
    embedder: Embedding = None,
    report: ReportFolder = None,
    as_json: Json = False,
) -> None:
    """How well topics are told apart: Pk, WindowDiff (lower is better), boundary F1, and the score that joins them.

    The segmenter is the stage's own, offline; beside it no boundary, one every five lines, TextTiling and dynamic
    programming over the same embeddings. DATA is a JSON list, or lines, of {"utterances": [texts], "segments":
    [lengths], "speakers": [names]}; the last may be missing. Example:

    eunoe eval segmentation --data dialseg711.json --data tiage.json --spliced locomo.json
    """
    if not data and spliced is None:
        raise Refused("nothing to measure: give --data FILE, --spliced FILE or both")
    check_folder(report)
    settings = settings_with(embedder)
    sets = [(path.stem, read_dialogues(path)) for path in data or ()]
    sets += splice(spliced, dialogues, seed) if spliced is not None else []
    rows = asyncio.run(_segmented(sets, settings, as_json))
    made = Report(
        name="segmentation",
        rows=fields(rows),
        settings={"seed": seed, "dialogues": dialogues, **settings.stages.segment.model_dump()},
        models={"language": OFFLINE, "embedder": settings.embedding},
        data=hashes(*(data or ()), *([spliced] if spliced else ())),
        bars=segmentation_bars(rows),
    )
    finish(made, report, as_json=as_json)


async def _segmented(
    sets: Sequence[tuple[str, Sequence[Dialogue]]], settings: Settings, quiet: bool
) -> list[SegmentationRow]:
    async with AsyncExitStack() as closing:
        model = await open_embedder(settings, os.environ, closing)
        segmenter = OfflineSegmenter(model, settings.stages.segment)
        with counting("dialogues", sum(len(dialogues) for _, dialogues in sets), quiet=quiet) as bar:
            return await evaluate_segmentation(sets, segmenter, model, bar.step)


@app.command("operations")
def operations(
    data: Annotated[
        Path | None, typer.Option(help="Lines of DECODE dialogues, or of {memory, summary, label}, as JSON.")
    ] = None,
    replay: Annotated[
        Path | None, typer.Option(help="LoCoMo conversations: replay them, and print every memory that is ended.")
    ] = None,
    as_json: Json = False,
) -> None:
    """How right are the offline operations on memories? Contradictions, labelled pairs, and wrong deletions."""
    if data is None and replay is None:
        raise Refused("nothing to measure: give --data FILE, --replay FILE or both")
    found: dict[str, ContradictionScores | PairScores | ReplayScores] = {}
    if data is not None:
        found |= evaluate_file(data)
    if replay is not None:
        found["replay"] = asyncio.run(replay_file(replay, WordLlamaEmbedder()))
    if as_json:
        print_json({name: asdict(scores) for name, scores in found.items()})
        return
    for name, scores in found.items():
        console.print(_sheet(name, asdict(scores)))


def _sheet(name: str, fields: dict[str, object]) -> Table:
    """One row per number; what was wrong, or fired, below it in full."""
    table = Table("", name)
    for field, value in fields.items():
        for row in value if isinstance(value, list) else [value]:
            shown = "\n".join(f"{key}: {text}" for key, text in row.items()) if isinstance(row, dict) else row
            table.add_row(field, f"{shown:.3f}" if isinstance(shown, float) else str(shown))
    return table
