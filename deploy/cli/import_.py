"""`eunoe import`."""

import asyncio
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from eunoe.deploy.cli.output import Json, errors, note, print_json
from eunoe.deploy.cli.progress import ProgressBars
from eunoe.deploy.clients.connect import connected_settings
from eunoe.deploy.clients.live_settings import client_settings, live_settings
from eunoe.deploy.clients.shared import open_publisher, open_store
from eunoe.deploy.datasets.chunks import ReportRead
from eunoe.deploy.datasets.imports.estimate import ImportEstimate, estimate_import
from eunoe.deploy.datasets.imports.formats import ImportFormat, read_import
from eunoe.deploy.datasets.imports.imported import ImportFile, ImportTarget
from eunoe.deploy.datasets.imports.missing import MissingSessions, missing_sessions
from eunoe.deploy.datasets.imports.run import ImportDone, run_import
from eunoe.deploy.datasets.unmarked import unmarked_line
from eunoe.deploy.exits import Exit
from eunoe.deploy.inspect.counted import counted
from eunoe.deploy.settings import Settings
from eunoe.schemas.base import write_time
from eunoe.schemas.errors import Refused, Unavailable
from eunoe.schemas.events import DEFAULT_TENANT

_MOST_REFUSED: Final = 10
"""Refused chats that are named."""


def import_(
    file: Annotated[
        Path, typer.Argument(help="File to import; for ChatGPT and Claude conversations.json, or the ZIP file.")
    ],
    from_: Annotated[ImportFormat, typer.Option("--from", help="Format of the file.")],
    conversation: Annotated[
        str | None, typer.Option(help="Conversation to import into. Default: what the format says.")
    ] = None,
    tenant: Annotated[str, typer.Option(help="Tenant of the conversations.")] = DEFAULT_TENANT,
    speaker: Annotated[str, typer.Option(help="Name of the person whose chats or memories these are.")] = "user",
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask before it starts.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would be imported, and do nothing.")] = False,
    as_json: Json = False,
) -> None:
    """Import chats and memories of other products at their true dates; asks stay fast meanwhile.

    Says first how much it is, and what it costs. A second import of the same file changes nothing. After Ctrl-C, or
    where a server went away, run the same command again to go on.

    Exit codes:

    - 0: done
    - 1: done, without chats that were refused and named
    - 2: not a file of this format, or wrong settings
    - 69: a server is away, or the stages do not go on
    """
    if not (yes or dry_run or sys.stdin.isatty()):
        raise Refused("no terminal to ask at: give --yes to import, or --dry-run to see what it would cost")
    settings = connected_settings()  # before the file, which may take a minute, is read
    with ProgressBars(quiet=as_json, transient=True) as bars:
        found = read_import(file, from_, ImportTarget(tenant, conversation, speaker), _reading(bars))
    with ProgressBars(quiet=as_json, transient=True) as bars:
        plan = asyncio.run(_plan(settings, found, bars))
    if not as_json:
        for line in plan_lines(found, plan):
            errors.print(line, markup=False, highlight=False)
    if dry_run:
        _print({"plan": _plan_document(found, plan)}, as_json=as_json)
        _end_incomplete(found)
        return
    if not yes:
        typer.confirm("Import?", abort=True, err=True)
    done = _run(settings, found, quiet=as_json)
    _print({"plan": _plan_document(found, plan), "done": asdict(done)}, as_json=as_json)
    note(done_line(done, len(found.refused)), quiet=as_json)
    _end_incomplete(found)


def _end_incomplete(found: ImportFile) -> None:
    """End with the code of a negative result, where chats were refused."""
    if found.refused:
        raise typer.Exit(Exit.FAILED)


