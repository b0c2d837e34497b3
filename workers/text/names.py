"""Removes the participants' names: in an embedding they pull all texts about one person together."""

import re
from collections.abc import Iterable, Sequence
from itertools import chain, islice
from typing import Final

from eunoe.workers.text.caches import cached_by_length, total_chars
from eunoe.workers.text.terms import UNSPACED

MAX_SPEAKERS: Final = 64
"""Speakers of a conversation whose names are left out of vectors and terms: the first ones."""
_MIN_CHARS = 2
"""Characters of a name that is removed inside a word: a single ideograph is part of too many."""
_HANGUL = re.compile("[\uac00-\ud7af]")
_PARTICLES = "이가|이는|이를|이의|이도|은|는|이|가|을|를|의|도|와|과|랑|이랑|아|야|에게|한테|씨는|씨가|씨|님"


def first_speakers(*names: Iterable[str]) -> tuple[str, ...]:
    """The speakers in order of appearance, each once, at most `MAX_SPEAKERS`."""
    return tuple(islice(dict.fromkeys(chain(*names)), MAX_SPEAKERS))


def without_names(text: str, speakers: Sequence[str]) -> str:
    """The text without the words of the speakers' names; the text itself if nothing else is left.

    In scripts written without spaces, and in Korean, where particles are attached, names are removed inside of words.
    """
    return _without(text, tuple(speakers))


def _chars_of(text: str, names: tuple[str, ...]) -> int:
    return len(text) + total_chars(names)


# cached: a memory is embedded without names by the stages that store, link and file it
@cached_by_length("names", _chars_of, 8, (400, 512))
def _without(text: str, names: tuple[str, ...]) -> str:
    inner = None if text.isascii() else _inner(names)
    bare = text if inner is None else inner.sub(" ", text)
    words, folded = _names(names), bare.casefold()
    if not any(map(folded.__contains__, words)):  # as in most texts
        return " ".join(bare.split()) or text
    kept = [word for word in bare.split() if word.strip(".,;:!?'\"()").removesuffix("'s").casefold() not in words]
    return " ".join(kept) or text


@cached_by_length("names", total_chars, 20, (500, 64))
def _names(speakers: tuple[str, ...]) -> frozenset[str]:
    return frozenset(part.casefold() for speaker in speakers for part in speaker.split())


@cached_by_length("names", total_chars, 20, (500, 64))
def _inner(speakers: tuple[str, ...]) -> re.Pattern[str] | None:
    """The names in scripts without spaces, the longest first; a Korean one with the particles attached to it."""
    whole = re.compile(f"[{UNSPACED}]{{{_MIN_CHARS},}}")
    parts = {part for speaker in speakers for part in speaker.split() if whole.fullmatch(part)}
    if not parts:
        return None
    ordered = sorted(parts, key=lambda part: (-len(part), part))
    return re.compile("|".join(_korean(part) if _HANGUL.match(part) else re.escape(part) for part in ordered))


def _korean(name: str) -> str:
    return f"(?<!{_HANGUL.pattern}){re.escape(name)}(?:{_PARTICLES})?(?!{_HANGUL.pattern})"
