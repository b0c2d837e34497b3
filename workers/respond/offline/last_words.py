"""Finds what the speaker of a line said later of what it tells: corrections, ends, the last figure or mention."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence, Set

from eunoe.workers.respond.context import Row, fold, same_day
from eunoe.workers.respond.offline.akin import forms_of
from eunoe.workers.respond.offline.figures import figures_like, tells_alike, tells_money
from eunoe.workers.respond.offline.others import tells_of_others
from eunoe.workers.respond.offline.ranked_lines import RankedLines
from eunoe.workers.respond.offline.times_told import tells_time
from eunoe.workers.respond.times import MONTHS
from eunoe.workers.text.capitals import CAPITAL
from eunoe.workers.text.corrections import announces_correction, corrects
from eunoe.workers.text.day_words import WEEKDAYS
from eunoe.workers.text.endings import ended_things, is_end, resumes, tells_birth
from eunoe.workers.text.salience import is_change, is_question
from eunoe.workers.text.sentences import sentence_spans
from eunoe.workers.text.terms import idf, terms
from eunoe.workers.text.vital import is_vital

_NAME = re.compile(rf"(?<=[^\W\d_A-Z] |[,;] )(?!I\b){CAPITAL}[^\W\d_]+")
"""A word with a capital within a sentence."""
MOST = 0.4
"""Share of a topic, by the rarity of its words, that a sentence needs to be about it."""
_ASKING = frozenset(terms("since until time date day month year"))
"""Terms that ask for a time: what has one is not for that about the same."""
_PREGNANT = frozenset(terms("pregnant pregnancy"))
_TOLD_NAME = re.compile(r"\b(?:called|named|name is|name['’]s) (?P<name>[^\W\d_]{2,30})", re.IGNORECASE)
"""A name that is told as one, with or without a capital."""
_LEANS = re.compile(
    r"\b(?:because of|due to) (?:it|that|this|him|her|them)(?=\W*\Z|[.,;!])|\bthat['’]s why\b", re.IGNORECASE
)
_MISHAP = re.compile(
    r"\b(?:broken?|fell|fallen|fractured?|hurt|crash(?:ed)?|accident|bit|bitten|stung|burn(?:t|ed)|lost|stolen|robbed|"
    r"ill|sick|poorly|hospital|injured|flu|fever|infection|sprained|twisted|knocked|attacked|ache|aches|aching|swollen|"
    r"fainted|collapsed|burgled|crushed)\b",
    re.IGNORECASE,
)
_CALENDAR = frozenset((*MONTHS, *WEEKDAYS))
"""Words with a capital that name nobody and nothing."""
_NAMED = re.compile(rf"\b{CAPITAL}[^\W\d_]+")
_WORD = re.compile(r"\b[^\W\d_]+")


_GOES_ON = re.compile(r"\W{0,3}(?:(?:and|but|so|now|then),? ){0,2}(?:it|they)\b", re.IGNORECASE)
"""The beginning of a sentence on what the one before it names: "We moved the party. Now it's on 3 May."."""


def corrections(lines: RankedLines, line: int) -> list[int]:
    """The indices of the later lines of the same day in which its speaker corrects a line."""
    said = lines.rows[line]
    later = [index for index, row in enumerate(lines.rows) if _is_later(row, said) and same_day(said.at, row.at)]
    spoken = [index for index in later if not lines.rows[index].is_memory]
    following = min(spoken, key=lines.time_of, default=None)
    return [
        index
        for index in later
        if corrects(lines.rows[index].text, said.text)
        or (index == following and announces_correction(lines.rows[index].text, said.text))
    ]


def told_before(lines: RankedLines, line: int) -> list[int]:
    """The index of the line before, of the same speaker and day, that a line gives as its reason ("because of it")."""
    said = lines.rows[line]
    if not _LEANS.search(said.text):
        return []
    before = [
        index
        for index, row in enumerate(lines.rows)
        if row.speaker == said.speaker and row.at < said.at and same_day(row.at, said.at) and not row.is_memory
    ]
    return [max(before, key=lines.time_of)] if before else []


def price_beside(lines: RankedLines, line: int) -> list[int]:
    """The index of the line that its speaker said next on that day, if it has an amount of money and this one none."""
    said = lines.rows[line]
    if said.is_memory or tells_money(said.text):
        return []
    later = [i for i, row in enumerate(lines.rows) if _is_later(row, said) and same_day(row.at, said.at)]
    following = min((i for i in later if not lines.rows[i].is_memory), key=lines.time_of, default=None)
    return [] if following is None or not tells_money(lines.rows[following].text) else [following]


def last_mention(lines: RankedLines, line: int, matches: Callable[[str], bool] = bool) -> list[int]:
    """The index of the last current line in which its speaker names what a line names, too, if any.

    ``matches``: whether a sentence with such a name counts.
    """
    said, names = lines.rows[line], _names_in(lines, line)
    later = [
        index
        for index, row in enumerate(lines.rows)
        if row.is_current and _is_later(row, said) and any(map(matches, _sentences_naming(names, row.text)))
    ]
    return [max(later, key=lines.time_of)] if later else []


def last_word(lines: RankedLines, line: int, topic: Set[str], *, count: bool = False) -> list[int]:
    """The index of the last current line in which its speaker tells another figure, or the end, of the topic of a line.

    The sentence there has most of what both have of the topic, or the end is that of something that the line names.
    What is told there of a relative is of somebody else. ``count``: whether numbers in words are figures, too. A
    figure with a unit of the same kind counts where its sentence has most of the topic itself: "The dose is 40 mg now".
    """
    said = lines.rows[line]
    weights, whole = weigh(lines, topic, said.text), weigh(lines, topic)
    about = " ".join(_sentences_of(said.text, weights))
    told = frozenset(terms(about))
    tells_figure = figures_like(about, count=count)
    later = [
        index
        for index, row in enumerate(lines.rows)
        if row.is_current
        and _is_later(row, said)
        and (
            _goes_on(weights, row.text, tells_figure)
            or _ends(told, about, row.text)
            or _is_ended_by(told & topic, row.text)
            or any(_share(whole, one) >= MOST and tells_alike(about, one) for one in _telling(whole, row.text))
        )
    ]
    return _last(lines, later)


def last_time(lines: RankedLines, line: int, topic: Set[str]) -> list[int]:
    """The index of the last current line in which its speaker tells a time of the topic of a line, if any.

    A line that only answers what it was asked has nothing of the topic: then it is that of the question.
    """
    said, topic = lines.rows[line], topic - _ASKING
    weights = weigh(lines, topic, said.text) or weigh(lines, topic)
    later = [
        index
        for index, row in enumerate(lines.rows)
        if row.is_current
        and _is_later(row, said)
        and any(tells_time(one) and _share(weights, one) >= MOST for one in _telling(weights, row.text, going_on=True))
    ]
    return _last(lines, later)


def last_said(lines: RankedLines, line: int, topic: Set[str]) -> list[int]:
    """The index of the last current line in which its speaker tells most of what a line has of the topic, if any."""
    said = lines.rows[line]
    weights = weigh(lines, topic, said.text)
    names = frozenset[str]().union(*map(terms, _names_in(lines, line)))
    named = {forms: weight for forms, weight in weights.items() if not forms.isdisjoint(names)}
    later = [
        index
        for index, row in enumerate(lines.rows)
        if row.is_current
        and _is_later(row, said)
        and any(
            _share(weights, one) >= MOST and (not named or _share(named, one) > 0)
            for one in _telling(weights, row.text)
        )
    ]
    return _last(lines, later)


def end_of(lines: RankedLines, topic: Set[str]) -> list[int]:
    """The index of the current line that has most of a topic and tells an end or a change of it, the last of equals."""
    weights = weigh(lines, topic)
    shares = {
        index: max(
            (_share(weights, one) for one in _sentences_of(lines.rows[index].text, weights) if _turns(one)), default=0.0
        )
        for index in lines.order
        if lines.rows[index].is_current
    }
    most = max(shares.values(), default=0.0)
    return _last(lines, [index for index, share in shares.items() if share >= MOST and share >= most - 1e-6])


def _turns(sentence: str) -> bool:
    """Whether a sentence tells an end, a change, a mishap, or a fact of somebody's health, birth or death."""
    return not is_question(sentence) and (
        is_end(sentence) or is_change(sentence) or is_vital(sentence) or _MISHAP.search(sentence) is not None
    )


