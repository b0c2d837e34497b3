"""Models and kinds of memory that evaluations measure: their options, judges, conversations made into memory."""

import os
from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import Annotated

import typer

from eunoe.deploy.cli.model_check import refuse_wrong_model
from eunoe.deploy.cli.progress import ProgressBars
from eunoe.deploy.clients.models import open_language
from eunoe.deploy.datasets.loaded import LoadedConversation
from eunoe.deploy.evaluate.answering import WAYS
from eunoe.deploy.evaluate.indexed import IndexedConversation
from eunoe.deploy.evaluate.models import EvalModels, open_eval_models
from eunoe.deploy.settings import Settings
from eunoe.deploy.settings.sections import Language
from eunoe.schemas.events import Strategy
from eunoe.schemas.model_ports import LanguageModel
from eunoe.workers.stores.records.answers import MemoryAnswers

NO_MODEL = "set OPENAI_BASE_URL (and OPENAI_API_KEY), and EUNOE_MODEL for the model's name"

Ways = Annotated[
    list[str] | None,
    typer.Option("--memory", help=f"Only this kind of memory; repeatable: {', '.join(WAYS)}. Default: all."),
]
Judge = Annotated[str | None, typer.Option(help="Model at OPENAI_BASE_URL that judges; default: no judging.")]
Budget = Annotated[int, typer.Option(min=1, help="Memory in a prompt, in tokens.")]


def known_ways(ways: Sequence[str] | None) -> tuple[str, ...]:
    """The kinds of memory of the command line, all by default; raises `typer.BadParameter`."""
    unknown = [way for way in ways or () if way not in WAYS]
    if unknown:
        raise typer.BadParameter(f"no such memory: {', '.join(unknown)}; use {', '.join(WAYS)}", param_hint="--memory")
    return tuple(dict.fromkeys(ways or WAYS))


async def index_conversations(
    conversations: Sequence[LoadedConversation],
    models: EvalModels,
    settings: Settings,
    ways: Sequence[str],
    quiet: bool,
) -> list[IndexedConversation]:
    """The conversations as memory for these kinds of memory, built in this process one after the other."""
    build = IndexedConversation.with_insights if Strategy.INSIGHT in ways else IndexedConversation.build
    indexed_conversations = []
    with ProgressBars(quiet=quiet) as bars:
        advance = bars.counter("remembered", len(conversations))
        for loaded in conversations:
            indexed_conversations.append(await build(loaded, models, settings.stages))
            advance()
    return indexed_conversations


async def open_checked_models(settings: Settings, closing: AsyncExitStack) -> EvalModels:
    """The models of the settings, after one small question to the language model.

    Raises `Refused` where its key, name or address is wrong, `Unavailable` where it does not answer.
    """
    await refuse_wrong_model(settings)
    return await open_eval_models(settings, closing)


async def open_judge(settings: Settings, name: str | None, closing: AsyncExitStack) -> LanguageModel | None:
    """The model that judges; `None` where ``name`` is."""
    if name is None:
        return None
    other = settings.model_copy(update={"model": name, "language": Language.OPENAI})
    return await open_language(other, os.environ, MemoryAnswers(), closing)
