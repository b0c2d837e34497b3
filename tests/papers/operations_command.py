"""`python -m tests.papers operations` and `multihop`."""

import asyncio
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from eunoe.deploy.cli.evaluating import fields, table
from eunoe.deploy.cli.output import Json, console, print_json
from eunoe.schemas.errors import Refused
from eunoe.workers.models.embedding import WordLlamaEmbedder
from tests.papers.multihop import evaluate_multihop
from tests.papers.operations import ContradictionScores, PairScores, evaluate_file
from tests.papers.replay import ReplayScores, replay_file


def multihop(
    data: Annotated[Path, typer.Option(help="JSON file of facts and questions in MultiHop-RAG's format.")],
    as_json: Json = False,
) -> None:
    """Measure multi-hop retrieval in the tree: recall of evidence facts, by retriever.

    The facts are inserted one by one in the order of their dates; every row is over the same facts and questions.
    """
    rows = asyncio.run(evaluate_multihop(data, WordLlamaEmbedder()))
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
    """Measure the offline operations on memories: contradictions, labelled pairs, wrong deletions."""
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
    """A table with one row for each number, and the wrong or ended items in full."""
    table = Table("", name)
    for field, value in fields.items():
        for row in value if isinstance(value, list) else [value]:
            shown = "\n".join(f"{key}: {text}" for key, text in row.items()) if isinstance(row, dict) else row
            table.add_row(field, f"{shown:.3f}" if isinstance(shown, float) else str(shown))
    return table