def _last(lines: RankedLines, indices: Sequence[int]) -> list[int]:
    """The index of the last of some lines, of a line and the memory of it the line's; empty where there is none."""
    return [max(indices, key=lambda index: (*lines.time_of(index), not lines.rows[index].is_memory))] if indices else []


def weigh(lines: RankedLines, topic: Set[str], text: str | None = None) -> dict[frozenset[str], float]:
    """The forms of each term of a topic that lines have → its rarity among them; of a ``text``, those that it has."""
    found = [frozenset(terms(row.text)) for row in lines.rows]
    there = frozenset[str]().union(*found) if text is None else frozenset(terms(text))
    forms = (forms_of(term) for term in topic)
    return {
        each: idf(sum(not each.isdisjoint(words) for words in found), len(found))
        for each in forms
        if not each.isdisjoint(there)
    }


def _share(weights: Mapping[frozenset[str], float], sentence: str) -> float:
    """The share of the weighed terms that a sentence has, by their weights."""
    words = frozenset(terms(sentence))
    has = sum(weight for forms, weight in weights.items() if not forms.isdisjoint(words))
    return has / (sum(weights.values()) or 1.0)


def _goes_on(weights: Mapping[frozenset[str], float], text: str, tells_figure: Callable[[str], bool]) -> bool:
    """Whether a sentence of a text with most of the terms tells an end, a return or a figure."""
    return any(
        _share(weights, one) >= MOST and (is_end(one) or resumes(one) or tells_figure(one))
        for one in _telling(weights, text)
    )


