"""`eunoe schemas`."""

from pathlib import Path
from typing import Annotated

import typer

from eunoe.deploy.cli.output import Json, console, print_json
from eunoe.deploy.contracts.write import write_contracts
from eunoe.deploy.gateway.openapi import OPENAPI, openapi_bytes
from eunoe.deploy.inspect.counted import counted


def schemas(
    folder: Annotated[Path, typer.Argument(help="Folder to write to; created if missing.")] = Path("contracts"),
    as_json: Json = False,
) -> None:
    """Write the JSON Schemas, the AsyncAPI and the OpenAPI document for clients in any language.

    One JSON Schema for each event, one AsyncAPI 3 document with topics, keys and partitioner, and one OpenAPI 3.1
    document of the HTTP gateway.
    """
    written = [*write_contracts(folder), folder / OPENAPI]
    written[-1].write_bytes(openapi_bytes())
    if as_json:
        print_json({"written": [str(path) for path in written]})
    else:
        console.print(f"{counted(len(written), 'file')} written to {folder}/")
