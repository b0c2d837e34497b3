"""`python -m tests.papers teafarm`."""

import asyncio
import os
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import orjson
import typer

from eunoe.deploy.cli.evalmodels import (
    NO_MODEL,
    Budget,
    Judge,
    Ways,
    index_conversations,
    known_ways,
    open_checked_models,
    open_judge,
)
from eunoe.deploy.cli.evalreport import (
    Embedding,
    ReportFolder,
    Samples,
    Seed,
    fields,
    finish,
    models_of,
    settings_with,
    stage_settings,
)
from eunoe.deploy.cli.output import Json
from eunoe.deploy.cli.progress import ProgressBars
from eunoe.deploy.clients.models import uses_endpoint
from eunoe.deploy.datasets.loaded import LoadedConversation
from eunoe.deploy.evaluate.corpus import read_corpus
from eunoe.deploy.evaluate.fallbacks import counts_of, item_lines
from eunoe.deploy.evaluate.indexed import IndexedConversation
from eunoe.deploy.evaluate.judges import SYSTEMS
from eunoe.deploy.evaluate.report import EvalReport, check_folder, hashes
from eunoe.deploy.settings import Settings
from eunoe.schemas.errors import Refused
from eunoe.schemas.identity import content_digest
from eunoe.workers.registry import StageSettings
from tests.papers.teafarm import (
    JUDGE,
    PROMPTS,
    Farm,
    TeafarmRow,
    chosen,
    teafarm_bars,
    teafarm_rows,
)


def teafarm(
    data: Annotated[
        Path, typer.Option(help="File of conversations of two speakers: LoCoMo's format, or JSON lines of events.")
    ],
    out: Annotated[
        Path, typer.Option(help="Folder for dataset.jsonl and replies.jsonl; an existing one is continued.")
    ],
    sample: Samples = None,
    conversations: Annotated[
        int | None, typer.Option(min=1, help="Number of conversations, drawn by the seed; default: all.")
    ] = None,
    memory: Ways = None,
    budget: Budget = 1500,
    judge: Judge = None,
    questions: Annotated[
        Path | None,
        typer.Option(help="File of questions, shared between models and made where it lacks some; default: OUT's own."),
    ] = None,
    maker: Annotated[str | None, typer.Option(help="Model that makes questions; default: EUNOE_MODEL.")] = None,
    seed: Seed = 7,
    embedder: Embedding = None,
    report: ReportFolder = None,
    as_json: Json = False,
) -> None:
    """Measure replies to TeaFarm's counterfactual questions (THEANINE, section 5).

    Needs a language model (OPENAI_BASE_URL). From memories of its own of each conversation the maker writes one
    counterfactual question of each speaker with its right answer, and a session of 10 to 15 utterances that ends with
    the question. The responder answers with each kind of memory. A judge decides by what was said, question, right
    answer and reply. Items in the file of questions are not made again, whoever made them; replies in OUT with the same
    model, judge and settings are not asked again.
    """
    ways = known_ways(memory)
    check_folder(report)
    settings = settings_with(embedder)
    if not uses_endpoint(settings, os.environ):
        raise Refused(f"TeaFarm needs a language model: {NO_MODEL}")
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Refused(f"{out}: cannot be created: {error.strerror}") from None
    corpus = read_corpus(data, sample or ())
    names = set(chosen([loaded.conversation_id for loaded in corpus], conversations, seed))
    drawn = [loaded for loaded in corpus if loaded.conversation_id in names]
    plan = FarmPlan(out, questions, ways, judge or settings.model, maker or settings.model, seed, budget)
    rows, models, decided = asyncio.run(_teafarm(drawn, settings, plan, as_json))
    made = EvalReport(
        name="teafarm",
        rows=fields(rows),
        settings={"seed": seed, "budget": budget, "conversations": sorted(names), **stage_settings(settings)},
        models=models,
        data=hashes(data),
        bars=teafarm_bars(rows),
        about={"prompts": {**PROMPTS, JUDGE: SYSTEMS[JUDGE]}},
        notes=(*unmade(rows, 2 * len(drawn)), *decided),
    )
    finish(made, report, as_json=as_json)


@dataclass(frozen=True, slots=True)
class FarmPlan:
    """The options of a run."""

    out: Path
    questions: Path | None
    """The file of questions; `None` means that of ``out``."""
    ways: tuple[str, ...]
    judge: str
    maker: str
    seed: int
    budget: int


def settings_digest(settings: Settings) -> str:
    """Twelve hex digits of the settings that shape memory and replies, whatever the endpoint."""
    shaping = {
        "stages": settings.stages.model_dump(mode="json"),
        "embedding": settings.embedding,
        "compression": settings.compression,
    }
    return content_digest(orjson.dumps(shaping, option=orjson.OPT_SORT_KEYS))[:12]


def unmade(rows: Sequence[TeafarmRow], wanted: int) -> tuple[str, ...]:
    """A note for the report where questions are missing."""
    asked = max((row.questions for row in rows), default=0)
    if asked == wanted:
        return ()
    return (f"Only {asked} of {wanted} questions: for the others two answers of the model failed the checks.",)


async def _teafarm(
    conversations: Sequence[LoadedConversation],
    settings: Settings,
    plan: FarmPlan,
    quiet: bool,
) -> tuple[list[TeafarmRow], dict[str, str], tuple[str, ...]]:
    async with AsyncExitStack() as closing:
        models = await open_checked_models(settings, closing)
        language = models.language
        model = await open_judge(settings, plan.judge, closing)
        maker = await open_judge(settings, plan.maker, closing)
        if language is None or model is None:
            raise Refused(f"TeaFarm needs a language model: {NO_MODEL}")
        indexed_conversations = await index_conversations(conversations, models, settings, plan.ways, quiet)
        with ProgressBars(quiet=quiet) as bars:
            advance = bars.counter("asked", 2 * len(plan.ways) * len(indexed_conversations))
            farm = Farm(
                folder=plan.out,
                model=language,
                judge=model,
                seed=plan.seed,
                budget=plan.budget,
                strategies=plan.ways,
                advance=advance,
                maker=maker,
                settings=settings_digest(settings),
                dataset=plan.questions,
            )
            for indexed in indexed_conversations:
                items = farm.kept(indexed.loaded.conversation_id)
                if len(items) < 2:  # the questions do not depend on the memory under test
                    making = replace(models, language=maker)
                    items = await farm.items(await IndexedConversation.build(indexed.loaded, making, StageSettings()))
                await farm.ask(indexed, items)
        mine = {loaded.conversation_id for loaded in conversations}
        outcomes = [one for one in farm.outcomes() if one.conversation in mine]
        decided = tuple(item_lines(counts_of(language)))
        return teafarm_rows(outcomes, plan.ways), models_of(settings, language, model), decided