def _ends(told: Set[str], said: str, text: str) -> bool:
    """Whether a text says that something is stopped or given up that is among the terms ``told`` by what was said.

    A birth ends a pregnancy, whoever was told to expect the child.
    """
    if not _PREGNANT.isdisjoint(told) and tells_birth(text):
        return True
    things = ended_things(text) & told
    return bool(things) and not (tells_of_others(text, things) or tells_of_others(said, things))


def _is_ended_by(people: Set[str], text: str) -> bool:
    """Whether a sentence that begins with one of the terms tells an end: "Megan cancelled" of Megan's visit."""
    said = fold(text)
    sentences = (said[start:end] for start, end in sentence_spans(said))
    return any(not people.isdisjoint(terms(one)[:1]) and is_end(one) for one in sentences if not is_question(one))


def _telling(weights: Mapping[frozenset[str], float], text: str, *, going_on: bool = False) -> list[str]:
    """The sentences of a text that have one of the terms, ask nothing, and do not begin with a relative.

    ``going_on``: whether each has the one behind it, too, that goes on with "it".
    """
    shared = frozenset[str]().union(*weights)
    found = _sentences_of(text, weights, going_on=going_on)
    return [one for one in found if not (is_question(one) or tells_of_others(one, shared))]


def _sentences_of(text: str, weights: Iterable[frozenset[str]], *, going_on: bool = False) -> list[str]:
    """The sentences of a text that have one of the terms; ``going_on``: with those behind them that go on with "it"."""
    said, shared = fold(text), frozenset[str]().union(*weights)
    sentences = [said[start:end] for start, end in sentence_spans(said)]
    return [
        f"{one} {after}" if going_on and _goes_on_with(one, after) else one
        for one, after in zip(sentences, [*sentences[1:], ""], strict=True)
        if not shared.isdisjoint(terms(one))
    ]


def _goes_on_with(sentence: str, after: str) -> bool:
    """Whether the sentence behind one says more of what that names; neither asks."""
    return _GOES_ON.match(after) is not None and not is_question(sentence) and not is_question(after)


def _names_in(lines: RankedLines, line: int) -> set[str]:
    """The names in a line, case-folded, but for speakers, months and days of the week."""
    people = {part.casefold() for row in lines.rows for part in row.speaker.split()}
    text = lines.rows[line].text
    return set(map(str.casefold, (*_NAME.findall(text), *_TOLD_NAME.findall(text)))) - people - _CALENDAR


def _sentences_naming(names: Set[str], text: str) -> list[str]:
    """The sentences of a text that have one of the names."""
    said = fold(text)
    sentences = [said[start:end] for start, end in sentence_spans(said)]
    named = _WORD if said[:1].islower() else _NAMED  # whoever begins small writes names so
    return [one for one in sentences if not names.isdisjoint(map(str.casefold, named.findall(one)))]


def _is_later(row: Row, said: Row) -> bool:
    """Whether a row is of the same speaker as another, and of a later time."""
    return row.speaker == said.speaker and row.at > said.at
