"""Scores how much two English sentences look like a contradiction.

The scores set flags; they never end a memory.
"""

import re
from collections.abc import Iterator, Mapping
from itertools import islice

from eunoe.workers.text.brackets import without_brackets
from eunoe.workers.text.caches import cached_by_length
from eunoe.workers.text.terms import terms
from eunoe.workers.update.english.lexicon import ANTONYMS, WORKS
from eunoe.workers.update.english.parsing import (
    ParsedSentence,
    cached_by_sentence,
    parse_sentence,
    unquoted,
    without_days,
)
from eunoe.workers.update.english.slots import favorites, marital, slots

_JOB = re.compile(
    r"\b(?:i'm|i am|im|is|as|am|be|been|was|became) (?:currently )?(?:an?|the)? ?((?:[a-z]+ ){0,2}[a-z]+)"
)
_AGE = re.compile(
    r"\b(?:i'm|i am|im|is|turned|am) (\d{1,2})\b"
    r"(?! (?:hours?|minutes?|miles?|feet|k[gm]|kilos?|pounds?|euros?|dollars?)\b| ?[%€$£°:]|\.\d)"
)
_COUNTED = frozenset(
    stem
    for word in ("dog", "cat", "pet", "kid", "child", "son", "daughter", "brother", "sister", "sibling", "year")
    for stem in terms(word)
)
_OPPOSED = frozenset(word for pair in ANTONYMS for word in pair)
_FIGURES = {word: place for place, word in enumerate(("zero", "one", "two", "three", "four", "five", "six"))}


SUSPICION_THRESHOLD = 0.4
"""Pairs with at least this score are flagged."""

_MAX_PARTS = 24
"""Clauses of one text that are read: every one is compared with every one of the other text."""
_PART = re.compile(r"(?:[^.!?;]|(?<=\d)\.(?=\d))+?(?=[!?;]|\.(?!(?<=\d\.)\d)|,? but |$)")
"""A clause; the point of a figure ends none."""


def find_contradiction(old: str, new: str, speaker: str) -> tuple[float, str]:
    """The highest (score, cue) over all pairs of clauses of two texts of ``speaker``."""
    if _tells_plainly(new, speaker) and not parse_sentence(old, speaker).may_deny:
        return 0.0, ""
    befores, afters = _parts(old, speaker), _parts(new, speaker)
    pairs = ((before, after) for before in befores for after in afters)
    return max(
        (contradiction_score(before, after) for before, after in pairs), key=lambda cue: cue[0], default=(0.0, "")
    )


def _tells_plainly(text: str, speaker: str) -> bool:
    """Whether a text contradicts at most what denies something: it denies nothing, and gives no value or opposite."""
    return not any(part.negated or _opposable(part) or _has_values(part) for part in _parts(text, speaker))


# a sentence is compared with many others
@cached_by_length("sentences", lambda text, speaker: len(text) + len(speaker), 8, (200, 2_048), (2_000, 32))
def _parts(text: str, speaker: str) -> tuple[ParsedSentence, ...]:
    said = without_brackets(without_days(unquoted(text)))
    parts = (part for found in _PART.finditer(said) if (part := found.group().strip()))
    return tuple(parse_sentence(part, speaker) for part in islice(parts, _MAX_PARTS))


def contradiction_score(old: ParsedSentence, new: ParsedSentence) -> tuple[float, str]:
    """(score, cue) of two clauses: the score is 0 without any sign, at most about 2."""
    shared = old.stems & new.stems
    if not shared:
        return _values(old, new)
    return max(_negation(old, new, shared), _opposites(old, new, shared), _values(old, new), key=lambda cue: cue[0])


def _negation(old: ParsedSentence, new: ParsedSentence, shared: frozenset[str]) -> tuple[float, str]:
    crossed = (old.negated ^ new.negated) & shared
    if not crossed:
        return 0.0, ""
    share = len(crossed) / min(len(old.stems), len(new.stems))
    return 2 * min(share, 1.0), f"one denies what the other says: {', '.join(sorted(crossed)[:3])}"


def _opposites(old: ParsedSentence, new: ParsedSentence, shared: frozenset[str]) -> tuple[float, str]:
    theirs = _opposable(new) - shared
    ours = _opposable(old) - shared if theirs else theirs
    pairs = [(a, b) for a in ours for b in theirs if (a, b) in ANTONYMS]
    if not pairs:
        return 0.0, ""
    one, other = min(pairs)
    return 2 * len(shared) / min(len(old.stems), len(new.stems)), f"{one} and {other}"


@cached_by_sentence
def _opposable(text: ParsedSentence) -> frozenset[str]:
    return text.stems & _OPPOSED


def _values(old: ParsedSentence, new: ParsedSentence) -> tuple[float, str]:
    found = next(_different(old, new), "") if _has_values(new) and _has_values(old) else ""
    return (1.0, f"two values of one thing: {found}") if found else (0.0, "")


def _different(old: ParsedSentence, new: ParsedSentence) -> Iterator[str]:
    then, now = favorites(old), favorites(new)
    yield from (f"favourite {kind}" for kind in sorted(then.keys() & now.keys()) if not then[kind] & now[kind])
    for before in slots(old):
        yield from (a.name for a in slots(new) if a.name == before.name and not before.value & a.value)
    if marital(old) and marital(new) and marital(old) != marital(new):
        yield "marital state"
    for name, reader in (("job", _jobs), ("age", _ages)):
        before_, after_ = reader(old), reader(new)
        if before_ and after_ and not before_ & after_:
            yield name
    counts = _counts(old)
    yield from (kind for kind, number in _counts(new).items() if counts.get(kind, number) != number)


@cached_by_sentence
def _has_values(text: ParsedSentence) -> bool:
    """Whether the text gives any of what `_different` compares: most clauses give none."""
    return any(read(text) for read in (favorites, slots, marital, _jobs, _ages, _counts))


@cached_by_sentence
def _jobs(text: ParsedSentence) -> frozenset[str]:
    return frozenset(stem for found in _JOB.finditer(text.plain) for stem in terms(found[1])) & WORKS


@cached_by_sentence
def _ages(text: ParsedSentence) -> frozenset[str]:
    if text.subject.is_thing:
        return frozenset()
    return frozenset(found[1] for found in _AGE.finditer(text.plain))


@cached_by_sentence
def _counts(text: ParsedSentence) -> Mapping[str, int]:
    """Relative or pet → the number that the text states."""
    words = () if text.subject.is_thing else text.words
    found: dict[str, int] = {}
    for place, word in enumerate(words):
        number = _FIGURES.get(word.text, int(word.text) if word.text.isdecimal() and len(word.text) < 3 else None)
        following = [near.stem for near in words[place + 1 : place + 4] if near.stem in _COUNTED]
        if number is not None and following:
            found.setdefault(following[0], number)
    return found
