"""What makes a set of memories worth keeping: nothing twice, nothing too large. Pure."""

import logging
from collections.abc import Iterable, Sequence

from eunoe.schemas.memory import MemoryDraft
from eunoe.workers.text.terms import terms

log = logging.getLogger(__name__)

MAX_TEXT_CHARS = 400
"""Characters of one memory."""

_ALIKE = 0.6


def told_once(drafts: Iterable[MemoryDraft]) -> list[MemoryDraft]:
    """The drafts in order, without those that tell again what an earlier one told.

    That is: the same words; or most of the same words, of the same speaker from the same utterances.
    """
    kept: list[MemoryDraft] = []
    seen: list[tuple[str, tuple[object, ...], frozenset[str]]] = []
    for draft in drafts:
        fresh = (_plain(draft.text), _source(draft), frozenset(terms(draft.text, drop=[draft.speaker])))
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


def _plain(text: str) -> str:
    return " ".join("".join(char if char.isalnum() else " " for char in text.casefold()).split())


def _source(draft: MemoryDraft) -> tuple[object, ...]:
    return draft.speaker, tuple(line.utterance_id for line in draft.evidence)


def that_fit(drafts: Sequence[MemoryDraft], max_bytes: int) -> tuple[MemoryDraft, ...]:
    """The drafts whose cited utterances fit ``max_bytes`` together; the first ones go first, the rest is logged."""
    kept: list[MemoryDraft] = []
    left = max_bytes
    for draft in drafts:
        cost = len(draft.to_json())
        if cost <= left:
            kept.append(draft)
            left -= cost
    if len(kept) < len(drafts):
        log.warning("%d memories of a session do not fit its record with what they cite", len(drafts) - len(kept))
    return tuple(kept)


def clip(text: str, max_chars: int = MAX_TEXT_CHARS) -> str:
    """``text`` with folded white space, cut after a word where it is longer than ``max_chars``."""
    folded = " ".join(text.split())
    if len(folded) <= max_chars:
        return folded
    cut = folded[: max_chars - 1]
    return f"{cut[: cut.rfind(' ')] if ' ' in cut[max_chars // 2 :] else cut}…"
