"""Output of the commands: text by rich for people, JSON for scripts."""

import sys
from typing import Annotated

import orjson
import typer
from rich.console import Console

console = Console()
errors = Console(stderr=True)

Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON on standard output.")]


def print_json(value: object) -> None:
    """Print a value as JSON on standard output, indented only on a terminal."""
    option = orjson.OPT_INDENT_2 if sys.stdout.isatty() else 0
    sys.stdout.buffer.write(orjson.dumps(value, option=option | orjson.OPT_APPEND_NEWLINE))
    sys.stdout.buffer.flush()


def note(message: str, *, quiet: bool = False) -> None:
    """Print a line on standard error, unless ``quiet``."""
    if not quiet:
        errors.print(message, highlight=False)
