"""`eunoe topics`."""

import asyncio
from dataclasses import asdict
from importlib import import_module
from typing import Annotated

import typer
from rich.table import Table

from eunoe.deploy.cli.output import Json, console, print_json
from eunoe.deploy.clients.connect import connected_settings, kept_stack
from eunoe.deploy.clients.live_settings import placed_settings
from eunoe.deploy.settings import Settings
from eunoe.schemas.errors import Refused
from eunoe.streams.admin import TopicStatus, create_topics, list_topics
from eunoe.streams.reader import partitions_of
from eunoe.streams.topics import Topic

app = typer.Typer(help="Create and list the topics, and change the number of their partitions.", no_args_is_help=True)


@app.command("create")
def create(
    partitions: Annotated[
        int | None, typer.Option(min=1, help="Partitions of each topic: the most processes a stage can ever use.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Create every topic that is missing, with its partitions and limits. Harmless when all are there."""
    created, wanted = asyncio.run(_create(connected_settings(), partitions))
    if as_json:
        print_json({"created": created, "partitions": wanted})
    else:
        console.print(f"{len(created)} topics created with {wanted} partitions" if created else "all topics are there")


@app.command("list")
def list_(as_json: Json = False) -> None:
    """List the topics with their partitions and purpose."""
    rows = asyncio.run(_list(connected_settings()))
    if as_json:
        print_json([asdict(row) for row in rows])
        return
    table = Table("topic", "partitions", "purpose")
    for row in rows:
        table.add_row(row.name, str(row.partitions), row.purpose)
    console.print(table)


async def _create(settings: Settings, partitions: int | None) -> tuple[list[TopicStatus], int]:
    settings = await placed_settings(settings)
    wanted = partitions or settings.partitions
    if partitions is None and settings.names.log:  # the log's own number was asked for when it was made
        (wanted,) = await partitions_of(settings.kafka_settings, settings.names, [Topic.CONVERSATIONS])
    created = await create_topics(settings.kafka_settings, settings.names, wanted, settings.replication)
    return created, wanted


async def _list(settings: Settings) -> list[TopicStatus]:
    settings = await placed_settings(settings)
    return await list_topics(settings.kafka_settings, settings.names)


@app.command("repartition")
def repartition(
    partitions: Annotated[
        int, typer.Argument(min=1, max=1000, metavar="N", help="Partitions of the new log and of all that is derived.")
    ],
    into: Annotated[
        str | None, typer.Option(help="The generation to make from it; unset: the next of v2, v3, …")
    ] = None,
    workers: Annotated[int, typer.Option(min=1, max=256, help="Processes that make memory again.")] = 2,
    follow: Annotated[
        bool, typer.Option("--follow", help="Then go on running the new generation's workers here, until Ctrl-C.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    as_json: Json = False,
) -> None:
    """Change the number of partitions: copy the log, make memory again from the copy, and change over.

    A key's partition depends on their number, so it cannot be changed in place. The log is copied into
    PREFIX.conversations.1 (2, 3 … the next times), with the first place and time of every record; another generation is
    made from the copy, with recorded answers: no model is asked what it was asked before. The old generation answers
    until both are ready, then the new one; no ask is lost, none is answered twice.

    Keep the workers running until it is done; then start them afresh: they read the new log by themselves. From then on
    what comes into the old topic is refused: set aside as a dead letter with the reason `moved`, which names the new
    topic; an ask gets a reply whose `error` names it too. `eunoe produce` and `eunoe ask` find the new log in Redis;
    tell clients EUNOE_LOG=1, or TopicNames(log=1). `eunoe dead-letters retry --reason moved` sends what was refused to
    the new log. Stopped in between, it goes on when it is called again with the same N.

    Exit codes: 0 done, 2 it cannot be done so (nothing was changed), 69 a server did not answer: run it again.
    """
    if yes is False and as_json:
        raise Refused("with --json nobody can be asked: add --yes")
    settings = connected_settings()
    if (directory := kept_stack(settings)) is not None:
        raise Refused(
            f"the servers of `eunoe up` in {directory} keep their log in files of one partition each, and one process"
            " does all of their work: another number would bring nothing. This is for servers of your own (EUNOE_KAFKA,"
            " EUNOE_REDIS_URL, EUNOE_QDRANT_URL)"
        )
    # imported only here: `eunoe topics create` need not wait for all that a rebuild brings
    change = import_module("eunoe.deploy.cli.repartition")
    wish = change.Wish(partitions, into, workers, following=follow, asking=not yes, as_json=as_json)
    change.change_partitions(settings, wish)
