"""Removes the participants' names: in an embedding they pull all texts about one person together."""

from collections.abc import Sequence
from functools import lru_cache


def without_names(text: str, speakers: Sequence[str]) -> str:
    """The text without the words of the speakers' names; the text itself if nothing else is left."""
    names = _names(tuple(speakers))
    kept = [word for word in text.split() if word.strip(".,;:!?'\"()").removesuffix("'s").casefold() not in names]
    return " ".join(kept) or text


@lru_cache(maxsize=1024)
def _names(speakers: tuple[str, ...]) -> frozenset[str]:
    return frozenset(part.casefold() for speaker in speakers for part in speaker.split())
