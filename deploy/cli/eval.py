"""`eunoe eval`."""

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from eunoe.deploy.cli.evalmodels import open_checked_models
from eunoe.deploy.cli.evalprompts import prompts
from eunoe.deploy.cli.evalreplies import replies
from eunoe.deploy.cli.evalreport import (
    Embedding,
    ReportFolder,
    Samples,
    Seed,
    cores,
    fields,
    finish,
    settings_with,
)
from eunoe.deploy.cli.output import Json
from eunoe.deploy.cli.progress import ProgressBars
from eunoe.deploy.evaluate.baselines import BASELINES
from eunoe.deploy.evaluate.corpus import answerable, with_questions
from eunoe.deploy.evaluate.fallbacks import counts_of, item_lines, model_label
from eunoe.deploy.evaluate.parallel import measure_all
from eunoe.deploy.evaluate.report import OFFLINE, EvalReport, check_folder, hashes
from eunoe.deploy.evaluate.retrieval import BUDGETS, RetrievalPlan, retrieval_bars, retrieval_rows
from eunoe.deploy.evaluate.segmentation import (
    OURS,
    Dialogue,
    SegmentationRow,
    evaluate_segmentation,
    read_dialogues,
    segmentation_bars,
    splice,
)
from eunoe.deploy.settings import Settings
from eunoe.schemas.errors import Refused
from eunoe.schemas.events import Strategy
from eunoe.workers.segment.build import segmenter_of
from eunoe.workers.segment.settings import SegmentSettings
from eunoe.workers.stage import Dependencies
from eunoe.workers.stores.state.memory_store import MemoryStore
from eunoe.workers.stores.vectors.memory_index import MemoryIndex

WITH_MODEL = "with model"

app = typer.Typer(
    help="Measure retrieval, replies or segmentation on your own data, and prompts on bundled cases.",
    no_args_is_help=True,
)
app.command("replies")(replies)
app.command("prompts")(prompts)


@app.command("retrieval")
def retrieval(
    data: Annotated[
        Path, typer.Option(help="File of conversations with questions: LoCoMo's format, or JSON lines of events.")
    ],
    sample: Samples = None,
    strategy: Annotated[
        list[Strategy] | None, typer.Option(help="Only this strategy; repeatable. Default: all.")
    ] = None,
    budgets: Annotated[str, typer.Option(help="Context budgets in tokens, separated by commas.")] = ",".join(
        map(str, BUDGETS)
    ),
    embedder: Embedding = None,
    baselines: Annotated[bool, typer.Option(help="Compare with simple retrievers.")] = True,
    errata: Annotated[
        Path | None, typer.Option(help="File of corrected evidence, for LoCoMo; default: evidence as it is cited.")
    ] = None,
    jobs: Annotated[int, typer.Option(min=0, help="Number of processes; 0: one per core.")] = 0,
    report: ReportFolder = None,
    as_json: Json = False,
) -> None:
    """Measure recall of evidence in the context, by strategy and beside simple retrievers.

    Recall is in percent, within token budgets of the exact text that the responder sends, days and speakers
    included. Of an utterance count its gold passages: those of `x-gold.jsonl` beside the data, or else the one to
    three sentences that share most with answer and question. `whole` counts utterances with all of their text. The
    simple retrievers rank turns, groups of four turns and sessions by cosine (dense), by BM25 and by both (rrf). No
    language model is called.

    Example: `eunoe eval retrieval --data locomo.json --strategy fused --budgets 500,2000 --report reports`
    """
    check_folder(report)
    settings = settings_with(embedder)
    plan = RetrievalPlan(
        budgets=_budgets(budgets),
        strategies=tuple(dict.fromkeys(strategy or Strategy)),
        baselines=BASELINES if baselines else (),
        settings=settings.stages,
        errata=errata,
    )
    conversations = with_questions(data, sample or (), errata)
    total = len(plan.ways) * sum(len(answerable(loaded)) for loaded in conversations)
    with ProgressBars(quiet=as_json) as bars:
        advance = bars.counter("asked", total)
        found = asyncio.run(measure_all(data, conversations, settings, plan, jobs or cores(), advance))
    rows = retrieval_rows(found, plan)
    made = EvalReport(
        name="retrieval",
        rows=fields(rows),
        settings={"budgets": list(plan.budgets), "samples": [loaded.conversation_id for loaded in conversations]},
        models={"language": OFFLINE, "embedder": settings.embedding},
        data=hashes(data, *([errata] if errata else ())),
        bars=retrieval_bars(rows),
        notes=(f"Recall of evidence in percent inside {' / '.join(map(str, plan.budgets))} tokens.",),
    )
    finish(made, report, as_json=as_json)


