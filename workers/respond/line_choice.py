"""Chooses the lines that a reply without a language model quotes, by what the question asks for.

- What was said or happened on a day: the best lines of that day, in order of time.
- Many things, or a summary: the best line of each of several days.
- What holds now: the latest of the best lines, with the last mention of what it names.
- What was before: the oldest of the best lines, the best one and the latest.
- Anything else: the best line, a second one that says something else, and what was corrected or ended since. Of what
  holds, the last figure told of it ("my weight is 93 kg") in place of a second line.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence, Set
from dataclasses import dataclass
from datetime import date, datetime
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from eunoe.workers.respond.breadth import Breadth
from eunoe.workers.respond.context import Row, fold, same_day
from eunoe.workers.respond.hints import QuestionHints
from eunoe.workers.respond.quotable import Floats
from eunoe.workers.respond.times import MONTHS
from eunoe.workers.respond.whose import tells_of_others
from eunoe.workers.text.capitals import CAPITAL
from eunoe.workers.text.corrections import corrects
from eunoe.workers.text.day_words import WEEKDAYS
from eunoe.workers.text.salience import is_end, is_question
from eunoe.workers.text.statements import sentence_spans
from eunoe.workers.text.terms import terms

ALSO = 0.5
"""Maximum distance from the best score of a second line."""
ALIKE = 1.5
"""Maximum distance from the best score of lines that may be about the same thing at different times."""
MANY = 5
"""Lines quoted for a question about many things, of different days."""
_NAME = re.compile(rf"(?<=[^\W\d_A-Z] |[,;] )(?!I\b){CAPITAL}[^\W\d_]+")
"""A word with a capital within a sentence."""
_FIGURE = re.compile(r"\b\d")
_CALENDAR = frozenset((*MONTHS, *WEEKDAYS))
"""Words with a capital that name nobody and nothing."""
_NAMED = re.compile(rf"\b{CAPITAL}[^\W\d_]+")
_ANNOUNCED = re.compile(
    r"\W{0,3}(?:correction|(?:oops|sorry|no|wait|actually)?\W{0,3}I meant|scratch that|typo)\b|\*\w[^*]{0,60}\Z",
    re.IGNORECASE,
)
"""The beginning of a line that corrects the one before it, whatever of that is wrong."""


@dataclass(frozen=True, slots=True)
class RankedLines:
    """Lines with their scores, and the order of those that may answer."""

    rows: Sequence[Row]
    scores: Floats
    """The score of each row, shape (n,)."""
    order: Sequence[int]
    """Indices of rows, the best first; of equal scores the first row."""

    @property
    def best(self) -> int:
        """The index of the best line. Raises ``IndexError`` where there is none."""
        return self.order[0]

    def current(self) -> "RankedLines":
        """The lines that still hold."""
        return RankedLines(self.rows, self.scores, [index for index in self.order if self.rows[index].is_current])

    def near_best(self) -> list[int]:
        """The indices of the lines whose score is at most `ALIKE` from the best one, the best first."""
        return [index for index in self.order if self.scores[index] >= self.scores[self.best] - ALIKE]

    def by_time(self, indices: Iterable[int]) -> list[int]:
        """The indices in the order in which their lines were said."""
        return sorted(indices, key=self.time_of)

    def time_of(self, index: int) -> tuple[datetime, int]:
        """A sort key: the time of a line, then its number; excerpts of one utterance have the same."""
        return self.rows[index].at, self.rows[index].number


def rank_lines(rows: Sequence[Row], scores: Floats) -> RankedLines:
    """All lines in the order of their scores, which count to six digits."""
    order = sorted(range(len(rows)), key=lambda index: (-round(float(scores[index]), 6), index))
    return RankedLines(rows, scores, order)


def choose_lines(
    rows: Sequence[Row],
    scores: Floats,
    hints: QuestionHints,
    topic: Set[str] = frozenset(),
    has_enough: Sequence[bool] | NDArray[np.bool_] = (),
) -> list[int]:
    """The indices of the lines to quote, the one that answers best first; of many things, in order of time.

    ``topic``: the terms of the question; of what holds, the last figure and the last end told of them are quoted, too.
    ``has_enough``: for each line whether it has enough of the question to be quoted beside the best one; unset: all.
    """
    every = rank_lines(rows, scores)
    if hints.breadth is not Breadth.ONE:
        return _best_of_days(every)
    lines = every.current() if hints.present or hints.holds else every
    if not lines.order:
        return []
    if len(has_enough):
        lines = RankedLines(rows, scores, [lines.best, *(index for index in lines.order[1:] if has_enough[index])])
    if hints.present or (hints.holds and lines.best != every.best):  # the best answer of all has ended
        return _latest(lines)
    if hints.past:
        return _from_the_oldest(lines)
    return _best(lines, topic if hints.holds else frozenset(), with_end=hints.ends)


def choose_of_days(rows: Sequence[Row], scores: Floats, hints: QuestionHints) -> list[int]:
    """The indices of the lines to quote of those of the days asked for, at most `MANY`, in order of time.

    The best of each day come first, then the second ones. Of what lies ahead, those that still hold.
    """
    every = rank_lines(rows, scores)
    lines = every if hints.said else every.current()
    before: Counter[date] = Counter()
    ranked: list[tuple[int, int, int]] = []
    said: set[str] = set()
    for place, index in enumerate(lines.order):
        if _plain(rows[index]) not in said:
            said.add(_plain(rows[index]))
            day = rows[index].at.date()
            ranked.append((before[day], place, index))
            before[day] += 1
    return lines.by_time([index for *_, index in sorted(ranked)[:MANY]])


def _best_of_days(lines: RankedLines) -> list[int]:
    """The best line of each of the days whose lines are best, at most `MANY`, in order of time."""
    best: dict[date, int] = {}
    for index in lines.order:
        best.setdefault(lines.rows[index].at.date(), index)
    return lines.by_time(list(best.values())[:MANY])


def _latest(lines: RankedLines) -> list[int]:
    """The latest of the best lines, with what its speaker said last of somebody or something that it names."""
    latest = lines.by_time(lines.near_best())[-1]
    return [latest, *_last_mention(lines, latest)]


def _from_the_oldest(lines: RankedLines) -> list[int]:
    """The oldest of the best lines (of those that hold no more, if any), the best one and the latest."""
    alike = lines.by_time(lines.near_best())
    gone = [index for index in alike if not lines.rows[index].is_current]
    return _distinct([(gone or alike)[0], lines.best, alike[-1]])


def _best(lines: RankedLines, topic: Set[str], *, with_end: bool) -> list[int]:
    """The best line, a second one or the last word on the topic, and the corrections of the best.

    ``with_end``: whether to add the last end that its speaker mentions of something that the best line names.
    """
    best = _as_said(lines, lines.best)
    ends = _last_mention(lines, best, is_end) if with_end else []
    more = _last_word(lines, best, topic) or _second(lines, best)
    return _distinct([best, *more, *_corrections(lines, best), *ends])


def _as_said(lines: RankedLines, index: int) -> int:
    """The index of the line that a memory that holds rests on, where it is nearly as good; else that of the memory."""
    memory = lines.rows[index]
    if not memory.is_memory or not memory.is_current or memory.past:
        return index
    rows = ((other, lines.rows[other]) for other in lines.order)
    line = next((other for other, row in rows if not row.is_memory and _says_again(row, memory)), index)
    return line if lines.scores[line] >= lines.scores[index] - ALSO else index


def _second(lines: RankedLines, first: int) -> list[int]:
    """The index of the best line that tells something else than the first one, if it is nearly as good as the best."""
    said = lines.rows[first]
    near = (index for index in lines.order if lines.scores[index] >= lines.scores[lines.best] - ALSO)
    others = (index for index in near if not _says_again(lines.rows[index], said) and _tells(lines.rows[index]))
    return list(islice(others, 1))


def _tells(row: Row) -> bool:
    """Whether a row is more than questions."""
    said = fold(row.text)
    return not is_question(said) or not all(is_question(said[start:end]) for start, end in sentence_spans(said))


def _says_again(row: Row, said: Row) -> bool:
    """Whether a row says the same as another: in the same words, or as a memory of it, or as what it is a memory of."""
    if _plain(row) == _plain(said):
        return True
    memory, line = (row, said) if row.is_memory else (said, row)
    return memory.is_memory and not line.is_memory and set(line.cites).issuperset(memory.cites)


def _corrections(lines: RankedLines, line: int) -> list[int]:
    """The indices of the later lines of the same day in which its speaker corrects a line."""
    said = lines.rows[line]
    later = [index for index, row in enumerate(lines.rows) if _is_later(row, said) and same_day(said.at, row.at)]
    spoken = [index for index in later if not lines.rows[index].is_memory]
    following = min(spoken, key=lines.time_of, default=None)
    return [
        index
        for index in later
        if corrects(lines.rows[index].text, said.text)
        or (index == following and _ANNOUNCED.match(lines.rows[index].text))
    ]


def _last_mention(lines: RankedLines, line: int, matches: Callable[[str], bool] = bool) -> list[int]:
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


def _last_word(lines: RankedLines, line: int, topic: Set[str]) -> list[int]:
    """The index of the last current line in which its speaker tells another figure, or the end, of the topic of a line.

    What both have of the topic stands in one sentence; what is told there of a relative is of somebody else.
    """
    said = lines.rows[line]
    shared = topic & frozenset(terms(said.text))
    if not shared:
        return []
    has_figure = any(map(_FIGURE.search, _sentences_with(shared, said.text)))
    later = [
        index
        for index, row in enumerate(lines.rows)
        if row.is_current
        and _is_later(row, said)
        and any(is_end(one) or (has_figure and _FIGURE.search(one)) for one in _sentences_with(shared, row.text))
    ]
    return [max(later, key=lambda index: (*lines.time_of(index), not lines.rows[index].is_memory))] if later else []


def _sentences_with(shared: Set[str], text: str) -> list[str]:
    """The sentences of a text that have all of the terms, ask nothing, and do not begin with a relative."""
    said = fold(text)
    if not shared <= frozenset(terms(said)):
        return []
    sentences = [said[start:end] for start, end in sentence_spans(said)]
    return [
        one
        for one in sentences
        if shared <= frozenset(terms(one)) and not is_question(one) and not tells_of_others(one, shared)
    ]


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


def _plain(row: Row) -> str:
    """The text of a row, for comparisons: two rows may say the same in another case or with other spaces."""
    return fold(row.text).casefold()


def _distinct(indices: Iterable[int]) -> list[int]:
    return list(dict.fromkeys(indices))
