"""`eunoe topics`."""

import asyncio
from dataclasses import asdict
from typing import Annotated

import typer

from eunoe.deploy.cli.output import Json, console, listing, print_json
from eunoe.deploy.cli.progress import ProgressBars
from eunoe.deploy.clients.connect import connected_settings, kept_stack
from eunoe.deploy.clients.live_settings import placed_settings
from eunoe.deploy.inspect.counted import counted
from eunoe.deploy.settings import Settings
from eunoe.schemas.errors import Refused
from eunoe.streams.admin import TopicStatus, create_topics, list_topics, settled_topics
from eunoe.streams.topics import Topic

app = typer.Typer(help="Create and list the topics, and change their number of partitions.", no_args_is_help=True)


@app.command("create")
def create(
    partitions: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=1000,
            help="Partitions of each topic, the maximum number of processes of a stage; default: EUNOE_PARTITIONS.",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Create the missing topics with their partitions and limits; existing ones are left alone."""
    created, wanted = asyncio.run(_create(connected_settings(), partitions))
    if as_json:
        print_json({"created": created, "partitions": wanted})
    else:
        console.print(
            f"{counted(len(created), 'topic')} created with {counted(wanted, 'partition')}"
            if created
            else "all topics exist"
        )


@app.command("list")
def list_(as_json: Json = False) -> None:
    """List the topics with their partitions and purpose."""
    rows = asyncio.run(_list(connected_settings()))
    if as_json:
        print_json([asdict(row) for row in rows])
        return
    table = listing("topic", "partitions", "purpose")
    for row in rows:
        table.add_row(row.name, str(row.partitions), row.purpose)
    console.print(table)


@app.command("seal")
def seal(
    yes: Annotated[bool, typer.Option("--yes", help="Skip the confirmation.")] = False,
    as_json: Json = False,
) -> None:
    """Copy an older, plain log into the sealed one, then let `conversations` go after EUNOE_KEYS__DOOR_HOURS.

    For a deployment that gets a key store (EUNOE_KEYS__STORE): first `eunoe topics create`, then restart the workers,
    then this command. Records that the sealed log has are not copied again: run it again after an interruption. From
    then on Kafka removes plain records, and only who has the key store can read the log.
    """
    if not yes and as_json:
        raise Refused("--json cannot ask for confirmation: add --yes")
    settings = asyncio.run(placed_settings(connected_settings()))
    name = settings.names.name(Topic.CONVERSATIONS)
    if not yes:
        hours = counted(settings.keys.door_hours, "hour")
        typer.confirm(f"Seal what {name} holds, and remove plain records after {hours}?", abort=True, err=True)
    # imported only here, as below
    from eunoe.deploy.generations.seal_log import seal_log  # noqa: PLC0415

    with ProgressBars(quiet=as_json) as bars:
        done = asyncio.run(seal_log(settings, bars))
    if as_json:
        print_json(asdict(done))
        return
    kept = "the embedded broker removes nothing"
    if done.hours is not None:
        kept = f"kept for {counted(done.hours, 'hour')} from now on"
    console.print(f"{counted(done.sealed, 'record')} sealed; {done.topic}: {kept}", highlight=False)


async def _create(settings: Settings, partitions: int | None) -> tuple[list[TopicStatus], int]:
    settings = await placed_settings(settings)
    wanted = partitions or settings.partitions
    if partitions is None and settings.names.log:
        wanted = await _partitions_of_log(settings) or wanted
    created = await create_topics(settings.kafka_settings, settings.names, wanted, settings.replication)
    return created, wanted


async def _partitions_of_log(settings: Settings) -> int:
    """Partitions of a log that is not the first, which has a number of its own; 0 where its topic is not there yet."""
    statuses = await settled_topics(settings.kafka_settings, settings.names, [Topic.CONVERSATIONS])
    return next(status.partitions for status in statuses if status.topic is Topic.CONVERSATIONS)


async def _list(settings: Settings) -> list[TopicStatus]:
    settings = await placed_settings(settings)
    return await list_topics(settings.kafka_settings, settings.names)


@app.command("repartition")
def repartition(
    partitions: Annotated[
        int,
        typer.Argument(
            min=1, max=1000, metavar="N", help="New number of partitions, of the log and of all derived topics."
        ),
    ],
    into: Annotated[
        str | None, typer.Option(help="Name of the generation to build from it; default: the next of v2, v3, …")
    ] = None,
    workers: Annotated[int, typer.Option(min=1, max=256, help="Number of processes that rebuild the memory.")] = 2,
    follow: Annotated[
        bool, typer.Option("--follow", help="Then run the new generation's workers here until Ctrl-C.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Skip the confirmation.")] = False,
    as_json: Json = False,
) -> None:
    """Change the number of partitions: copy the log, rebuild the memory from the copy, switch over.

    A key's partition depends on the number of partitions, so it cannot be changed in place. The command copies the log
    into PREFIX.conversations.1 (.2, .3 … the next times), with the original position and time of every record. It
    builds a new generation from the copy with the recorded model answers. The old generation answers until both are
    ready, then the new one. No ask is lost or answered twice.

    Keep the workers running until the command ends, then restart them: they find the new log in Redis, as do `eunoe
    produce` and `eunoe ask`. Give other clients EUNOE_LOG=1, or TopicNames(log=1). A record produced into the old topic
    is dead-lettered with the reason `moved`, and an ask there gets a reply with `error`; both name the new topic.
    `eunoe dead-letters retry --reason moved` sends such records to the new log. After an interruption, run the command
    again with the same N to continue.

    Exit codes:

    - 0: done
    - 2: refused, nothing was changed
    - 69: a server did not answer; run the command again
    """
    if yes is False and as_json:
        raise Refused("--json cannot ask for confirmation: add --yes")
    settings = connected_settings()
    if (directory := kept_stack(settings)) is not None:
        raise Refused(
            f"the servers of `eunoe up` in {directory} cannot be repartitioned: each partition of their log is a file,"
            " and one process reads all of them. Set EUNOE_KAFKA, EUNOE_REDIS_URL and EUNOE_QDRANT_URL to servers of"
            " your own"
        )
    # imported only here: `eunoe topics create` does not wait for the libraries of a rebuild
    from eunoe.deploy.cli.repartition import RepartitionOptions, change_partitions  # noqa: PLC0415

    options = RepartitionOptions(partitions, into, workers, following=follow, asking=not yes, as_json=as_json)
    change_partitions(settings, options)
