"""Output of the commands: text by rich for people, JSON for scripts."""

import json
import logging
import sys
from collections.abc import Iterable, Iterator
from typing import Annotated, Final

import orjson
import typer
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.padding import Padding
from rich.segment import Segment
from rich.styled import Styled
from rich.table import Column, Table

from eunoe.schemas.errors import Refused
from eunoe.workers.text.invisible import invisible_written, without_invisible


class VisibleConsole(Console):
    """A console that writes no text which is not shown.

    Texts and names come from anybody: their control characters would command the terminal, and others would hide or
    turn round what stands there.
    """

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterator[Segment]:
        """The segments of what is printed; control codes of the console's own are left alone."""
        for segment in super().render(renderable, options):
            if segment.control is not None or segment.text.isprintable():
                yield segment
            else:
                yield Segment(without_invisible(segment.text), segment.style)


console = VisibleConsole()
errors = VisibleConsole(stderr=True)

Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON on standard output.")]

NARROW: Final = 60
"""Columns of a terminal below which tables are hard to read."""
_ANY: Final = 10_000
"""Columns that any table fits in."""
NEWER: Final = (
    "a newer version of eunoe wrote what is stored: use that one, or, where you went back for good,"
    " `eunoe repair CONVERSATION`"
)
"""The fault of state that this version cannot read; the field that it does not know follows."""
LOG_LEVELS: Final = ("debug", "info", "warning", "error")


def look_again() -> None:
    """Let the consoles look again at what they write to, in a fork with other descriptors."""
    Console.__init__(console)
    Console.__init__(errors, stderr=True)


def set_log_level(level: str) -> None:
    """Log from this level on; raises `Refused` for a word that is none of `LOG_LEVELS`."""
    if level.lower() not in LOG_LEVELS:
        raise Refused(f"--log-level {level!r:.40}: use {', '.join(LOG_LEVELS)}")
    logging.getLogger("eunoe").setLevel(level.upper())


class Listing(Table):
    """A table of which each row becomes lines, one for each value, where it would break words of its columns."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """The table, or its rows as lines."""
        for column in self.columns:
            column.min_width = _longest_word(column)
        if options.max_width >= max(NARROW, self.__rich_measure__(console, options.update(max_width=_ANY)).minimum):
            yield from super().__rich_console__(console, options)
            return
        for name, *values in zip(*(column.cells for column in self.columns), strict=True):
            yield Styled(name, "bold")
            lines = Table.grid(Column(no_wrap=True, style="dim"), Column(overflow="fold"), padding=(0, 0, 0, 2))
            for column, value in zip(self.columns[1:], values, strict=True):
                if str(value):
                    lines.add_row(column.header, value)
            yield Padding(lines, (0, 0, 0, 2), expand=False)


def _longest_word(column: Column) -> int:
    """Columns of a terminal that the longest word of a table's column takes."""
    return max(cell_len(word) for cell in (column.header, *column.cells) for word in str(cell).split() or ("",))


def listing(name: str, *columns: str) -> Listing:
    """A table without rows, of which nothing is cut off on a narrow terminal; ``name`` heads what names its rows."""
    return Listing(Column(name, no_wrap=True), *(Column(column, overflow="fold") for column in columns))


def print_json(value: object) -> None:
    """Print a value as JSON on standard output, indented only on a terminal."""
    write_json([orjson.dumps(value, option=orjson.OPT_INDENT_2 if sys.stdout.isatty() else 0)])


def write_json(pieces: Iterable[bytes]) -> None:
    """Write a line, or a document, of JSON to standard output as it comes; no piece ends within a character.

    Its strings name what is not shown by its code: JSON may hold as they are the characters above ASCII that command a
    terminal, and those that turn round what stands there.
    """
    file = sys.stdout.buffer
    for piece in pieces:
        file.write(invisible_written(piece.decode(), _code_of).replace(_NEXT_LINE, _code_of(_NEXT_LINE)).encode())
    file.write(b"\n")
    file.flush()


def _code_of(char: str) -> str:
    """The character as JSON may write it: by its code, or its two codes."""
    return json.dumps(char)[1:-1] if char != _DELETE else "\\u007f"


_DELETE: Final = "\x7f"
"""The one control that JSON's own writers leave as it is."""
_NEXT_LINE: Final = "\x85"
"""An end of a line, which texts may have and strings of JSON show as another line."""


_CONTROLS: Final = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160)) if chr(code) not in "\n\t"}


def printable(text: str) -> str:
    """The text with control characters written out, so that what a client wrote does nothing to a terminal."""
    return text.translate(_CONTROLS)


def note(message: str, *, quiet: bool = False) -> None:
    """Print a line on standard error, unless ``quiet``."""
    if not quiet:
        errors.print(message, markup=False, highlight=False)
