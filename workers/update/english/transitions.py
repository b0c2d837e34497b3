"""States that end in a known way: learning and having passed, owning and having sold, searching and having found.

Each rule needs a cue in both sentences, and the same object wherever a person may have several.
"""

import re
from collections.abc import Iterable, Sequence

from eunoe.workers.text.terms import terms
from eunoe.workers.text.words import weight
from eunoe.workers.update.english.parsing import ParsedSentence, cached_by_sentence
from eunoe.workers.update.english.transition_table import CHANGES, SETTLED, Same, Transition

MIN_WEIGHT = 3
"""Weight of a word that names an object."""


def state_changed(old: ParsedSentence, new: ParsedSentence) -> str:
    """The reason why the new sentence says what holds instead of the old one; empty if none is known."""
    return _ended(_states_changed(new), old)


def matter_settled(old: ParsedSentence, new: ParsedSentence) -> str:
    """The reason why the matter of the old sentence is over with the new one; empty if none is known."""
    return _ended(_matters_settled(new), old)


_Ends = tuple[tuple[Transition, tuple[str, ...]], ...]
"""Transitions whose end a sentence tells, each with the objects of the matches."""


# a new sentence is compared with many old ones, and most tell the end of nothing
@cached_by_sentence
def _matters_settled(new: ParsedSentence) -> _Ends:
    return _told(SETTLED, new)


@cached_by_sentence
def _states_changed(new: ParsedSentence) -> _Ends:
    return _told(CHANGES, new)


def _told(transitions: Iterable[Transition], new: ParsedSentence) -> _Ends:
    return tuple((one, ends) for one in transitions if (ends := tuple(_objects(one.end, new))))


def _ended(told: _Ends, old: ParsedSentence) -> str:
    return next((one.because for one, ends in told if _applies(one, old, ends)), "")


def _applies(one: Transition, old: ParsedSentence, ends: Sequence[str]) -> bool:
    states = _objects(one.state, old)
    if one.object is None:
        return bool(states)
    return any(_agree(state, end, one.object) for state in states for end in ends)


def _objects(pattern: re.Pattern[str], text: ParsedSentence) -> list[str]:
    """The captured object of each affirmed match; empty where the pattern captures none."""
    return [
        next((group for group in found.groups() if group), "")
        for found in pattern.finditer(text.plain)
        if not _DENIED.search(text.plain[max(0, found.start() - 16) : found.start()])
    ]


_DENIED = re.compile(r"\b(?:not|never|no longer|n't|almost|nearly|without)(?: \w+)?\s*$|n't(?: \w+)?\s*$")


def _agree(state: str, end: str, how: Same) -> bool:
    if how is Same.HEAD:
        return bool(_head(state) & _head(end))
    if how is Same.ALL:
        return bool(_telling(end)) and _telling(end) <= _telling(state)
    return bool(_head(state) & _telling(end) or _telling(state) & _head(end))


_STOP = re.compile(
    r"\b(?:and|but|with|at|in|on|for|from|to|because|bc|cos|cuz|so|since|after|by|near|of|who|which|that|when|"
    r"every|each|daily|twice|once|now)\b"
)
_FIGURE_OR_UNIT = re.compile(r"\d.*|m?c?g|ml|milligrams?")


def _head(phrase: str) -> frozenset[str]:
    """The stem of the last telling word before a preposition or conjunction."""
    words = _telling_words(_STOP.split(f"{phrase} ")[0])
    return frozenset(terms(words[-1])) if words else frozenset()


def _telling(phrase: str) -> frozenset[str]:
    return frozenset(stem for word in _telling_words(phrase) for stem in terms(word))


def _telling_words(phrase: str) -> list[str]:
    words = (word for word in phrase.split() if not _FIGURE_OR_UNIT.fullmatch(word))
    return [word for word in words if weight(word.strip("'-")) >= MIN_WEIGHT and terms(word)]


_STOPPED = re.compile(r"\b(?:stopped|quit|quits|gave up|given up) (\w+ing)\b([^.,;!?]*)")
_FIRST = re.compile(r"\bfirst\b|\bfinally\b|\bfor the first time\b")
_NEVER = re.compile(r"\bnever\b")


def last_word(text: ParsedSentence) -> str:
    """The stem of the last telling word; empty if there is none."""
    return next((word.stem for word in reversed(text.words) if word.stem), "")


def _stems_of(word: str) -> frozenset[str]:
    return frozenset(terms(word))


def habit_ended(old: ParsedSentence, new: ParsedSentence) -> str:
    """The reason, where somebody has stopped doing what the old sentence says they do."""
    stopped = _stops(new)
    if not stopped or not old.words or old.negated:
        return ""
    verb = next((word.stem for word in old.words if word.stem), "")
    for found in stopped:
        of = frozenset(terms(found[2])) & new.stems
        if verb and _stems_of(found[1]) == {verb} and (of & old.stems or not of or new.dated or old.stems == {verb}):
            return f"no {found[1]} any more"
    return ""


@cached_by_sentence
def _stops(text: ParsedSentence) -> Sequence[re.Match[str]]:
    return list(_STOPPED.finditer(text.plain))


def first_time(old: ParsedSentence, new: ParsedSentence) -> str:
    """The reason, where something never done has been done."""
    noun = last_word(old) if _is_first(new) else ""
    if noun and noun in new.stems - new.negated and _NEVER.search(old.plain):
        return f"the first {noun}"
    return ""


@cached_by_sentence
def _is_first(text: ParsedSentence) -> bool:
    return _FIRST.search(text.plain) is not None
