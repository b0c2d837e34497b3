"""Drops words that retrieval does not need (SeCom, section 2.3), by fixed rules or by LLMLingua-2."""

import asyncio
import importlib
import importlib.util
import math
import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, Final, NamedTuple

from eunoe.schemas.errors import Refused
from eunoe.workers.models.local.batching import Batcher
from eunoe.workers.text.caches import cached_by_word
from eunoe.workers.text.terms import composed
from eunoe.workers.text.tokens import ACCENTS, count_tokens, count_words
from eunoe.workers.text.words import GIVEN_NAMES, NUMBER_WORDS, is_negation, weight

_TAG = re.compile(r"^[^\n:]{1,100}:(?=\s)", re.MULTILINE)
_LETTERS = rf"\w[\w{ACCENTS}]*"
_UNIT = re.compile(
    r"https?://\S+|[\w.+-]{1,64}@[\w-]+\.[\w.-]+"  # addresses stay whole; 64 is their bound in RFC 5321
    r"|[$€£¥]?\d+(?:[.,:/-]\d+)*%?(?!\w)"  # and so do numbers with their signs
    rf"|{_LETTERS}(?:['’-]{_LETTERS})*|[^\w\s]"  # an accent of its own belongs to the letter before it
)
_SENTENCE_END = frozenset(".!?…。！？")
_OPENS = frozenset("\"'“‘([*-–—")
_YIELD_EVERY = 64
_MAX_CACHED_CHARS = 40
"""Length up to which a word's traits are cached."""


@dataclass(frozen=True, slots=True)
class _Traits:
    """Properties of a word, a number or a mark that do not depend on its place."""

    lower: str
    tokens: int
    is_word: bool
    is_protected: bool
    """Whether it is never dropped, name or not."""
    may_name: bool
    """Whether it is written like a name."""
    is_known_name: bool
    """Whether, written like a name, it is one even at the beginning of a sentence."""
    rank: int
    """Units of lower rank are dropped first."""


class _TextUnit(NamedTuple):
    """A word, a number or a mark of a text."""

    text: str
    start: int
    end: int
    starts_sentence: bool
    traits: _Traits


def _traits(text: str) -> _Traits:
    return (_read_traits if len(text) <= _MAX_CACHED_CHARS else _read_traits.__wrapped__)(text)


@cached_by_word(350, 8_192)
def _read_traits(text: str) -> _Traits:
    lower, word_weight = text.lower(), weight(text)
    is_word = any(char.isalnum() or char == "_" for char in text)
    return _Traits(
        lower=lower,
        tokens=count_words(text),
        is_word=is_word,
        is_protected=_is_protected(text) if is_word else text in "?？" or not text.isascii(),
        may_name=is_word and _may_name(text, word_weight),
        is_known_name=lower in GIVEN_NAMES or word_weight == 3,
        rank=(1, 2, 4, 6)[word_weight] if is_word else 3 if text in _SENTENCE_END else 0,
    )


class OfflineCompressor:
    """Drops the least informative words in a fixed order: deterministic, no model.

    It keeps names, numbers, negations, addresses, question marks and a speaker's tag. It also keeps words in scripts
    other than Latin, because its lists are English.
    """

    @property
    def name(self) -> str:
        """The name and version of these rules."""
        return "words/1"

    async def compress(self, texts: Sequence[str], keep: float) -> list[str]:
        """Each text with at least the share ``keep`` (over 0, at most 1) of its tokens, in their order.

        Raises ``ValueError`` for another share.
        """
        _check_keep(keep)
        kept: list[str] = []
        for index, text in enumerate(texts):
            if index % _YIELD_EVERY == _YIELD_EVERY - 1:
                await asyncio.sleep(0)  # a long session must not block the event loop
            kept.append(drop_words(text, keep))
        return kept


def _check_keep(keep: float) -> None:
    if not 0 < keep <= 1:
        raise ValueError(f"the share to keep must be over 0 and at most 1, got {keep}")


def drop_words(text: str, keep: float) -> str:
    """``text`` without its least informative words: at least the share ``keep`` of its tokens stays.

    Words with accents that are characters of their own stay as they are, and whole; they count as composed.
    """
    total = min(count_words(text), count_words(composed(text)))
    spare = total - math.ceil(keep * total - 1e-9)
    units = list(_units(text))
    if spare <= 0 or not units:
        return text
    dropped: set[int] = set()
    for _, _, index in sorted(_droppable(text, units)):
        cost = units[index].traits.tokens
        if cost <= spare:
            dropped.add(index)
            spare -= cost
    kept = [unit for index, unit in enumerate(units) if index not in dropped]
    return _join(text, kept) if any(unit.traits.is_word for unit in kept) else text


def _units(text: str) -> Iterator[_TextUnit]:
    fresh, end = True, 0
    for found in _UNIT.finditer(text):
        fresh = fresh or "\n" in text[end : found.start()]
        piece, end = found.group(), found.end()
        yield _TextUnit(piece, found.start(), end, fresh, _traits(piece))
        if piece in _SENTENCE_END:
            fresh = True
        elif piece not in _OPENS:
            fresh = False


def _droppable(text: str, units: Sequence[_TextUnit]) -> Iterator[tuple[int, int, int]]:
    """(rank, length, index) of each unit that may be dropped; the smallest is dropped first."""
    tags = [found.span() for found in _TAG.finditer(text)]
    names = {unit.text for unit in units if unit.text[0].isupper() and not unit.starts_sentence}
    seen: set[str] = set()
    for index, unit in enumerate(units):
        traits = unit.traits
        repeated = traits.lower in seen
        seen.add(traits.lower)
        if not (traits.is_protected or _is_name(unit, names) or _in_spans(unit.start, tags)):
            yield traits.rank - (1 if traits.rank == 6 and repeated else 0), len(unit.text), index


