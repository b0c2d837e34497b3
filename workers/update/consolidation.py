"""Consolidation: near-identical memories are offered to the writer as fusions, now and then at the end of a session.

Two memories that say the same came past each other where their sessions were judged against others, or where a model
saw no relation. A fusion hides both behind one that says all that they say and rests on the evidence of both; nothing
is deleted. It is refused where anything differs that could be another fact: a name, a number, a negation, a value, a
date, a kind, an end.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from operator import itemgetter

from eunoe.schemas.events import Provenance
from eunoe.schemas.memory import Memory, MemoryOrigin
from eunoe.workers.text.language import has_english
from eunoe.workers.text.same_words import same_words
from eunoe.workers.text.terms import terms
from eunoe.workers.text.words import NUMBER_WORDS
from eunoe.workers.update.english.contradiction import SUSPICION_THRESHOLD, find_contradiction
from eunoe.workers.update.english.lexicon import NEGATORS
from eunoe.workers.update.english.parsing import ParsedSentence, parse_sentence
from eunoe.workers.update.english.slots import changed_slot
from eunoe.workers.update.lifecycle import Cause, Lifecycle
from eunoe.workers.update.memories import FusionPlace, with_evidence

CONSOLIDATED = "it says the same as another memory"
MADE_BY = Provenance(code="consolidate/2", model="rules/11")
_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")


@dataclass(frozen=True, slots=True)
class Fusion:
    """Two current memories that say the same, the older one first, and the one of them whose text says all of it."""

    old: Memory
    new: Memory
    fuller: Memory


def is_due(before: int, after: int, every: int) -> bool:
    """Whether the number of a conversation's memories has passed a multiple of ``every``; never for 0."""
    return every > 0 and before // every < after // every


def offered(pairs: Iterable[tuple[Memory, Memory]], restating: float) -> list[Fusion]:
    """The fusions among these pairs, in the order of their memories; each memory is in one at most.

    ``restating``: share of common words in both texts together from which they count as near-identical.
    """
    taken: set[str] = set()
    found: list[Fusion] = []
    in_order = (sorted(pair, key=_order) for pair in pairs)
    distinct = {(_order(old), _order(new)): (old, new) for old, new in in_order}  # a memory's own hash is of all of it
    for _, (old, new) in sorted(distinct.items(), key=itemgetter(0)):
        if {old.memory_id, new.memory_id} & taken:
            continue
        if (fuller := says_all(old, new, restating)) is not None:
            found.append(Fusion(old, new, fuller))
            taken |= {old.memory_id, new.memory_id}
    return found


def says_all(old: Memory, new: Memory, restating: float) -> Memory | None:
    """The one of two memories whose text says all that both say; `None` where they are not near-identical."""
    if old.memory_id == new.memory_id or not _alike(old, new):
        return None
    first, second = _told(old.text), _told(new.text)
    shared, all_ = set(first) & set(second), set(first) | set(second)
    if not all_ or len(shared) < restating * len(all_):
        return None
    short, fuller = (second, old) if len(first) > len(second) else (first, new)
    if not _in_order(short, _told(fuller.text)) or _telling_difference(old.text, new.text):
        return None
    # the rules know English denials only: elsewhere any further word may deny the rest
    if not (has_english(old.text) and has_english(new.text)) and same_words(old.text) != same_words(new.text):
        return None
    return None if _may_differ(old, new) or _may_differ(new, old) else fuller


def apply_fusions(life: Lifecycle, fusions: Sequence[Fusion], first: FusionPlace, known_from: datetime) -> None:
    """Add one memory for each fusion and supersede both of its parts.

    ``first``: the place of the first one. ``known_from``: log time at which the session was closed.
    """
    for others, fusion in enumerate(fusions):
        place = first.after(others)
        successor = with_evidence(fusion.new, [fusion.old]).model_copy(
            update={
                "memory_id": place.memory_id,
                "session": place.session,
                "index": place.index,
                "text": fusion.fuller.text,
                "origin": MemoryOrigin.FUSION,
                "known_from": known_from,
                "made_by": MADE_BY,
                "reinforced": (),
                "suspected": (),
            }
        )
        life.add(successor, CONSOLIDATED)
        for part in (fusion.old, fusion.new):
            life.supersede(part.memory_id, Cause(successor.at, CONSOLIDATED, successor.memory_id))


def _order(memory: Memory) -> tuple[int, int, str]:
    return memory.order


def _alike(old: Memory, new: Memory) -> bool:
    """Whether both are of one speaker, of one kind and with one end, and nothing is suspected of either."""
    same = (old.speaker, old.kind, old.expires_at) == (new.speaker, new.kind, new.expires_at)
    return same and not (old.suspected or new.suspected)


def _told(text: str) -> list[str]:
    return terms(text)


def _in_order(short: Sequence[str], long: Sequence[str]) -> bool:
    """Whether all of ``short`` comes in ``long``, in the same order: else somebody else may have done it."""
    rest = iter(long)
    return all(term in rest for term in short)


def _telling_difference(one: str, other: str) -> bool:
    """Whether a word stands in one text alone that names, counts or denies."""
    words = {text: _WORD.findall(text) for text in (one, other)}
    alone = {word.casefold() for word in words[one]} ^ {word.casefold() for word in words[other]}
    names = {word.casefold() for text in words.values() for word in text[1:] if word[:1].isupper()}
    return any(
        word in names
        or word in NUMBER_WORDS
        or word in NEGATORS
        or word.endswith(("n't", "n’t"))
        or any(char.isdigit() for char in word)
        for word in alone
    )


def _may_differ(old: Memory, new: Memory) -> bool:
    """Whether the rules for sentences see another fact in the new one: a value, a denial, a plan, another person."""
    before, after = parse_sentence(old.text, old.speaker), parse_sentence(new.text, new.speaker)
    if _aspects(before) != _aspects(after) or changed_slot(before, after):
        return True
    return find_contradiction(old.text, new.text, new.speaker)[0] >= SUSPICION_THRESHOLD


def _aspects(text: ParsedSentence) -> Mapping[str, object]:
    return {
        "numbers": text.numbers,
        "negated": text.negated,
        "other": text.other,
        "flags": (text.planned, text.wished, text.past, text.dated, text.looks_back, text.stance),
    }
