"""Finds troubles and pending matters of an old sentence that a new one says are over."""

from eunoe.workers.text.terms import terms
from eunoe.workers.text.words import weight
from eunoe.workers.update.english.lexicon import COMPLETIONS, PENDING, STANCE, TROUBLES, WEAK_COMPLETIONS
from eunoe.workers.update.english.parsing import ParsedSentence

_NEAR = 5
"""Words up to which a cue is near another word."""
_MIN_WEIGHT = 3
_OPEN_MATTERS = TROUBLES | PENDING
_STATES = frozenset(["is", "are", "was", "were", "feels", "feel", "got", "gets", "all", "been", "has", "it's"])


def completed(old: ParsedSentence, new: ParsedSentence) -> str:
    """The reason why what the old sentence tells is over, in words; empty if it is not: both have a cue at one word.

    Whoever has recovered is in no trouble any more; what they have finished may be another matter.
    """
    if not (_names(old, new.other) and _names(new, old.other)):
        return ""
    if old.other == new.other and not new.may_be_of(old):
        return ""
    people = frozenset(terms(f"{old.other} {new.other}"))
    for stem in sorted(telling(old) & telling(new)):
        if _cues(old, stem, TROUBLES if stem in people else _OPEN_MATTERS) and _ends(new, stem):
            return f"what is told of {stem!r} is over"
    return ""


def telling(text: ParsedSentence) -> frozenset[str]:
    """The content stems of rare words, without those of a stance."""
    return frozenset(
        word.stem
        for word in text.words
        if word.stem and weight(word.text) >= _MIN_WEIGHT and not STANCE.match(word.text)
    )


def _names(text: ParsedSentence, other: str) -> bool:
    """Whether the text mentions ``other``, of several words the last, or ``other`` is empty."""
    last = other.rpartition(" ")[2]
    return not other or any(word.text.removesuffix("'s") == last for word in text.words)


def _cues(text: ParsedSentence, stem: str, cues: frozenset[str]) -> list[int]:
    """The places of the cues that are near the word, and not negated."""
    places = [place for place, word in enumerate(text.words) if word.stem == stem]
    return [
        place
        for place, word in enumerate(text.words)
        if word.text in cues and not word.negated and any(abs(place - spot) <= _NEAR for spot in places)
    ]


def _ends(text: ParsedSentence, stem: str) -> bool:
    """Whether another word that is a cue of completion is near the word.

    A weak cue counts only after a form of "to be" or a similar verb.
    """
    return any(
        text.words[place].stem != stem and (text.words[place].text not in WEAK_COMPLETIONS or _said_of(text, place))
        for place in _cues(text, stem, COMPLETIONS)
    )


def _said_of(text: ParsedSentence, place: int) -> bool:
    """Whether a form of "to be" or a similar verb stands before the word at ``place``."""
    return any(word.text in _STATES for word in text.words[max(0, place - 2) : place])
