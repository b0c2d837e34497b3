"""`eunoe eval replies` and `teafarm`: replies, and who judges them."""

import asyncio
import os
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from eunoe.deploy.cli.evaluating import (
    Embedding,
    ReportFolder,
    Samples,
    Seed,
    counting,
    fields,
    finish,
    models_of,
    settings_with,
    stage_settings,
)
from eunoe.deploy.cli.output import Json
from eunoe.deploy.demo.loaded import LoadedConversation
from eunoe.deploy.evaluate.answering import WAYS
from eunoe.deploy.evaluate.corpus import answerable, read_corpus, with_questions
from eunoe.deploy.evaluate.extras import extra
from eunoe.deploy.evaluate.judges import SYSTEMS
from eunoe.deploy.evaluate.library import Library
from eunoe.deploy.evaluate.replies import ReplyPlan, ReplyRow, evaluate_replies, reply_bars
from eunoe.deploy.evaluate.report import OFFLINE, Report, check_folder, hashes
from eunoe.deploy.evaluate.teafarm import (
    JUDGE,
    PROMPTS,
    Farm,
    TeafarmRow,
    chosen,
    teafarm_bars,
    teafarm_rows,
)
from eunoe.deploy.models import open_embedder, open_language, uses_endpoint
from eunoe.deploy.settings import Language, Settings
from eunoe.schemas.errors import Refused
from eunoe.schemas.ports import LanguageModel
from eunoe.workers.models.metering import Prices
from eunoe.workers.stores.answers import MemoryAnswers

NO_MODEL = "set OPENAI_BASE_URL (and OPENAI_API_KEY), and EUNOE_MODEL for the model's name"

Ways = Annotated[
    list[str] | None,
    typer.Option("--memory", help=f"Only this memory; may be given several times: {', '.join(WAYS)}."),
]
Judge = Annotated[str | None, typer.Option(help="The model at OPENAI_BASE_URL that judges; default: nobody judges.")]
Budget = Annotated[int, typer.Option(min=1, help="Tokens of memory in a prompt.")]


def replies(
    data: Annotated[Path, typer.Option(help="Conversations with questions and answers, LoCoMo's format or ours.")],
    sample: Samples = None,
    memory: Ways = None,
    questions: Annotated[int | None, typer.Option(min=1, help="Only the first so many of each conversation.")] = None,
    budget: Budget = 1500,
    judge: Judge = None,
    bertscore: Annotated[
        bool, typer.Option("--bertscore", help="BERTScore too: pip install 'eunoe\\[bertscore]'.")
    ] = False,
    offline_memory: Annotated[
        bool, typer.Option("--offline-memory", help="The stages decide offline; the model only replies.")
    ] = False,
    dollars_in: Annotated[float, typer.Option(min=0, help="Dollars per million tokens of prompts.")] = 0.0,
    dollars_out: Annotated[float, typer.Option(min=0, help="Dollars per million tokens of answers.")] = 0.0,
    embedder: Embedding = None,
    report: ReportFolder = None,
    as_json: Json = False,
) -> None:
    r"""How good are the replies? Token F1, ROUGE-L, BLEU, judges, and what a question costs, by kind of memory.

    Needs pip install 'eunoe\[eval]'. With OPENAI_BASE_URL a language model replies, without it the offline twin
    quotes; the report says which. Beside the strategies stand the whole conversation as context, plain retrieval of
    single turns, and no memory. With --judge MODEL: correct or not, a grade from 1 to 100, the preference to plain
    retrieval (asked in both orders), consistency and memorability, and whether the evidence entails or contradicts
    the reply.
    """
    ways = _known(memory)
    for library in ("rouge_score", "sacrebleu", *(["bert_score"] if bertscore else [])):
        extra(library)
    check_folder(report)
    settings = settings_with(embedder)
    if judge is not None and not uses_endpoint(settings, os.environ):
        raise Refused(f"judges need a language model: {NO_MODEL}")
    conversations = with_questions(data, sample or ())
    if not any(question.answer for loaded in conversations for question in answerable(loaded)):
        raise Refused(f"{data}: no question with evidence has an answer to compare with")
    plan = ReplyPlan(ways, budget, questions, bert=bertscore, prices=Prices(dollars_in, dollars_out))
    rows, models = asyncio.run(_replies(conversations, settings, plan, judge, offline_memory, as_json))
    made = Report(
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
        notes=() if models["language"] != OFFLINE else ("Replies are quotations: no language model was asked.",),
    )
    finish(made, report, as_json=as_json)


