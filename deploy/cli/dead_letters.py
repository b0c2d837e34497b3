"""`eunoe dead-letters`."""

import asyncio
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from eunoe.deploy.cli.output import Json, console, errors, print_json, printable
from eunoe.deploy.clients.connect import connected_settings
from eunoe.deploy.clients.data_keys import open_data_keys
from eunoe.deploy.clients.live_settings import placed_settings
from eunoe.deploy.clients.shared import open_publisher
from eunoe.deploy.exits import Exit
from eunoe.deploy.inspect.counted import counted
from eunoe.deploy.inspect.dead_letters import (
    LetterFilter,
    close,
    letter_id,
    original,
    read_letters,
    readable,
    retry_letters,
    retry_obstacle,
)
from eunoe.schemas.errors import Refused
from eunoe.schemas.records import DeadLetterReason
from eunoe.streams.dead_letters import Closing, Filed

app = typer.Typer(
    help="List and show dead-lettered records, retry them, mark them resolved.",
    no_args_is_help=True,
)

Ids = Annotated[
    list[str] | None, typer.Argument(metavar="[ID]...", help="Ids as printed by `eunoe dead-letters list`.")
]
Stage = Annotated[str | None, typer.Option(help="Only those of this stage.")]
Reason = Annotated[DeadLetterReason | None, typer.Option(help="Only those with this reason.")]
Conversation = Annotated[str | None, typer.Option(help="Only those with this text in the key (tenant/conversation).")]
Error = Annotated[str | None, typer.Option(help="Only those with this text in the error; case is ignored.")]
All = Annotated[bool, typer.Option("--all", help="All unresolved ones.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Skip the confirmation.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Print what would be done, and do nothing.")]


@app.command("list")
def list_(
    stage: Stage = None,
    reason: Reason = None,
    conversation: Conversation = None,
    error: Error = None,
    all_: Annotated[bool, typer.Option("--all", help="Include resolved ones.")] = False,
    as_json: Json = False,
) -> None:
    """List unresolved dead letters, oldest first within each partition."""
    choice = LetterFilter(stage=stage, reason=reason, conversation=conversation, error=error, closed_too=all_)
    letters = asyncio.run(read_letters(connected_settings(), choice, bodies=False))
    if as_json:
        print_json([_document(filed) for filed in letters])
    else:
        _list(letters, console)


@app.command("show")
def show(
    id_: Annotated[str, typer.Argument(metavar="ID", help="Id as printed by `eunoe dead-letters list`.")],
    as_json: Json = False,
) -> None:
    """Show one dead letter and the raw bytes of its record.

    A large record is stored truncated; its bytes are read from the topic it came from, if they are still there.
    """
    filed, raw = asyncio.run(_whole(id_))
    text = raw.decode(errors="backslashreplace")
    if as_json:
        print_json({**_document(filed), "value": text})
        return
    for name, value in _document(filed).items():
        console.print(Text.assemble((name, "bold"), f": {printable(str(value))}"))
    console.print(printable(text), markup=False, highlight=False, soft_wrap=True)


@app.command("retry")
def retry(
    ids: Ids = None,
    stage: Stage = None,
    reason: Reason = None,
    conversation: Conversation = None,
    error: Error = None,
    all_: All = False,
    yes: Yes = False,
    dry_run: DryRun = False,
    as_json: Json = False,
) -> None:
    """Retry dead letters: send each record, unchanged, to the stage that failed at it, and to no other stage.

    A skipped session is processed late: it adds to the memory and does not replace anything newer.

    Exit codes:

    - 0: all retried
    - 1: some cannot be retried; the reasons are printed
    - 2: nothing selected
    - 69: a server did not answer
    """
    chosen = _chosen(
        ids, LetterFilter(stage=stage, reason=reason, conversation=conversation, error=error), all_=all_, bodies=True
    )
    reasons = {letter_id(filed.letter): retry_obstacle(filed) for filed in chosen}
    ready = [filed for filed in chosen if reasons[letter_id(filed.letter)] is None]
    if not dry_run and ready:
        _confirm(ready, "Retry", yes=yes, as_json=as_json)
        asyncio.run(_retry(ready))
    refused = {id_: why for id_, why in reasons.items() if why is not None}
    _report(ready, refused, Closing.RETRIED, dry_run=dry_run, as_json=as_json)