def _reading(bars: ProgressBars) -> ReportRead:
    """A bar over the megabytes of the file."""
    return lambda done, total: bars("MB read", done // 2**20, total // 2**20)


def _run(settings: Settings, found: ImportFile, *, quiet: bool) -> ImportDone:
    try:
        with ProgressBars(quiet=quiet) as bars:
            return asyncio.run(_import(settings, found, bars))
    except (KeyboardInterrupt, Unavailable):
        note("stopped; run the same command again to go on")
        raise


async def _import(settings: Settings, found: ImportFile, bars: ProgressBars) -> ImportDone:
    live = await client_settings(settings)
    total = len(found.sessions)
    async with open_store(live) as store, open_publisher(live) as publisher:
        return await run_import(store, publisher, found.sessions, lambda done: bars("remembered", done, total))


async def _plan(settings: Settings, found: ImportFile, bars: ProgressBars) -> tuple[MissingSessions, ImportEstimate]:
    """The part that is not there yet, and its cost."""
    live = await live_settings(settings)
    async with open_store(live) as store:
        missing = await missing_sessions(store, found.sessions)
    return missing, await estimate_import(live, missing.sessions, lambda done: bars("sample", done, 0))


def plan_lines(found: ImportFile, plan: tuple[MissingSessions, ImportEstimate]) -> list[str]:
    """The plan of an import as lines of text."""
    missing, cost = plan
    first, last = (time.date().isoformat() for time in found.dates or ())
    lines = [
        f"{counted(found.events, 'event')} in {counted(len(found.sessions), 'session')}"
        f" of {counted(len(found.conversations), 'conversation')}, from {first} to {last}",
        f"about {counted(cost.calls, 'model call')}, {cost.prompt_tokens} prompt tokens,"
        f" {cost.completion_tokens} completion tokens"
        + (f", ${cost.cost:.2f}" if cost.cost else "")
        + f", {counted(max(1, round(cost.seconds / 60)), 'minute')}"
        + f" (scaled from {counted(cost.sampled_events, 'event')})",
    ]
    if cost.memories is not None:
        lines.append(
            f"about {counted(cost.memories, 'memory')}: no model is set, and the offline rules take what people say of"
            " themselves, such as “I live in Lyon”"
        )
    if missing.present:
        lines.append(f"passed over, for they are there already: {counted(missing.present, 'session')}")
    if missing.erased:
        lines.append(f"passed over, for they were erased: {counted(missing.erased, 'utterance')}")
    if found.unmarked:
        lines.append(unmarked_line(found.unmarked))
    if found.undated:
        lines.append(f"at the time of the message before, for they have none: {counted(found.undated, 'message')}")
    if found.left_out:
        kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(found.left_out.items()))
        lines.append(f"left out: {kinds}")
    return [*lines, *_refusals(found)]


def _refusals(found: ImportFile) -> list[str]:
    """Lines for the chats that were refused of a file that is imported without them."""
    lines = [f"refused: {fault}" for fault in found.refused[:_MOST_REFUSED]]
    more = len(found.refused) - len(lines)
    return [*lines, f"refused: {counted(more, 'more chat')}; --json names all"] if more else lines


def done_line(done: ImportDone, refused: int = 0) -> str:
    """The result as a line of text, with the number of chats that were ``refused``."""
    there = f"; {counted(done.present, 'session')} had come before" if done.present else ""
    played = f"{counted(done.events, 'event')} in {counted(done.sessions, 'session')}"
    without = f"; {counted(refused, 'chat')} refused" if refused else ""
    return f"{played} became memory in {done.seconds:.1f} s{there}{without}"


def _plan_document(found: ImportFile, plan: tuple[MissingSessions, ImportEstimate]) -> dict[str, Any]:
    missing, cost = plan
    dates = [write_time(time) for time in found.dates or ()]
    return {
        "events": found.events,
        "sessions": len(found.sessions),
        "conversations": list(found.conversations),
        "dates": dates,
        "left_out": dict(found.left_out),
        "unmarked": dict(found.unmarked),
        "undated": found.undated,
        "refused": list(found.refused),
        "present": missing.present,
        "erased": missing.erased,
        **asdict(cost),
    }


def _print(document: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        print_json(document)
