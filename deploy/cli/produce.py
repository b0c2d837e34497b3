"""`eunoe produce`."""

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from eunoe.deploy.cli.output import Json, console, note, print_json
from eunoe.deploy.cli.progress import ProgressBars
from eunoe.deploy.clients.connect import connected_settings
from eunoe.deploy.clients.live_settings import client_settings
from eunoe.deploy.clients.shared import open_publisher
from eunoe.deploy.datasets.load import read_bytes, read_numbered_events
from eunoe.deploy.datasets.loaded import ClientEvent
from eunoe.deploy.datasets.taken import check_taken
from eunoe.deploy.datasets.unmarked import unmarked_line, unmarked_replies
from eunoe.deploy.demo.play import produce as send
from eunoe.deploy.inspect.counted import counted
from eunoe.deploy.settings import Settings
from eunoe.workers.intake.settings import IntakeSettings


def produce(
    file: Annotated[
        Path, typer.Argument(help="File of JSON lines, one event each: an utterance, a session end or an erasure.")
    ],
    as_json: Json = False,
) -> None:
    """Produce the events of a file into the conversations topic.

    Checks the whole file first: a wrong line is reported, and nothing is produced. An utterance whose id the log has
    already with another content becomes a dead letter: see `eunoe dead-letters list`.
    """
    numbered = list(read_numbered_events([read_bytes(file)], file))
    settings = connected_settings()
    check_taken(numbered, file, settings.of(IntakeSettings).max_text_bytes)
    events = tuple(event for _, event in numbered)
    if unmarked := unmarked_replies(events):
        note(unmarked_line(unmarked), quiet=as_json)
    with ProgressBars(quiet=as_json) as bars:
        asyncio.run(_send(settings, events, bars))
    conversations = len({event.key for event in events})
    if as_json:
        print_json({"events": len(events), "conversations": conversations})
    else:
        console.print(
            f"{counted(len(events), 'event')} of {counted(conversations, 'conversation')} produced", highlight=False
        )


async def _send(settings: Settings, events: tuple[ClientEvent, ...], bars: ProgressBars) -> None:
    async with open_publisher(await client_settings(settings)) as publisher:
        await send(publisher, events, lambda done: bars("produced", done, len(events)))
