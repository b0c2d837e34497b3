"""Tells which rows may answer what a question asks of somebody: who has only the person is no answer. English only.

"Rosie has her jabs on Wednesday" has Rosie, but neither how old she is nor whether she has a brother.
"""

import re
from collections.abc import Callable, Iterator, Sequence, Set

import numpy as np
from numpy.typing import NDArray

from eunoe.workers.respond.context import Row
from eunoe.workers.respond.offline.akin import akin, kindred
from eunoe.workers.respond.offline.beside import adjoin, answered
from eunoe.workers.respond.offline.others import KIN, asks_what_is
from eunoe.workers.respond.offline.quotable import Quotable, flags
from eunoe.workers.respond.offline.whose import (
    asks_age,
    asks_work,
    gives_a_name,
    is_of_the_living,
    named_thing,
    states_asked,
    tells_name,
)
from eunoe.workers.respond.times import MONTHS
from eunoe.workers.text.capitals import CAPITAL
from eunoe.workers.text.day_words import WEEKDAYS
from eunoe.workers.text.lasting import tells_occupation
from eunoe.workers.text.names import without_names
from eunoe.workers.text.terms import terms
from eunoe.workers.text.verbs import is_base, is_past, third_person
from eunoe.workers.text.words import NUMBER_WORDS

NEAR = 0.08
"""Minimum cosine, names left out, of a row that answers in other words than those of the question."""
NEAR_WHETHER = 0.15
"""The same where it is asked whether something is so: a line on something else reads as a yes or a no."""
_EMPTY = frozenset(
    terms("still now today currently ever actually again many much long often kind sort type name called happen wrong")
)
"""Terms of questions that no answer need repeat."""
_GENERAL = frozenset(terms("kind sort type name called favourite favorite best worst first last next main"))
"""Terms that tell nothing without the word beside them: a favourite food is no answer on a favourite colour."""
_AGE = re.compile(
    r"\b(?:aged?|born|birthday|turn(?:s|ed|ing)?)\b|"
    rf"\b(?:\d{{1,3}}|{'|'.join(sorted(NUMBER_WORDS))})[ -]?(?:yo|y/o|yrs?|years?|months?|weeks?)\b|"
    r"\b(?:is|was|who['’]?s|(?:s?he|I)['’]?[sm]|im|be)(?: (?:now|only|just|nearly|almost|\w{2,20},?))? \d{1,3}\b|"
    r"\(\d{1,3}\)",
    re.IGNORECASE,
)
_FIGURE_ASKED = re.compile(
    r"\b(?:what|which)(?:['’]?s| is| was| are) (?:my|our|his|her|their|the|\w{1,30}['’]s) (?:[\w-]{1,30} ){0,3}?"
    r"(?:numbers?|size|pin)\b",
    re.IGNORECASE,
)
_DIGIT = re.compile(r"\d")
_NAME = re.compile(rf"(?<=\w[ ,;:.!?)])[ (]?(?!I\b){CAPITAL}[^\W\d_]+|\A\W{{0,3}}{CAPITAL}\w{{1,30}} (?:is|was)\b")
"""A name within a text, or one that something is said of at its beginning."""
_CAPITALIZED = re.compile(rf"(?<=\w )(?!I\b)(?P<name>{CAPITAL}[^\W\d_]{{2,30}})")
_PRONOUN = re.compile(r"\b(?:(?:s?he|they)(?:s|['’]\w{1,2})?|him|her|them|his|hers|their)\b", re.IGNORECASE)
_WORD = re.compile(r"[^\W\d_]+")
_CALENDAR = frozenset((*MONTHS, *WEEKDAYS))


def may_answer(quotable: Quotable) -> NDArray[np.bool_]:
    """For each row whether it may answer the question: it tells the name, the age or the number that is asked for.

    So may whatever answers another speaker. Of one who takes no part it tells what is asked of them, in words of the
    question or in others that are near. None may where it is asked whether something is so of a name that no row has.
    """
    if _asks_of_unknown(quotable):
        return quotable.tells_state > 0
    found, replies = _tells_of_third(quotable), answered(quotable.rows, np.ones(len(quotable.rows))) > 0
    found &= replies | ~_has_general_words_alone(quotable)
    for holds in _demands(quotable):
        found &= replies | np.asarray(list(map(holds, quotable.texts)), dtype=np.bool_)
    return found