def _known(ways: Sequence[str] | None) -> tuple[str, ...]:
    unknown = [way for way in ways or () if way not in WAYS]
    if unknown:
        raise typer.BadParameter(f"no such memory: {', '.join(unknown)}; use {', '.join(WAYS)}", param_hint="--memory")
    return tuple(dict.fromkeys(ways or WAYS))


async def _replies(
    conversations: Sequence[LoadedConversation],
    settings: Settings,
    plan: ReplyPlan,
    judge: str | None,
    offline_memory: bool,
    quiet: bool,
) -> tuple[list[ReplyRow], dict[str, str]]:
    async with AsyncExitStack() as closing:
        language = await open_language(settings, os.environ, MemoryAnswers(), closing)
        libraries = await _grown(conversations, settings, None if offline_memory else language, closing, quiet)
        if offline_memory:
            libraries = [replace(one, kit=replace(one.kit, language=language)) for one in libraries]
        model = await _judge(settings, judge, closing)
        asked = sum(len([one for one in answerable(each.loaded) if one.answer][: plan.limit]) for each in libraries)
        with counting("answered", len(plan.ways) * asked, quiet=quiet) as bar:
            rows = await evaluate_replies(libraries, replace(plan, judge=model), bar.step)
        return rows, models_of(settings, language, model)


async def _grown(
    conversations: Sequence[LoadedConversation],
    settings: Settings,
    language: LanguageModel | None,
    closing: AsyncExitStack,
    quiet: bool,
) -> list[Library]:
    embedder = await open_embedder(settings, os.environ, closing)
    libraries = []
    with counting("remembered", len(conversations), quiet=quiet) as bar:
        for loaded in conversations:
            libraries.append(await Library.grown(loaded, embedder, settings.stages, language))
            bar.step()
    return libraries


async def _judge(settings: Settings, name: str | None, closing: AsyncExitStack) -> LanguageModel | None:
    if name is None:
        return None
    other = settings.model_copy(update={"model": name, "language": Language.OPENAI})
    return await open_language(other, os.environ, MemoryAnswers(), closing)


def teafarm(
    data: Annotated[Path, typer.Option(help="Conversations of two speakers, in LoCoMo's format or our JSON lines.")],
    out: Annotated[Path, typer.Option(help="The folder of dataset.jsonl and replies.jsonl; goes on where it stopped.")],
    sample: Samples = None,
    conversations: Annotated[int | None, typer.Option(min=1, help="Only so many, drawn by the seed.")] = None,
    memory: Ways = None,
    budget: Budget = 1500,
    judge: Judge = None,
    seed: Seed = 7,
    embedder: Embedding = None,
    report: ReportFolder = None,
    as_json: Json = False,
) -> None:
    """Can the responder be talked into what never was? TeaFarm's counterfactual questions (THEANINE, section 5).

    Needs a language model (OPENAI_BASE_URL): it writes from the memories of each conversation one counterfactual
    question of each speaker with its right answer, and a session of 10 to 15 utterances that ends with the question;
    the responder answers it with each memory; a judge who sees question, right answer and reply decides. What is
    in OUT already is not made or asked again.
    """
    ways = _known(memory)
    check_folder(report)
    settings = settings_with(embedder)
    if not uses_endpoint(settings, os.environ):
        raise Refused(f"TeaFarm needs a language model: {NO_MODEL}")
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Refused(f"{out}: no folder: {error.strerror}") from None
    corpus = read_corpus(data, sample or ())
    names = set(chosen([loaded.conversation_id for loaded in corpus], conversations, seed))
    drawn = [loaded for loaded in corpus if loaded.conversation_id in names]
    rows, models = asyncio.run(_teafarm(drawn, settings, out, ways, (judge or settings.model, seed, budget), as_json))
    made = Report(
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
    """Says so where questions are missing."""
    asked = max((row.questions for row in rows), default=0)
    if asked == wanted:
        return ()
    return (f"Only {asked} of {wanted} questions: of the others the model gave nothing that passes its checks, twice.",)


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
        model = await _judge(settings, name, closing)
        if language is None or model is None:
            raise Refused(f"TeaFarm needs a language model: {NO_MODEL}")
        libraries = await _grown(conversations, settings, language, closing, quiet)
        with counting("asked", 2 * len(ways) * len(libraries), quiet=quiet) as bar:
            farm = Farm(out, language, model, seed, budget, ways, bar.step)
            for library in libraries:
                await farm.ask(library, await farm.items(library))
        mine = {loaded.conversation_id for loaded in conversations}
        outcomes = [one for one in farm.outcomes() if one.conversation in mine]
        return teafarm_rows(outcomes, ways), models_of(settings, language, model)
