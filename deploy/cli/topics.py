"""`eunoe topics`."""

import asyncio
from dataclasses import asdict
from typing import Annotated

import typer
from rich.table import Table

from eunoe.deploy.cli.output import Json, console, print_json
from eunoe.deploy.connect import connected_settings
from eunoe.streams.admin import create_topics, list_topics

app = typer.Typer(help="Create and list the topics.", no_args_is_help=True)


@app.command("create")
def create(
    partitions: Annotated[
        int | None, typer.Option(min=1, help="Partitions of each topic: the most processes a stage can ever use.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Create every topic that is missing, with its partitions and limits. Harmless when all are there."""
    settings = connected_settings()
    wanted = partitions or settings.partitions
    created = asyncio.run(create_topics(settings.kafka_settings, settings.names, wanted, settings.replication))
    if as_json:
        print_json({"created": created, "partitions": wanted})
    else:
        console.print(f"{len(created)} topics created with {wanted} partitions" if created else "all topics are there")


@app.command("list")
def list_(as_json: Json = False) -> None:
    """List the topics with their partitions and purpose."""
    settings = connected_settings()
    rows = asyncio.run(list_topics(settings.kafka_settings, settings.names))
    if as_json:
        print_json([asdict(row) for row in rows])
        return
    table = Table("topic", "partitions", "purpose")
    for row in rows:
        table.add_row(row.name, str(row.partitions), row.purpose)
    console.print(table)
