"""`python -m tests.papers operations` and `multihop`."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, TypeVar

import typer
from rich.table import Table

from eunoe.deploy.cli.evalmodels import open_checked_models
from eunoe.deploy.cli.evalreport import fields, table
from eunoe.deploy.cli.output import Json, console, note, print_json
from eunoe.deploy.evaluate.fallbacks import model_label
from eunoe.deploy.evaluate.models import EvalModels
from eunoe.deploy.settings import Settings, read_settings
from eunoe.schemas.errors import Refused
from eunoe.workers.stage import Dependencies
from eunoe.workers.stores.state.memory_store import MemoryStore
from eunoe.workers.stores.vectors.memory_index import MemoryIndex
from eunoe.workers.update.build import operator_of
from tests.papers.multihop import evaluate_multihop
from tests.papers.operations import MODEL_PAIRS, ContradictionScores, PairScores, evaluate_file
from tests.papers.replay import ReplayScores, replay_file

T = TypeVar("T")


def multihop(
    data: Annotated[Path, typer.Option(help="JSON file of facts and questions in MultiHop-RAG's format.")],
    as_json: Json = False,
) -> None:
    """Measure multi-hop retrieval in the tree: recall of evidence facts, by retriever.

    The facts are inserted one by one in the order of their dates; every row is over the same facts and questions.
    With OPENAI_BASE_URL the model writes the texts of the tree's nodes.
    """
    settings = read_settings()
    rows, made_by = asyncio.run(_with_models(settings, lambda models: evaluate_multihop(data, models)))
    note(f"texts of the nodes: {made_by}", quiet=as_json)
    if as_json:
        print_json([asdict(row) for row in rows])
    else:
        console.print(table(fields(rows)))


def operations(
    data: Annotated[
        Path | None, typer.Option(help="File of JSON lines: DECODE dialogues, or {memory, summary, label}.")
    ] = None,
    replay: Annotated[
        Path | None, typer.Option(help="File of LoCoMo conversations to replay; prints every ended memory.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Measure operations on memories: contradictions, labelled pairs, wrong deletions.

    With OPENAI_BASE_URL the model decides labelled pairs beside the offline rules, and the replayed conversations.
    Contradictions are detected offline.
    """
    if data is None and replay is None:
        raise Refused("nothing to measure: give --data FILE, --replay FILE or both")
    settings = read_settings()
    found: dict[str, ContradictionScores | PairScores | ReplayScores] = {}
    if data is not None:
        found |= asyncio.run(_with_models(settings, lambda models: _pairs(data, models, settings)))[0]
    if replay is not None:
        replayed, made_by = asyncio.run(_with_models(settings, lambda models: replay_file(replay, models)))
        found[f"replay, {made_by}"] = replayed
    if as_json:
        print_json({name: asdict(scores) for name, scores in found.items()})
        return
    for name, scores in found.items():
        console.print(_sheet(name, asdict(scores)))


async def _with_models(settings: Settings, run: Callable[[EvalModels], Awaitable[T]]) -> tuple[T, str]:
    """The result of an evaluation over the models of the settings, and the label of its rows."""
    async with AsyncExitStack() as closing:
        models = await open_checked_models(settings, closing)
        return await run(models), model_label(models.language)


async def _pairs(data: Path, models: EvalModels, settings: Settings) -> dict[str, ContradictionScores | PairScores]:
    if models.language is None:
        return await evaluate_file(data)
    dependencies = Dependencies(
        MemoryStore(), MemoryIndex(), models.embedder, models.compressor, models.language, settings.stages
    )
    found = await evaluate_file(data, operator_of(dependencies))
    label = model_label(models.language)
    return {f"pairs, {label}" if name == MODEL_PAIRS else name: scores for name, scores in found.items()}


def _sheet(name: str, fields: dict[str, object]) -> Table:
    """A table with one row for each number, and the wrong or ended items in full."""
    table = Table("", name)
    for field, value in fields.items():
        for row in value if isinstance(value, list) else [value]:
            shown = "\n".join(f"{key}: {text}" for key, text in row.items()) if isinstance(row, dict) else row
            table.add_row(field, f"{shown:.3f}" if isinstance(shown, float) else str(shown))
    return table
