"""Generated blocks of files that people write: the text between two marks."""

from typing import NamedTuple


class Marks(NamedTuple):
    """The lines around a block."""

    begin: str
    end: str


def markdown_marks(name: str) -> Marks:
    """Comments of Markdown."""
    return Marks(f"<!-- {name} -->", f"<!-- /{name} -->")


def yaml_marks(name: str, indent: int = 2) -> Marks:
    """Comments of YAML, indented by so many spaces."""
    start = " " * indent
    return Marks(f"{start}# <{name}> written by `make contracts`", f"{start}# </{name}>")


def with_block(text: str, marks: Marks, block: str) -> str:
    """The text with ``block`` between the marks; raises ``ValueError`` where one of them is missing."""
    before, begin, rest = text.partition(marks.begin)
    _, end, after = rest.partition(marks.end)
    if not begin or not end:
        raise ValueError(f"no {marks.begin} … {marks.end}")
    return f"{before}{begin}\n\n{block}\n\n{end}{after}"
