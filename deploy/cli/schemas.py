"""`eunoe schemas`."""

from pathlib import Path
from typing import Annotated

import typer

from eunoe.deploy.cli.output import Json, console, print_json
from eunoe.deploy.contracts.write import write_contracts


def schemas(
    folder: Annotated[Path, typer.Argument(help="Folder to write to; created if missing.")] = Path("contracts"),
    as_json: Json = False,
) -> None:
    """Write the JSON Schemas and the AsyncAPI document for clients in any language.

    One JSON Schema for each event, and one AsyncAPI 3 document with topics, keys and partitioner.
    """
    written = write_contracts(folder)
    if as_json:
        print_json({"written": [str(path) for path in written]})
    else:
        console.print(f"{len(written)} files written to {folder}/")
