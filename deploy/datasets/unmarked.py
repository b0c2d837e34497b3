"""Finds what assistants said in a file that does not mark it as replies: it would be remembered as a person's words."""

from collections import Counter
from collections.abc import Iterable
from typing import Final

from eunoe.schemas.events import DEFAULT_AGENT, Erase, SessionEnded, Utterance

_ASSISTANTS: Final = (DEFAULT_AGENT, "ai", "assistant", "bot", "chatbot", "chatgpt", "gpt", "model", "system")
"""Names that products give to who replies, and people do not have."""


def unmarked_replies(events: Iterable[Utterance | SessionEnded | Erase]) -> Counter[str]:
    """Speaker whose name is that of an assistant → how many utterances of it have no ``reply_id``."""
    said = (event for event in events if isinstance(event, Utterance) and event.reply_id is None)
    return Counter(one.speaker for one in said if one.speaker.casefold() in _ASSISTANTS)


def unmarked_line(unmarked: Counter[str]) -> str:
    """The warning about what `unmarked_replies` found."""
    found = ", ".join(f"{count} of {name!r}" for name, count in sorted(unmarked.items()))
    return (
        f"taken for a person's words, for nothing marks them as an assistant's: utterances, {found}. Give each a"
        " reply_id (JSON lines) or a role (CSV), or they become memories"
    )
