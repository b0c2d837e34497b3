"""What commands print: for people with rich, for scripts as JSON."""

import sys
from typing import Annotated

import orjson
import typer
from rich.console import Console

console = Console()
errors = Console(stderr=True)

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on standard output, for scripts.")]


def print_json(value: object) -> None:
    """One JSON object on standard output, indented only where a person looks."""
    option = orjson.OPT_INDENT_2 if sys.stdout.isatty() else 0
    sys.stdout.buffer.write(orjson.dumps(value, option=option | orjson.OPT_APPEND_NEWLINE))
    sys.stdout.buffer.flush()


def note(message: str, *, quiet: bool = False) -> None:
    """A line of progress on standard error; nothing where ``quiet``."""
    if not quiet:
        errors.print(message, highlight=False)