@app.command("discard")
def discard(
    ids: Ids = None,
    stage: Stage = None,
    reason: Reason = None,
    conversation: Conversation = None,
    error: Error = None,
    all_: All = False,
    yes: Yes = False,
    dry_run: DryRun = False,
    as_json: Json = False,
) -> None:
    """Mark dead letters resolved: they stay in the topic, and only `list --all` shows them."""
    chosen = _chosen(
        ids, LetterFilter(stage=stage, reason=reason, conversation=conversation, error=error), all_=all_, bodies=False
    )
    if not dry_run:
        _confirm(chosen, "Discard", yes=yes, as_json=as_json)
        asyncio.run(_close(chosen))
    _report(chosen, {}, Closing.DISCARDED, dry_run=dry_run, as_json=as_json)


def _chosen(ids: list[str] | None, choice: LetterFilter, *, all_: bool, bodies: bool) -> list[Filed]:
    """The selected letters; raises `Refused` where nothing is selected or nothing matches."""
    if not ids and not all_ and choice == LetterFilter():
        raise Refused(
            "no dead letter selected: give ids, a filter (--stage, --reason, --conversation, --error) or --all"
        )
    wanted = frozenset(ids or ())
    named = LetterFilter(
        wanted, choice.stage, choice.reason, choice.conversation, choice.error, closed_too=bool(wanted)
    )
    found = asyncio.run(read_letters(connected_settings(), named, bodies=bodies))
    if missing := wanted - {letter_id(filed.letter) for filed in found}:
        raise Refused(f"no dead letter {min(missing)!r}: `eunoe dead-letters list` prints the ids")
    if not found:
        raise Refused("no unresolved dead letter matches: `eunoe dead-letters list` prints them")
    return found


def _confirm(letters: list[Filed], action: str, *, yes: bool, as_json: bool) -> None:
    if yes:
        return
    if as_json:
        raise Refused("--json cannot ask for confirmation: add --yes or --dry-run")
    _list(letters, errors)
    typer.confirm(f"{action} {counted(len(letters), 'dead letter')}?", abort=True, err=True)


def _report(letters: list[Filed], refused: dict[str, str], how: Closing, *, dry_run: bool, as_json: bool) -> None:
    if as_json:
        print_json({how.value: [letter_id(f.letter) for f in letters], "refused": refused, "dry_run": dry_run})
    else:
        would = "would be " if dry_run else ""
        for filed in letters:
            console.print(f"{letter_id(filed.letter)}: {would}{how.value}", markup=False, highlight=False)
        for id_, why in refused.items():
            errors.print(f"{id_}: cannot be {how.value}: {why}", style="red", markup=False, highlight=False)
    if refused:
        raise typer.Exit(Exit.FAILED)


def _list(letters: list[Filed], out: Console) -> None:
    """Print two lines for each letter: a table of so many columns would cut ids on a terminal of 80.

    What a client wrote is no markup.
    """
    for filed in letters:
        letter, done = filed.letter, "" if filed.closed is None else f"  {filed.closed.how.value}"
        rest = f"  {letter.log_time:%Y-%m-%d %H:%M:%S}  {letter.reason.value}  {printable(letter.key or '')}{done}"
        out.print(Text.assemble((letter_id(letter), "bold"), rest), soft_wrap=True)
        out.print(Padding(Text(printable(letter.error)), (0, 0, 0, 2), expand=False))
    out.print(counted(len(letters), "dead letter"), highlight=False)


def _document(filed: Filed) -> dict[str, Any]:
    fields = filed.letter.model_dump(mode="json", exclude={"type", "schema_version"})
    closed = filed.closed
    return {
        "id": letter_id(filed.letter),
        **fields,
        "closed": None if closed is None else {"how": closed.how.value, "at": closed.model_dump(mode="json")["at"]},
    }


async def _whole(id_: str) -> tuple[Filed, bytes]:
    settings = await placed_settings(connected_settings())
    found = await read_letters(settings, LetterFilter(frozenset({id_}), closed_too=True))
    if not found:
        raise Refused(f"no dead letter {id_!r}: `eunoe dead-letters list` prints the ids")
    try:
        record = await original(settings, found[0])
    except Refused:
        return found[0], found[0].record.value
    async with open_data_keys(settings) as keys:
        return found[0], await readable(record, keys)


async def _retry(letters: list[Filed]) -> None:
    settings = await placed_settings(connected_settings())
    async with open_data_keys(settings) as keys, open_publisher(settings, keys) as publisher:
        await retry_letters(settings, publisher, letters)


async def _close(letters: list[Filed]) -> None:
    async with open_publisher(connected_settings()) as publisher:
        await close(publisher, letters, Closing.DISCARDED)
