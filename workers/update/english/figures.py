"""Figures that change: the age of a person, what somebody weighs or pays, how many of a thing they own."""

import re
from collections.abc import Iterator, Mapping, Sequence

from eunoe.workers.text.terms import terms
from eunoe.workers.update.english.parsing import ParsedSentence, cached_by_sentence

_YEARS = re.compile(r"(?<!that is )(?<!which is )\b(\w+)[ -]years?[ -]olds?\b")
_ATTRIBUTE = re.compile(r"\ban? \w+[ -]years?[ -]olds?\b")
"""An age of what is named behind it: "a 60 years old house", "a 9-year-old daughter"."""
_IS = re.compile(r"(?:\b(?:is|am)|'m) (?:now |just |only |already )?(\w+(?:-\w+)?)(?= ?(?:$|[.,;!]| (?:now|today)\b))")
_TURNED = re.compile(r"\bturn(?:ed|s|ing) (\w+)\b(?! (?:miles|kilomet\w+|pages|hours|minutes))")
_LOW = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen"
)
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety"
_FIGURES = {word: number for number, word in enumerate(_LOW.split())} | {
    word: 10 * number for number, word in enumerate(_TENS.split(), 2)
}
_ORDINALS = {word: number for number, word in enumerate(["first", "second", "third", "fourth", "fifth", "sixth"], 1)}
_MEASURED = re.compile(r"\b(weigh|earn|pay|cost|measure)s? (?:about |around |over |only |just )?(\w+(?:-\w+)?)")
_OWNED = re.compile(r"\b(?:has|have|owns?|keeps?) (\w+) (\w+)")
_GAINED = re.compile(r"\b(?:got|adopted|bought|had|gave birth to) (?:a|an|her|his|their|my) (\w{1,10}) (\w{1,30})")


def older(old: ParsedSentence, new: ParsedSentence) -> str:
    """The reason, where both tell an age of a person and the new one is higher; whose is the caller's matter."""
    if old.subject.is_thing or new.subject.is_thing:
        return ""
    after = _turned_ages(new) or _stated_ages(new)
    if len(after) != 1 or (_ATTRIBUTE.search(new.plain) and not _ATTRIBUTE.search(old.plain)):
        return ""
    before = _stated_ages(old)
    return f"{after[0]} years old now" if len(before) == 1 and before < after else ""


@cached_by_sentence
def _stated_ages(text: ParsedSentence) -> tuple[int, ...]:
    return tuple(_figures(_YEARS, text)) or tuple(_figures(_IS, text))


@cached_by_sentence
def _turned_ages(text: ParsedSentence) -> tuple[int, ...]:
    return tuple(_figures(_TURNED, text))


def _figures(pattern: re.Pattern[str], text: ParsedSentence) -> Iterator[int]:
    for found in pattern.finditer(text.plain):
        number = _number(found[1])
        if number is not None:
            yield number


def _number(word: str) -> int | None:
    if word.isdecimal() and len(word) <= 3:
        return int(word)
    tens, _, unit = word.partition("-")
    if tens in _FIGURES and (not unit or unit in _FIGURES):
        return _FIGURES[tens] + _FIGURES.get(unit, 0)
    return None


def changed_measure(old: ParsedSentence, new: ParsedSentence) -> str:
    """The reason, where both give one measure of a person, or a number of owned things, and the later differs."""
    if old.subject.is_thing or new.subject.is_thing:
        return _more(old, new)
    after = _measures(new)
    for found in _MEASURED.finditer(old.plain) if after else ():
        before = _number(found[2])
        if before is not None and after.get(found[1]) not in {None, before}:
            return f"{found[1]}s {after[found[1]]} now"
    return _more(old, new)


@cached_by_sentence
def _measures(text: ParsedSentence) -> Mapping[str, int | None]:
    return {found[1]: _number(found[2]) for found in _MEASURED.finditer(text.plain)}


def _more(old: ParsedSentence, new: ParsedSentence) -> str:
    gained = _gained(new)
    for found in _OWNED.finditer(old.plain) if gained else ():
        count = _number(found[1])
        for word, thing in gained:
            total = _ORDINALS.get(word)
            if count and total and total > count and thing and thing == frozenset(terms(found[2])):
                return f"{total} of them now"
    return ""


@cached_by_sentence
def _gained(text: ParsedSentence) -> Sequence[tuple[str, frozenset[str]]]:
    """The number of more things that a sentence tells of, as a word, and their stems."""
    return [(found[1], frozenset(terms(found[2]))) for found in _GAINED.finditer(text.plain)]
