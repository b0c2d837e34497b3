"""Chooses the lines that a reply without a language model quotes, by what the question asks for.

- What was said or happened on a day: the best lines of that day, in order of time.
- Many things, or a summary: the best line of each of several days.
- What holds now: the latest of the best lines, with the last mention of what it names.
- What was before: the oldest of the best lines, the best one and the latest.
- What has become of something: the line that tells its end or its change, if any.
- Anything else: the best line, a second one that says something else, and what was corrected or ended since. Of what
  holds, the last figure told of it ("my weight is 93 kg") in place of a second line; of when it is, the last time; of
  whether it was so, the last word.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence, Set
from datetime import date
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from eunoe.workers.respond.breadth import Breadth
from eunoe.workers.respond.context import Row, fold
from eunoe.workers.respond.hints import QuestionHints
from eunoe.workers.respond.offline.beside import Floats
from eunoe.workers.respond.offline.last_words import (
    corrections,
    end_of,
    last_mention,
    last_said,
    last_time,
    last_word,
    price_beside,
    told_before,
)
from eunoe.workers.respond.offline.ranked_lines import RankedLines, plain, rank_lines
from eunoe.workers.respond.offline.told import asks
from eunoe.workers.text.endings import is_end
from eunoe.workers.text.lasting import asks_to_remember
from eunoe.workers.text.salience import is_question
from eunoe.workers.text.sentences import sentence_spans
from eunoe.workers.text.terms import terms

_FIRST_PERSON = re.compile(r"\b(?:I|me|my|we|our|us)\b", re.IGNORECASE)
LEAST_TOLD = 3
"""Terms of a sentence that tells something beside a question."""
ALSO = 0.5
"""Maximum distance from the best score of a second line."""
MANY = 5
"""Lines quoted for a question about many things, of different days."""


def choose_lines(
    rows: Sequence[Row],
    scores: Floats,
    hints: QuestionHints,
    topic: Set[str] = frozenset(),
    has_enough: Sequence[bool] | NDArray[np.bool_] = (),
) -> list[int]:
    """The indices of the lines to quote, the one that answers best first; of many things, in order of time.

    ``topic``: the terms of the question; of what is asked in the present tense, the last figure or end is quoted, too.
    ``has_enough``: for each line whether it has enough of the question to be quoted beside the best one or others, and
    before the best one where nobody who takes part is named; unset: all.
    """
    every = rank_lines(rows, scores)
    if hints.breadth is not Breadth.ONE:
        told = [index for index in every.order if len(has_enough) and has_enough[index]]
        return _best_of_days(RankedLines(rows, scores, told or every.order))
    lines = every.current() if hints.present or hints.holds else every
    if not lines.order:
        return []
    if len(has_enough) and hints.of_present and not hints.named and not has_enough[lines.best]:
        lines = RankedLines(rows, scores, sorted(lines.order, key=lambda index: not has_enough[index]))
    if len(has_enough):
        lines = RankedLines(rows, scores, [lines.best, *(index for index in lines.order[1:] if has_enough[index])])
    if hints.present or (hints.holds and lines.best != every.best):  # the best answer of all has ended
        return _latest(lines)
    if hints.past:
        return _from_the_oldest(lines)
    if hints.happened and (end := end_of(lines, topic)) and lines.best not in end:
        return end
    return _best(lines, topic, hints)


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
        if plain(rows[index]) not in said:
            said.add(plain(rows[index]))
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
    latest = _as_said(lines, lines.by_time(lines.near_best())[-1])
    return [latest, *last_mention(lines, latest)]


def _from_the_oldest(lines: RankedLines) -> list[int]:
    """The oldest of the best lines (of those that hold no more, if any), the best one and the latest."""
    alike = lines.by_time(lines.near_best())
    gone = [index for index in alike if not lines.rows[index].is_current]
    return _distinct(_line_among(lines, index, alike) for index in ((gone or alike)[0], lines.best, alike[-1]))


def _line_among(lines: RankedLines, index: int, alike: Iterable[int]) -> int:
    """The index of the one of some lines that a memory rests on, whether or not that holds; else that of the memory."""
    said = lines.rows[index]
    spoken = (other for other in alike if not lines.rows[other].is_memory)
    return next((other for other in spoken if said.is_memory and _says_again(lines.rows[other], said)), index)


def _best(lines: RankedLines, topic: Set[str], hints: QuestionHints) -> list[int]:
    """The best line, a second one or the last word on the topic, and the corrections of the best.

    Of when it is, the last time that its speaker tells; of whether it was so, the last word. Where the answer may have
    ended, the last end that its speaker mentions of something that the best line names.
    """
    best = _as_said(lines, lines.best)
    ends = last_mention(lines, best, is_end) if hints.ends else []
    more = last_word(lines, best, topic, count=hints.count) if hints.of_present else []
    price = price_beside(lines, best) if hints.price else []
    if hints.when:
        more = [*more, *last_time(lines, best, topic)]
    elif hints.whether and not hints.of_present:
        more = last_said(lines, best, topic)
    return _distinct(
        [best, *told_before(lines, best), *price, *corrections(lines, best), *(more or _second(lines, best)), *ends]
    )


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


def only_asks(row: Row) -> bool:
    """Whether a row asks something, and tells nothing beside it: "Cute! How is school going for Emil?"."""
    said = fold(row.text)
    sentences = [said[start:end] for start, end in sentence_spans(said)] if is_question(said) else []
    told = [one for one in sentences if not asks(one)]
    return bool(sentences) and not (
        any(map(asks_to_remember, sentences))
        or any(len(terms(one)) >= LEAST_TOLD or _FIRST_PERSON.search(one) for one in told)
    )


def _says_again(row: Row, said: Row) -> bool:
    """Whether a row says the same as another: in the same words, or as a memory of it, or as what it is a memory of."""
    if plain(row) == plain(said):
        return True
    memory, line = (row, said) if row.is_memory else (said, row)
    return memory.is_memory and not line.is_memory and set(line.cites).issuperset(memory.cites)


def _distinct(indices: Iterable[int]) -> list[int]:
    return list(dict.fromkeys(indices))
