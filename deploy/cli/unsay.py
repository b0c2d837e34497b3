"""`eunoe unsay`."""

import asyncio
from typing import Annotated, Any

import typer

from eunoe.deploy.cli.erasing import ErasureWords, opened_eraser, to_be_finished
from eunoe.deploy.cli.output import Json, console, print_json
from eunoe.deploy.generations.erase.difference import erase_and_compare, foresee
from eunoe.deploy.generations.handled_log import StillWritten
from eunoe.deploy.inspect.counted import counted
from eunoe.deploy.inspect.differences import Example, GenerationDiff
from eunoe.schemas.events import DEFAULT_TENANT


def unsay(
    conversation: Annotated[str, typer.Argument(help="The conversation's id.")],
    utterance: Annotated[
        list[str] | None, typer.Option("--utterance", help="The utterance that was a mistake; repeat for several.")
    ] = None,
    session: Annotated[
        str | None, typer.Option(help="A session instead: a client's id of it, or the number of a closed one.")
    ] = None,
    tenant: Annotated[str, typer.Option(help="Tenant of the conversation.")] = DEFAULT_TENANT,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would change; erase nothing.")] = False,
    as_json: Json = False,
) -> None:
    """Erase utterances, and show what memory no longer holds, holds now, and holds otherwise without them.

    The same as `eunoe erase`, with the difference in plain text: what rested on the utterances is derived again. The
    receipt holds no text; `--json` prints it beside the difference.

    Exit codes:

    - 0: done, or shown
    - 2: something of it is unknown or erased already, or a generation is being made; nothing was erased
    - 69: a server did not answer, or the conversation was written to all the time; what had begun is finished by
      `eunoe erase replay`
    """
    words = ErasureWords(conversation, utterance or (), session, tenant, everything=False)
    words.check_part()
    document, difference = asyncio.run(_foreseen(words) if dry_run else _unsaid(words, quiet=as_json))
    if as_json:
        print_json({**document, "dry_run": dry_run, "difference": difference_document(difference)})
    else:
        _print(words.key, difference, dry_run=dry_run, utterances=document["utterances"])


async def _foreseen(words: ErasureWords) -> tuple[dict[str, Any], GenerationDiff]:
    async with opened_eraser(quiet=True, patient=True) as eraser:
        (request,) = await words.requests(eraser)
        planned, difference = await foresee(eraser, request)
    return {"utterances": len(planned.refused), "receipt": None}, difference


async def _unsaid(words: ErasureWords, *, quiet: bool) -> tuple[dict[str, Any], GenerationDiff]:
    async with opened_eraser(quiet=quiet, erases=True, patient=True) as eraser:
        (request,) = await words.requests(eraser)
        try:
            receipt, difference = await erase_and_compare(eraser, request)
        except StillWritten as fault:
            raise to_be_finished(fault) from None
    return {"utterances": receipt.utterances, "receipt": receipt.model_dump(mode="json")}, difference


def difference_document(difference: GenerationDiff) -> dict[str, Any]:
    """Kind → what went, came and changed, in words."""
    return {
        kind: {
            "went": [one.old for one in found.examples if one.new is None],
            "came": [one.new for one in found.examples if one.old is None],
            "changed": [{"before": one.old, "after": one.new} for one in found.examples if one.old and one.new],
        }
        for kind, found in difference.tallies.items()
        if found.differs
    }


def _print(key: str, difference: GenerationDiff, *, dry_run: bool, utterances: int) -> None:
    count = counted(utterances, "utterance")
    lines = [f"{key}: {count} {'would be erased' if dry_run else 'erased'}"]
    for kind, found in difference.tallies.items():
        if found.differs:
            lines.append(f"{kind}: {found.only_old} gone, {found.only_new} new, {found.changed} changed")
            lines += [line for one in found.examples for line in _told(one)]
    if len(lines) == 1:
        lines.append("nothing else in memory rested on it" if utterances == 1 else "nothing in memory rested on them")
    for line in lines:
        console.print(line, highlight=False, markup=False, soft_wrap=True)


def _told(example: Example) -> list[str]:
    before = [] if example.old is None else [f"  - {example.old}"]
    return before if example.new is None else [*before, f"  + {example.new}"]
