"""`eunoe diff`."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from eunoe.deploy.cli.output import Json, console, listing, print_json
from eunoe.deploy.cli.progress import ProgressBars
from eunoe.deploy.clients.connect import connected_settings
from eunoe.deploy.exits import Exit
from eunoe.deploy.generations.diff.questions import Overlap, read_questions
from eunoe.deploy.generations.diff.run import Compared, DiffOptions, run_diff
from eunoe.deploy.inspect.counted import counted
from eunoe.deploy.inspect.differences import Tally, TreeShape
from eunoe.schemas.events import DEFAULT_TENANT, Strategy
from eunoe.schemas.identity import conversation_key

_WIDTH = 200
"""Characters of an example in the table; the JSON has all of them."""


def diff(
    old: Annotated[str, typer.Argument(help="Name of a generation, for instance v1.")],
    new: Annotated[str, typer.Argument(help="Name of the generation to compare with it.")],
    conversation: Annotated[
        list[str] | None, typer.Option(help="Only this conversation id; repeatable. Default: all.")
    ] = None,
    tenant: Annotated[str, typer.Option(help="Tenant of these conversations.")] = DEFAULT_TENANT,
    questions: Annotated[
        Path | None,
        typer.Option(help='File of questions to ask both: JSON lines {"conversation": "…", "question": "…"}.'),
    ] = None,
    strategy: Annotated[
        Strategy | None, typer.Option(help="Retrieval strategy of the questions; default: as stage respond is set.")
    ] = None,
    examples: Annotated[int, typer.Option(min=0, max=100, help="Examples to show of each kind of difference.")] = 3,
    as_json: Json = False,
) -> None:
    """Compare two generations: memories, segments, links, trees, retrieval.

    Memories are matched by text and speaker, segments by their utterances, links by relation and both ends. Both
    generations may keep working; one that is behind the log has fewer sessions, as the row "sessions" shows.

    Exit codes:

    - 0: the digests of all conversations are equal, and so are the results of all questions
    - 1: they differ
    - 2: unknown generation or conversation
    - 69: a server did not answer
    """
    asked = DiffOptions(
        old=old,
        new=new,
        conversations=[conversation_key(tenant, one) for one in conversation or ()],
        questions=read_questions(questions) if questions is not None else (),
        strategy=strategy,
        examples=examples,
    )
    compared = asyncio.run(_run(asked, as_json=as_json))
    if as_json:
        print_json(_document(asked, compared))
    else:
        _print(asked, compared)
    if not compared.is_equal:
        raise typer.Exit(Exit.FAILED)


async def _run(asked: DiffOptions, *, as_json: bool) -> Compared:
    with ProgressBars(quiet=as_json, transient=True) as bars:
        return await run_diff(connected_settings(), asked, bars)


# ---- for people


def _print(asked: DiffOptions, compared: Compared) -> None:
    difference = compared.difference
    console.print(_counts(asked, compared))
    table = Table("", asked.old, asked.new, title="examples", title_justify="left", show_lines=True)
    for kind, found in difference.tallies.items():
        for example in found.examples:
            where = f"\n{escape(example.key)}" if difference.conversations > 1 else ""
            table.add_row(f"{kind}{where}", _clip(example.old), _clip(example.new))
    if table.row_count:
        console.print(table)
    if compared.overlaps:
        console.print(_asked_table(asked, compared.overlaps))
    console.print(_verdict(asked, compared), highlight=False)


def _counts(asked: DiffOptions, compared: Compared) -> Table:
    difference = compared.difference
    table = listing("", asked.old, asked.new, f"only {asked.old}", f"only {asked.new}", "changed")
    for column in table.columns[1:]:
        column.justify = "right"
    only = (len(compared.only_old), len(compared.only_new))
    common = difference.conversations - sum(only)
    table.add_row("conversations", *map(_number, (common + only[0], common + only[1], *only)), "")
    table.add_row("sessions", *map(_number, difference.sessions), "", "", "")
    for kind, found in difference.tallies.items():
        table.add_row(
            kind, str(found.old), str(found.new), *map(_number, (found.only_old, found.only_new, found.changed))
        )
    before, after = difference.trees
    for name in ("leaves", "depth", "fan_out"):
        table.add_row(
            f"tree {name.replace('_', '-')}", str(getattr(before, name)), str(getattr(after, name)), "", "", ""
        )
    return table


def _asked_table(asked: DiffOptions, overlaps: Sequence[Overlap]) -> Table:
    table = Table("question", "shared", f"{asked.old} tokens", f"{asked.new} tokens")
    for each in overlaps:
        table.add_row(escape(each.question.question), f"{each.shared:.0%}", *map(str, each.tokens))
    table.caption = (
        f"{counted(len(overlaps), 'question')}, {_mean(overlaps):.1%} of the retrieved utterances are shared"
    )
    return table


def _verdict(asked: DiffOptions, compared: Compared) -> str:
    difference = compared.difference
    whole = counted(difference.conversations, "conversation")
    if compared.is_equal:
        return f"{asked.old} and {asked.new} are equal: the digests of {whole} agree"
    differing = difference.conversations - difference.equal
    seen = any(found.differs for found in difference.tallies.values())
    why = "" if seen or not differing else ", but only in provenance (models, prompts, versions) or event details"
    return f"{asked.old} and {asked.new} differ in {differing} of {whole}{why}"


def _number(count: int) -> str:
    return str(count) if count else ""


def _clip(words: str | None) -> str:
    if words is None:
        return ""
    return escape(words if len(words) <= _WIDTH else words[: _WIDTH - 1] + "…")


def _mean(overlaps: Sequence[Overlap]) -> float:
    return sum(each.shared for each in overlaps) / len(overlaps) if overlaps else 1.0


# ---- for scripts


def _document(asked: DiffOptions, compared: Compared) -> dict[str, Any]:
    difference = compared.difference
    return {
        "old": asked.old,
        "new": asked.new,
        "equal": compared.is_equal,
        "conversations": difference.conversations,
        "equal_conversations": difference.equal,
        "only_old": list(compared.only_old),
        "only_new": list(compared.only_new),
        "sessions": list(difference.sessions),
        "kinds": {kind: _tally(found) for kind, found in difference.tallies.items()},
        "trees": [_shape(shape) for shape in difference.trees],
        "questions": [_overlap(each) for each in compared.overlaps],
        "shared": _mean(compared.overlaps) if compared.overlaps else None,
    }


def _tally(found: Tally) -> dict[str, Any]:
    counts = {name: getattr(found, name) for name in ("old", "new", "only_old", "only_new", "changed")}
    examples = [{"conversation": each.key, "old": each.old, "new": each.new} for each in found.examples]
    return {**counts, "examples": examples}


def _shape(shape: TreeShape) -> dict[str, int]:
    return {name: getattr(shape, name) for name in ("nodes", "leaves", "depth", "fan_out")}


def _overlap(each: Overlap) -> dict[str, Any]:
    return {
        **each.question.model_dump(mode="json"),
        "shared": each.shared,
        "tokens": list(each.tokens),
        "utterances": [list(side) for side in each.utterances],
    }
