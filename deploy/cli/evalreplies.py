"""`eunoe eval replies`."""

import asyncio
import os
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Annotated

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
from eunoe.deploy.evaluate.corpus import answerable, with_questions
from eunoe.deploy.evaluate.extras import extra
from eunoe.deploy.evaluate.fallbacks import counts_of, item_lines
from eunoe.deploy.evaluate.judges import SYSTEMS
from eunoe.deploy.evaluate.replies import ReplyEvalOptions, ReplyRow, evaluate_replies, reply_bars
from eunoe.deploy.evaluate.report import EvalReport, check_folder, hashes
from eunoe.deploy.settings import Settings
from eunoe.schemas.errors import Refused
from eunoe.workers.models.questions.metering import Prices


def replies(
    data: Annotated[
        Path,
        typer.Option(
            help="File of conversations with questions and answers: LoCoMo's format, or JSON lines of events."
        ),
    ],
    sample: Samples = None,
    memory: Ways = None,
    questions: Annotated[
        int | None, typer.Option(min=1, help="Number of questions of each conversation; default: all.")
    ] = None,
    budget: Budget = 1500,
    judge: Judge = None,
    bertscore: Annotated[
        bool, typer.Option("--bertscore", help="Compute BERTScore too; needs pip install 'eunoe[bertscore]'.")
    ] = False,
    offline_memory: Annotated[
        bool, typer.Option("--offline-memory", help="Build the memory offline; the model only replies.")
    ] = False,
    dollars_in: Annotated[float, typer.Option(min=0, help="Price in dollars per million prompt tokens.")] = 0.0,
    dollars_out: Annotated[float, typer.Option(min=0, help="Price in dollars per million completion tokens.")] = 0.0,
    embedder: Embedding = None,
    report: ReportFolder = None,
    as_json: Json = False,
) -> None:
    """Measure replies for each kind of memory: token F1, ROUGE-L, BLEU, judgements, and the cost of a question.

    Needs `pip install 'eunoe[eval]'`. With OPENAI_BASE_URL a language model replies; without it the offline
    implementation quotes, and the report says so. The strategies are compared with the whole conversation as context,
    with plain retrieval of single turns, and with no memory. With `--judge MODEL` a model judges: correct or not, a
    grade from 1 to 100, preference to plain retrieval (asked in both orders), consistency and memorability, and whether
    the evidence entails or contradicts the reply.
    """
    ways = known_ways(memory)
    for module in ("rouge_score", "sacrebleu", *(["bert_score"] if bertscore else [])):
        extra(module)
    check_folder(report)
    settings = settings_with(embedder)
    if judge is not None and not uses_endpoint(settings, os.environ):
        raise Refused(f"--judge needs a language model: {NO_MODEL}")
    conversations = with_questions(data, sample or ())
    if not any(question.answer for loaded in conversations for question in answerable(loaded)):
        raise Refused(f"{data}: no question with evidence has an answer to compare with")
    plan = ReplyEvalOptions(ways, budget, questions, bert=bertscore, prices=Prices(dollars_in, dollars_out))
    rows, models, decided = asyncio.run(_replies(conversations, settings, plan, judge, offline_memory, as_json))
    made = EvalReport(
        name="replies",
        rows=fields(rows),
        settings={
            "budget": budget,
            "questions": questions,
            "offline_memory": offline_memory,
            "conversations": [loaded.conversation_id for loaded in conversations],
            **stage_settings(settings),
        },
        models=models,
        data=hashes(data),
        bars=reply_bars(rows),
        about={"prompts": SYSTEMS} if judge else {},
        notes=decided or ("Replies are quotations: no language model was called.",),
    )
    finish(made, report, as_json=as_json)


async def _replies(
    conversations: Sequence[LoadedConversation],
    settings: Settings,
    plan: ReplyEvalOptions,
    judge: str | None,
    offline_memory: bool,
    quiet: bool,
) -> tuple[list[ReplyRow], dict[str, str], tuple[str, ...]]:
    """The rows, the models by role, and notes on what the model decided."""
    async with AsyncExitStack() as closing:
        models = await open_checked_models(settings, closing)
        language = models.language
        remembering = replace(models, language=None) if offline_memory else models
        indexed_conversations = await index_conversations(conversations, remembering, settings, plan.ways, quiet)
        if offline_memory:
            indexed_conversations = [
                replace(one, dependencies=replace(one.dependencies, language=language)) for one in indexed_conversations
            ]
        model = await open_judge(settings, judge, closing)
        asked = sum(
            len([one for one in answerable(each.loaded) if one.answer][: plan.limit]) for each in indexed_conversations
        )
        with ProgressBars(quiet=quiet) as bars:
            advance = bars.counter("answered", len(plan.ways) * asked)
            rows = await evaluate_replies(indexed_conversations, replace(plan, judge=model), advance)
        return rows, models_of(settings, language, model), tuple(item_lines(counts_of(language)))
