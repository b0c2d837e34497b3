"""`python -m tests.papers teafarm`."""

import asyncio
import os
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Annotated

import typer

from eunoe.deploy.cli.evalshared import NO_MODEL, Budget, Judge, Ways, index_conversations, known_ways, open_judge
from eunoe.deploy.cli.evaluating import (
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
from eunoe.deploy.clients.models import open_language, uses_endpoint
from eunoe.deploy.datasets.loaded import LoadedConversation
from eunoe.deploy.evaluate.corpus import read_corpus
from eunoe.deploy.evaluate.judges import SYSTEMS
from eunoe.deploy.evaluate.report import EvalReport, check_folder, hashes
from eunoe.deploy.settings import Settings
from eunoe.schemas.errors import Refused
from eunoe.workers.stores.answers import MemoryAnswers
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
    seed: Seed = 7,
    embedder: Embedding = None,
    report: ReportFolder = None,
    as_json: Json = False,
) -> None:
    """Measure replies to TeaFarm's counterfactual questions (THEANINE, section 5).

    Needs a language model (OPENAI_BASE_URL). From the memories of each conversation it writes one counterfactual
    question of each speaker with its right answer, and a session of 10 to 15 utterances that ends with the question.
    The responder answers with each kind of memory. A judge decides by question, right answer and reply. Items that
    OUT contains already are not made or asked again.
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
    rows, models = asyncio.run(_teafarm(drawn, settings, out, ways, (judge or settings.model, seed, budget), as_json))
    made = EvalReport(
        name="teafarm",
        rows=fields(rows),
        settings={"seed": seed, "budget": budget, "conversations": sorted(names), **stage_settings(settings)},
        models=models,
        data=hashes(data),
        bars=teafarm_bars(rows),
        about={"prompts": {**PROMPTS, JUDGE: SYSTEMS[JUDGE]}},
        notes=unmade(rows, 2 * len(drawn)),
    )
    finish(made, report, as_json=as_json)


def unmade(rows: Sequence[TeafarmRow], wanted: int) -> tuple[str, ...]:
    """A note for the report where questions are missing."""
    asked = max((row.questions for row in rows), default=0)
    if asked == wanted:
        return ()
    return (f"Only {asked} of {wanted} questions: for the others two answers of the model failed the checks.",)


async def _teafarm(
    conversations: Sequence[LoadedConversation],
    settings: Settings,
    out: Path,
    ways: tuple[str, ...],
    judged: tuple[str, int, int],
    quiet: bool,
) -> tuple[list[TeafarmRow], dict[str, str]]:
    name, seed, budget = judged
    async with AsyncExitStack() as closing:
        language = await open_language(settings, os.environ, MemoryAnswers(), closing)
        model = await open_judge(settings, name, closing)
        if language is None or model is None:
            raise Refused(f"TeaFarm needs a language model: {NO_MODEL}")
        indexed_conversations = await index_conversations(conversations, settings, language, closing, quiet)
        with ProgressBars(quiet=quiet) as bars:
            advance = bars.counter("asked", 2 * len(ways) * len(indexed_conversations))
            farm = Farm(out, language, model, seed, budget, ways, advance)
            for indexed in indexed_conversations:
                await farm.ask(indexed, await farm.items(indexed))
        mine = {loaded.conversation_id for loaded in conversations}
        outcomes = [one for one in farm.outcomes() if one.conversation in mine]
        return teafarm_rows(outcomes, ways), models_of(settings, language, model)
