"""`python -m tests.papers memory` and `ablation`."""

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Annotated

import typer

from eunoe.deploy.cli.evalmodels import open_checked_models
from eunoe.deploy.cli.evalreport import (
    Embedding,
    ReportFolder,
    Samples,
    fields,
    finish,
    models_of,
    settings_with,
    stage_settings,
)
from eunoe.deploy.cli.output import Json
from eunoe.deploy.cli.progress import ProgressBars
from eunoe.deploy.datasets.loaded import LoadedConversation
from eunoe.deploy.evaluate.corpus import read_corpus, with_questions
from eunoe.deploy.evaluate.fallbacks import counts_of, item_lines
from eunoe.deploy.evaluate.report import OFFLINE, EvalReport, check_folder, hashes
from eunoe.deploy.settings import Settings
from tests.papers.ablation import AblationPlan, AblationRow, ablate, ablation_bars, describe_rows
from tests.papers.upkeep import UpkeepRow, describe_contradictions, evaluate_upkeep, upkeep_bars
from tests.papers.variants import variants


def memory(
    data: Annotated[Path, typer.Option(help="File of conversations: LoCoMo's format, or JSON lines of events.")],
    sample: Samples = None,
    ask_every: Annotated[
        int, typer.Option(min=0, help="Blend every n-th turn, as if it asked for a reply; 0: none.")
    ] = 10,
    embedder: Embedding = None,
    report: ReportFolder = None,
    as_json: Json = False,
) -> None:
    """Measure the upkeep of the memory: contradictions among current memories, shares of operations and insights.

    With OPENAI_BASE_URL the stages ask the model, else they decide offline. Contradictions are detected by the offline
    threshold for suspicion; `python -m tests.papers operations` measures its error rate. The report lists the pairs.
    """
    check_folder(report)
    settings = settings_with(embedder)
    corpus = read_corpus(data, sample or ())
    rows, models, decided = asyncio.run(_memory(corpus, settings, ask_every, as_json))
    shown = [{name: value for name, value in row.items() if name != "left"} for row in fields(rows)]
    made = EvalReport(
        name="memory",
        rows=shown,
        settings={"ask_every": ask_every, **stage_settings(settings)},
        models=models,
        data=hashes(data),
        bars=upkeep_bars(rows),
        notes=decided,
        about={"contradictions": {row.conversation: row.left for row in rows}},
        details=describe_contradictions(rows),
    )
    finish(made, report, as_json=as_json)


async def _memory(
    corpus: Sequence[LoadedConversation], settings: Settings, ask_every: int, quiet: bool
) -> tuple[list[UpkeepRow], dict[str, str], tuple[str, ...]]:
    async with AsyncExitStack() as closing:
        models = await open_checked_models(settings, closing)
        with ProgressBars(quiet=quiet) as bars:
            advance = bars.counter("replayed", len(corpus))
            rows = await evaluate_upkeep(corpus, models, settings.stages, ask_every, advance)
        return rows, models_of(settings, models.language), tuple(item_lines(counts_of(models.language)))


def ablation(
    data: Annotated[
        Path, typer.Option(help="File of conversations with questions: LoCoMo's format, or JSON lines of events.")
    ],
    sample: Samples = None,
    questions: Annotated[
        int | None, typer.Option(min=1, help="Number of questions of each conversation; default: all.")
    ] = None,
    budget: Annotated[int, typer.Option(min=1, help="Memory in the prompt, in tokens, the same for every row.")] = 1000,
    with_replies: Annotated[
        bool, typer.Option("--replies", help="Generate replies too and measure their token F1.")
    ] = False,
    blend_every: Annotated[int, typer.Option(min=1, help="For CREEM: blend every n-th utterance.")] = 5,
    embedder: Embedding = None,
    report: Annotated[Path, typer.Option(help="Folder for the table and its plot.")] = Path("eunoe-reports"),
    as_json: Json = False,
) -> None:
    """Measure each paper's idea by ablation: one table of variants that differ in one thing, and a plot.

    - SeCom: turns, sessions and segments by BM25, cosine and both; several keep rates of denoising.
    - THEANINE: without refinement (needs a model), without relations, shuffled, flat.
    - MemTree: leaves only; by the age of the evidence.
    - Keep Me Updated: no memory, full history, append only.
    - CREEM: without question, refinement or infusion; asked in the last session while it is open.

    The figures are recall and DCG of evidence within the budget, which full history ignores. The report describes each
    row.
    """
    check_folder(report)
    settings = settings_with(embedder)
    conversations = with_questions(data, sample or ())
    plan = AblationPlan(budget, questions, with_replies, settings.stages, blend_every=blend_every)
    rows, models, decided = asyncio.run(_ablation(conversations, settings, plan, as_json))
    made = EvalReport(
        name="ablation",
        rows=[{name: value for name, value in row.items() if name != "what"} for row in fields(rows)],
        settings={
            "budget": budget,
            "questions": questions,
            "replies": with_replies,
            "blend_every": blend_every,
            "conversations": [loaded.conversation_id for loaded in conversations],
            **stage_settings(settings),
        },
        models=models,
        data=hashes(data),
        bars=ablation_bars(rows),
        notes=(
            "Recall and DCG of evidence in percent; a memory counts for the utterances that it cites.",
            *OFFLINE_ROWS.get(models["language"], ()),
            *decided,
        ),
        about={"what": {f"{row.paper}: {row.variant}": row.what for row in rows}},
        details=describe_rows(rows),
    )
    finish(made, report, as_json=as_json)


OFFLINE_ROWS = {
    OFFLINE: (
        "Offline, timelines are not refined, blend proposes utterances word for word and replaces only repetitions, and"
        " update ends almost no memory: those rows hardly differ.",
    )
}


async def _ablation(
    conversations: Sequence[LoadedConversation], settings: Settings, plan: AblationPlan, quiet: bool
) -> tuple[list[AblationRow], dict[str, str], tuple[str, ...]]:
    async with AsyncExitStack() as closing:
        models = await open_checked_models(settings, closing)
        with ProgressBars(quiet=quiet) as bars:
            advance = bars.counter("rows", len(list(variants())) * len(conversations))
            rows = await ablate(conversations, models, plan, advance)
        return rows, models_of(settings, models.language), tuple(item_lines(counts_of(models.language)))
