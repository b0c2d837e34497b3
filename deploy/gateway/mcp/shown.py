"""Texts of memory as models read them in the results of tools: without what is not shown, and in one line each."""

from collections.abc import Mapping
from typing import Any, Final

from eunoe.workers.text.invisible import without_invisible
from eunoe.workers.text.printed_names import printed_name

_SAID: Final = ("text", "speaker", "because")
"""Fields with words that somebody chose; ids must stay as they are, for the next call."""
UNSEEN: Final = "?"
"""Stands for words of which nothing is shown."""


def said_line(speaker: str, text: str) -> str:
    """``Ann: I moved to Lyon.``; neither name nor text can imitate another line."""
    return f"{printed_name(speaker)}: {folded(text)}"


def folded(text: str) -> str:
    """The text in one line."""
    return " ".join(text.split())


def visible(text: str) -> str:
    """The text without what is not shown; `UNSEEN` where nothing else is left."""
    seen = without_invisible(text)
    return seen if seen.strip() or not text.strip() else UNSEEN


def visible_fields(found: Any) -> Any:  # noqa: ANN401 - JSON
    """A value of JSON whose words are `visible`, at any depth."""
    if isinstance(found, Mapping):
        return {
            name: visible(part) if name in _SAID and isinstance(part, str) else visible_fields(part)
            for name, part in found.items()
        }
    return [visible_fields(part) for part in found] if isinstance(found, list) else found
