"""Finds what the speaker of a line said later of what it tells: corrections, ends, the last figure or mention."""

import re
from collections.abc import Callable, Set

from eunoe.workers.respond.context import Row, fold, same_day
from eunoe.workers.respond.offline.others import tells_of_others
from eunoe.workers.respond.offline.ranked_lines import RankedLines
from eunoe.workers.respond.times import MONTHS
from eunoe.workers.text.capitals import CAPITAL
from eunoe.workers.text.corrections import announces_correction, corrects
from eunoe.workers.text.day_words import WEEKDAYS
from eunoe.workers.text.endings import ended_things, is_end, resumes
from eunoe.workers.text.salience import is_question
from eunoe.workers.text.statements import sentence_spans
from eunoe.workers.text.terms import terms

_NAME = re.compile(rf"(?<=[^\W\d_A-Z] |[,;] )(?!I\b){CAPITAL}[^\W\d_]+")
"""A word with a capital within a sentence."""
_FIGURE = re.compile(r"\b\d")
_CALENDAR = frozenset((*MONTHS, *WEEKDAYS))
"""Words with a capital that name nobody and nothing."""
_NAMED = re.compile(rf"\b{CAPITAL}[^\W\d_]+")


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


def last_word(lines: RankedLines, line: int, topic: Set[str]) -> list[int]:
    """The index of the last current line in which its speaker tells another figure, or the end, of the topic of a line.

    What both have of the topic stands in one sentence, or the end is that of something that the line names. What is
    told there of a relative is of somebody else.
    """
    said = lines.rows[line]
    shared = topic & frozenset(terms(said.text))
    if not shared:
        return []
    about = " ".join(_sentences_of(said.text, shared))
    told = frozenset(terms(about))
    has_figure = any(map(_FIGURE.search, _sentences_with(shared, said.text)))
    later = [
        index
        for index, row in enumerate(lines.rows)
        if row.is_current
        and _is_later(row, said)
        and (_goes_on(shared, row.text, has_figure=has_figure) or _ends(told, about, row.text))
    ]
    return [max(later, key=lambda index: (*lines.time_of(index), not lines.rows[index].is_memory))] if later else []


def _goes_on(shared: Set[str], text: str, *, has_figure: bool) -> bool:
    """Whether a sentence of a text with all of the terms tells an end or a return, or a figure where there was one."""
    sentences = _sentences_with(shared, text)
    return any(is_end(one) or resumes(one) or (has_figure and _FIGURE.search(one) is not None) for one in sentences)


def _ends(told: Set[str], said: str, text: str) -> bool:
    """Whether a text says that something is stopped or given up that is among the terms ``told`` by what was said."""
    things = ended_things(text) & told
    return bool(things) and not (tells_of_others(text, things) or tells_of_others(said, things))


def _sentences_with(shared: Set[str], text: str) -> list[str]:
    """The sentences of a text that have all of the terms, ask nothing, and do not begin with a relative."""
    if not shared <= frozenset(terms(text)):
        return []
    return [
        one
        for one in _sentences_of(text, shared)
        if shared <= frozenset(terms(one)) and not is_question(one) and not tells_of_others(one, shared)
    ]


def _sentences_of(text: str, shared: Set[str]) -> list[str]:
    """The sentences of a text that have one of the terms."""
    said = fold(text)
    sentences = (said[start:end] for start, end in sentence_spans(said))
    return [one for one in sentences if not shared.isdisjoint(terms(one))]


def _names_in(lines: RankedLines, line: int) -> set[str]:
    """The names in a line, case-folded, but for speakers, months and days of the week."""
    people = {part.casefold() for row in lines.rows for part in row.speaker.split()}
    return set(map(str.casefold, _NAME.findall(lines.rows[line].text))) - people - _CALENDAR


def _sentences_naming(names: Set[str], text: str) -> list[str]:
    """The sentences of a text that have one of the names."""
    said = fold(text)
    sentences = [said[start:end] for start, end in sentence_spans(said)]
    return [one for one in sentences if not names.isdisjoint(map(str.casefold, _NAMED.findall(one)))]


def _is_later(row: Row, said: Row) -> bool:
    """Whether a row is of the same speaker as another, and of a later time."""
    return row.speaker == said.speaker and row.at > said.at
