"""Bounds for a set of memory drafts: no repetitions, a limited size."""

import logging
from collections.abc import Iterable, Sequence

from eunoe.schemas.memory import MemoryDraft
from eunoe.workers.text.same_words import same_words
from eunoe.workers.text.terms import terms
from eunoe.workers.text.tokens import clip_chars

log = logging.getLogger(__name__)

MAX_TEXT_CHARS = 400
"""Characters of one memory."""

_ALIKE = 0.6
_FILLERS = frozenset(["a", "an", "the", "really", "just", "very", "also", "too", "now", "and", "so", "well"])


def without_repeats(drafts: Iterable[MemoryDraft]) -> list[MemoryDraft]:
    """The drafts in order, without repetitions.

    A repetition has the same words as an earlier draft, or most of its terms with the same speaker and evidence.
    """
    kept: list[MemoryDraft] = []
    seen: list[tuple[str, tuple[object, ...], frozenset[str]]] = []
    for draft in drafts:
        fresh = (same_words(draft.text), _source(draft), frozenset(terms(draft.text, drop=[draft.speaker])))
        if not any(_same(fresh, old) for old in seen):
            kept.append(draft)
            seen.append(fresh)
    return kept


def _same(
    one: tuple[str, tuple[object, ...], frozenset[str]], other: tuple[str, tuple[object, ...], frozenset[str]]
) -> bool:
    if one[0] == other[0]:
        return True
    return one[1] == other[1] and len(one[2] & other[2]) >= _ALIKE * len(one[2] | other[2])


def plain_words(text: str) -> list[str]:
    """The words of `same_words` in order, without fillers; negations stay."""
    return [word for word in same_words(text).split() if word not in _FILLERS]


def _source(draft: MemoryDraft) -> tuple[object, ...]:
    return draft.speaker, tuple(line.utterance_id for line in draft.evidence)


def limit_bytes(drafts: Sequence[MemoryDraft], max_bytes: int) -> tuple[MemoryDraft, ...]:
    """The drafts whose JSON fits ``max_bytes`` together, earlier ones first; logs how many are left out."""
    kept: list[MemoryDraft] = []
    left = max_bytes
    for draft in drafts:
        cost = len(draft.to_json())
        if cost <= left:
            kept.append(draft)
            left -= cost
    if len(kept) < len(drafts):
        log.warning("memories left out: %d do not fit the session's record", len(drafts) - len(kept))
    return tuple(kept)


def clip(text: str, max_chars: int = MAX_TEXT_CHARS) -> str:
    """``text`` with single spaces, cut after a word and ended by "…" where it is longer than ``max_chars``."""
    folded = " ".join(text.split())
    if len(folded) <= max_chars:
        return folded
    cut = clip_chars(folded, max_chars - 1)
    return f"{cut[: cut.rfind(' ')] if ' ' in cut[max_chars // 2 :] else cut}…"