def _budgets(text: str) -> tuple[int, ...]:
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not parts or not all(part.isdecimal() and int(part) > 0 for part in parts):
        raise typer.BadParameter(
            f"expected numbers of tokens separated by commas, like 500,1000, got {text!r}", param_hint="--budgets"
        )
    return tuple(dict.fromkeys(map(int, parts)))


@app.command("segmentation")
def segmentation(
    data: Annotated[list[Path] | None, typer.Option(help="File of dialogues with gold segments; repeatable.")] = None,
    spliced: Annotated[
        Path | None,
        typer.Option(help="File in LoCoMo's format: splice dialogues from the starts and the middles of its sessions."),
    ] = None,
    dialogues: Annotated[int, typer.Option(min=1, help="Number of spliced dialogues of each kind.")] = 200,
    seed: Seed = 7,
    embedder: Embedding = None,
    report: ReportFolder = None,
    as_json: Json = False,
) -> None:
    """Measure topic segmentation: Pk and WindowDiff (lower is better), boundary F1, and their combined score.

    Compares the offline segmenter of stage segment with no boundary, a boundary every five lines, TextTiling and
    dynamic programming over the same embeddings. With OPENAI_BASE_URL the model segments, too.
    DATA is a JSON list, or JSON lines, of `{"utterances": [texts], "segments": [lengths], "speakers": [names]}`;
    speakers are optional.

    Example: `eunoe eval segmentation --data dialseg711.json --data tiage.json --spliced locomo.json`
    """
    if not data and spliced is None:
        raise Refused("nothing to measure: give --data FILE, --spliced FILE or both")
    check_folder(report)
    settings = settings_with(embedder)
    sets = [(path.stem, read_dialogues(path)) for path in data or ()]
    sets += splice(spliced, dialogues, seed) if spliced is not None else []
    rows, made_by, notes = asyncio.run(_segmented(sets, settings, as_json))
    made = EvalReport(
        name="segmentation",
        rows=fields(rows),
        settings={"seed": seed, "dialogues": dialogues, **settings.stages.of(SegmentSettings).model_dump()},
        models={"language": made_by, "embedder": settings.embedding},
        data=hashes(*(data or ()), *([spliced] if spliced else ())),
        bars=segmentation_bars(rows),
        notes=notes,
    )
    finish(made, report, as_json=as_json)


async def _segmented(
    sets: Sequence[tuple[str, Sequence[Dialogue]]], settings: Settings, quiet: bool
) -> tuple[list[SegmentationRow], str, tuple[str, ...]]:
    """The rows, the label of the model, and notes on what it decided."""
    async with AsyncExitStack() as closing:
        models = await open_checked_models(settings, closing)
        offline = Dependencies(MemoryStore(), MemoryIndex(), models.embedder, models.compressor, None, settings.stages)
        segmenters = {OURS: segmenter_of(offline)}
        if models.language is not None:
            segmenters[WITH_MODEL] = segmenter_of(replace(offline, language=models.language))
        with ProgressBars(quiet=quiet) as bars:
            advance = bars.counter("dialogues", sum(len(dialogues) for _, dialogues in sets))
            rows = await evaluate_segmentation(sets, segmenters, models.embedder, advance)
        label = model_label(models.language)
        named = [replace(row, segmenter=label) if row.segmenter == WITH_MODEL else row for row in rows]
        return named, label, tuple(item_lines(counts_of(models.language)))