def _in_spans(place: int, spans: Sequence[tuple[int, int]]) -> bool:
    """Whether a place lies in one of the spans, which are in order and do not overlap."""
    before = bisect_right(spans, place, key=itemgetter(0))
    return before > 0 and place < spans[before - 1][1]


def _is_protected(word: str) -> bool:
    """Whether the word is a number, an address, a negation, or of another script."""
    if any(char.isdigit() for char in word) or "://" in word or "@" in word or word[0] in "$€£¥":
        return True
    return word.lower() in NUMBER_WORDS or is_negation(word) or not _is_latin(word)


def _may_name(word: str, word_weight: int) -> bool:
    if not word[0].isupper() or re.split("['’]", word, maxsplit=1)[0] == "I":
        return False
    return not (word.isupper() and len(word) > 1 and word_weight < 3)  # SO, VERY: emphasis, not a name


def _is_name(unit: _TextUnit, names: set[str]) -> bool:
    traits = unit.traits
    return traits.may_name and (not unit.starts_sentence or unit.text in names or traits.is_known_name)


def _is_latin(word: str) -> bool:
    return all(ord(char) < 0x250 or char in "'’-" for char in word)


def _join(text: str, units: Sequence[_TextUnit]) -> str:
    """The units joined with their original white space; two words never run together."""
    parts: list[str] = []
    end = 0
    for unit in units:
        gap = text[end : unit.start]
        parts.append(_space(gap, unit, bool(parts)))
        parts.append(unit.text)
        end = unit.end
    return "".join(parts)


def _space(gap: str, unit: _TextUnit, follows: bool) -> str:
    if not follows:
        return ""
    if "\n" in gap:
        return "\n"
    skipped = bool(gap.strip())
    if (skipped or gap) and unit.traits.is_word:
        return " "
    return " " if gap[-1:].isspace() else ""


_LINGUA_FAMILIES = ("bert-base-multilingual-cased", "xlm-roberta-large")


LLMLINGUA_MODEL: Final = "microsoft/llmlingua-2-bert-base-multilingual-cased-meetingbank"
"""The LLMLingua-2 model where none is named."""


class LLMLinguaCompressor:
    """LLMLingua-2 (Pan et al. 2024) through the ``llmlingua`` package (an extra), in its own thread.

    ``model``: a name on the Hugging Face hub, or a folder whose path has the model family's name in it.
    """

    def __init__(self, model: str) -> None:
        self._model = model
        self._compressor = _load_llmlingua(model)
        self._batchers: dict[float, Batcher[str]] = {}

    @property
    def name(self) -> str:
        """The model's name."""
        return f"llmlingua2-{self._model}"

    async def compress(self, texts: Sequence[str], keep: float) -> list[str]:
        """Each text with about the share ``keep`` of the model's tokens; speaker tags and digits stay.

        Raises ``ValueError`` for a share outside (0, 1].
        """
        _check_keep(keep)
        if keep not in self._batchers:
            self._batchers[keep] = Batcher(
                lambda batch: [self._compress_now(text, keep) for text in batch], "llmlingua"
            )
        return await self._batchers[keep].submit(texts)

    async def aclose(self) -> None:
        """End the threads."""
        for batcher in self._batchers.values():
            await batcher.aclose()

    def _compress_now(self, text: str, keep: float) -> str:
        return "\n".join(self._compress_line(line, keep) for line in text.split("\n"))

    def _compress_line(self, line: str, keep: float) -> str:
        tag = _TAG.match(line)
        head, body = (line[: tag.end()] + " ", line[tag.end() :].strip()) if tag else ("", line)
        if count_tokens(body) < 2:
            return line
        # only marks can be forced: a forced word is replaced inside other words too ("no" in "now")
        result = self._compressor.compress_prompt([body], rate=keep, force_tokens=["?"], force_reserve_digit=True)
        kept = str(result["compressed_prompt"]).strip()
        return head + (kept or body)


_NO_LLMLINGUA = "the compressor llmlingua is not installed: pip install 'eunoe[llmlingua]', or choose offline"


def check_llmlingua(model: str) -> None:
    """Raise `Refused` where the package llmlingua is not installed, or cannot tell the family of the model."""
    if not any(family in model for family in _LINGUA_FAMILIES):
        raise Refused(
            f"llmlingua reads the model family from the model's name: {model} contains none of"
            f" {', '.join(_LINGUA_FAMILIES)}"
        )
    if importlib.util.find_spec("llmlingua") is None:
        raise Refused(_NO_LLMLINGUA)


def _load_llmlingua(model: str) -> Any:  # noqa: ANN401 - the package is an extra
    check_llmlingua(model)
    try:
        llmlingua = importlib.import_module("llmlingua")
    except ImportError:
        raise Refused(_NO_LLMLINGUA) from None
    try:
        return llmlingua.PromptCompressor(model_name=model, use_llmlingua2=True, device_map="cpu")
    except Exception as error:
        raise Refused(
            f"llmlingua could not load {model} ({type(error).__name__}): it downloads the model at first use;"
            " allow network access once, set a folder that holds the model, or choose the compressor offline"
        ) from error