def _has_general_words_alone(quotable: Quotable) -> NDArray[np.bool_]:
    """For each row whether it has words of the question, but none that tells what is asked: "type" of "blood type"."""
    asked = frozenset(terms(quotable.question, drop=quotable.speakers))
    wanted = frozenset[str]().union(*map(akin, asked - _GENERAL - _EMPTY))
    if not wanted or named_thing(quotable.question) is not None:  # "Her name is Rex" may be that of a dog
        return np.zeros(len(quotable.rows), dtype=np.bool_)
    general = frozenset[str]().union(*map(akin, asked & _GENERAL))
    alone = [wanted.isdisjoint(words) and not general.isdisjoint(words) for words in quotable.words]
    unfit: NDArray[np.bool_] = np.asarray(alone, dtype=np.bool_) & (quotable.tells_state == 0)
    return unfit


def _demands(quotable: Quotable) -> Iterator[Callable[[str], bool]]:
    """Yield the tests that an answer passes, by the kind of what is asked for."""
    question = quotable.question
    thing = named_thing(question)
    if thing is not None and is_of_the_living(thing):
        stems = kindred(thing)
        yield lambda text: _may_give_name(without_names(text, quotable.speakers), stems)
    if asks_age(question) and not quotable.tells_state.any():
        yield lambda text: _AGE.search(text) is not None
    if _FIGURE_ASKED.search(question):
        yield lambda text: _DIGIT.search(text) is not None


def _may_give_name(text: str, stems: Set[str]) -> bool:
    """Whether a text does not only speak of somebody, but may say how they are called."""
    words = [word.group() for word in _WORD.finditer(text)]
    places = [place for place, word in enumerate(words) if not stems.isdisjoint(terms(word))]
    return (
        tells_name(text, stems)
        or gives_a_name(text)
        or _NAME.search(text) is not None
        or any(map(_may_be_name, (words[place + 1] for place in places if place + 1 < len(words))))
    )


def _may_be_name(word: str) -> bool:
    """Whether a word behind "my sister" may be her name: it is no verb, and tells something."""
    if not terms(word) or len(word) == 1 or is_past(word) or is_base(word) or word.endswith(("ly", "ing")):
        return False
    return all(third_person(plain) != word for plain in (word[:-1], word[:-2]))


def _tells_of_third(quotable: Quotable) -> NDArray[np.bool_]:
    """For each row whether it tells what is asked of one who takes no part; true where that is nothing, or nobody."""
    question, hints = quotable.question, quotable.hints
    asked = frozenset(terms(question, drop=quotable.speakers)) - quotable.third - _EMPTY
    if (
        not quotable.third
        or not asked
        or hints.happened
        or asks_age(question)
        or (asks_what_is(question) and not hints.whether)
    ):
        return np.ones(len(quotable.rows), dtype=np.bool_)
    wanted = frozenset[str]().union(*map(akin, asked))
    told = flags(not wanted.isdisjoint(terms(text)) for text in quotable.texts)
    if asks_work(question):
        near = np.maximum(told, flags(map(tells_occupation, quotable.texts))) > 0
    else:
        near = (told > 0) | (quotable.cosines >= (NEAR_WHETHER if hints.whether else NEAR))
    mentions = _mentions(quotable)
    if KIN.isdisjoint(quotable.third):
        near &= mentions if hints.whether else mentions | _follow(quotable.rows, mentions)
    fits: NDArray[np.bool_] = near | (answered(quotable.rows, told * mentions) > 0)
    return fits


def _mentions(quotable: Quotable) -> NDArray[np.bool_]:
    """For each row whether it has the name of who is asked about, or a "she"."""
    return np.asarray(
        [not quotable.third.isdisjoint(terms(text)) or _PRONOUN.search(text) is not None for text in quotable.texts],
        dtype=np.bool_,
    )


def _follow(rows: Sequence[Row], places: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """For each row whether it was said on the day of the row before, and that is one of the ``places``."""
    after = [bool(places[i - 1]) and adjoin(rows[i - 1], rows[i]) for i in range(1, len(rows))]
    return np.asarray([False, *after][: len(rows)], dtype=np.bool_)


def _asks_of_unknown(quotable: Quotable) -> bool:
    """Whether it is asked if something is so of a name that no row has: "Did I run the Berlin marathon?"."""
    if not quotable.hints.whether or states_asked(quotable.question):
        return False
    taking_part = {part.casefold() for name in quotable.speakers for part in name.split()}
    names = {found["name"].casefold() for found in _CAPITALIZED.finditer(quotable.question)} - taking_part - _CALENDAR
    known = frozenset(word.casefold() for text in quotable.texts for word in _WORD.findall(text)) if names else names
    return not names <= known
