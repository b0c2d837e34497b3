"""The replier that needs no language model: it quotes the lines that match best."""

import re
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass, replace
from datetime import date

import numpy as np

from eunoe.schemas.events import Provenance
from eunoe.schemas.model_ports import Embedder
from eunoe.workers.respond.breadth import Breadth, read_breadth, topic_of
from eunoe.workers.respond.context import Row, fold, write_day
from eunoe.workers.respond.hints import MONTHS, QuestionHints, read_question, without_asking
from eunoe.workers.respond.quotable import Floats, Quotable
from eunoe.workers.respond.quoting import score_quotes
from eunoe.workers.respond.replier import CODE, DraftReply, ReplyTask
from eunoe.workers.text.brackets import without_brackets
from eunoe.workers.text.corrections import corrects
from eunoe.workers.text.days import WEEKDAYS
from eunoe.workers.text.names import without_names
from eunoe.workers.text.salience import is_end
from eunoe.workers.text.statements import sentence_spans

NOTHING = "I do not remember anything about that."
FLOOR = 0.35
"""Minimum share of the question's words plus cosine of a row, for there to be an answer."""
OTHERS = 0.5
"""Maximum lead of other speakers' rows, in the same measure, over those of the speaker asked about."""
ALSO = 0.5
"""Maximum distance from the best score of a second line."""
ALIKE = 1.5
"""Maximum distance from the best score of lines that may be about the same thing at different times."""
MANY = 5
"""Lines quoted for a question about many things, of different days."""
MAX_QUOTE_CHARS = 400
NOT_CURRENT = "not current"
"""Behind the day of a memory in whose place another one holds, or that has ended."""
_NAME = re.compile(r"(?<=[a-z,;] )(?!I\b)[A-Z][^\W\d_]+")
"""A word with a capital within a sentence."""
_CALENDAR = frozenset((*MONTHS, *WEEKDAYS))
"""Words with a capital that name nobody and nothing."""
_NAMED = re.compile(r"\b[A-Z][^\W\d_]+")
_PARTS = re.compile(r"(?<=\?)\s+|,? and (?=(?:what|when|where|who|why|how|which)\b)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class OfflineReplier:
    """Replies with quotations; deterministic."""

    embedder: Embedder

    async def reply(self, task: ReplyTask) -> DraftReply:
        """Quotations with speaker and day, or a statement that nothing is remembered. Raises `Unavailable`."""
        made_by = Provenance(code=CODE, model=f"quotation + {self.embedder.name}")
        chosen: dict[Row, None] = {}
        parts = parts_of(task.question.text)
        for part in parts:
            found = await self._answers(task, part)
            chosen |= dict.fromkeys(found if len(parts) == 1 else found[:1])
        if not chosen:
            return DraftReply(NOTHING, (), made_by)
        cited = tuple(chosen)
        return DraftReply(" ".join(_quote(row, task.speak_as) for row in cited), cited, made_by)

    async def _answers(self, task: ReplyTask, question: str) -> list[Row]:
        """The rows to quote for one part of the question, the one that answers best first.

        A question for what the one who replies said is answered by that one's rows alone, replies from memory among
        them: they are no evidence for anything else.
        """
        hints = _hints_of(task, question)
        rows = [part for row in task.rows.values() for part in row.quotable]
        if asks_for_own(task, rows, hints):
            hints = replace(hints, speakers=frozenset((task.speak_as,)))
            quotable = replace(await self._read(task, rows, without_asking(question), hints), for_replies=True)
            answering = [place for place, row in enumerate(rows) if row.speaker == task.speak_as]
        else:
            rows = [row for row in rows if row.reply_id is None]
            quotable = await self._read(task, rows, question, hints)
            answering = list(range(len(rows)))
        if not is_known(quotable):
            return []
        found = choose_lines([rows[place] for place in answering], score_quotes(quotable)[answering], hints)
        return [rows[answering[place]] for place in found]

    async def _read(self, task: ReplyTask, rows: Sequence[Row], question: str, hints: QuestionHints) -> Quotable:
        """The rows beside one part of the question."""
        question, speakers = topic_of(question, hints.breadth), task.speakers
        texts = [without_brackets(row.text) or row.text for row in rows]
        vectors = await self.embedder.embed([without_names(text, speakers) for text in (question, *texts)])
        cosines = np.asarray(vectors[1:] @ vectors[0], dtype=np.float64)
        return Quotable(question, hints, speakers, rows, cosines, task.context.sources)


def asks_for_own(task: ReplyTask, rows: Sequence[Row], hints: QuestionHints) -> bool:
    """Whether a question asks for what the one who replies said ("your advice"), and the rows hold anything of it."""
    own = task.speak_as
    is_asked = hints.replies and hints.named <= {own} and task.question.speaker != own
    return is_asked and any(row.speaker == own for row in rows)


def _hints_of(task: ReplyTask, question: str) -> QuestionHints:
    """The hints of one part of the question; one that names nobody is about whom the whole question is about."""
    asker, speakers = task.question.speaker, task.speakers
    hints = read_question(question, speakers, asker)
    if hints.speakers:
        return hints
    return replace(hints, speakers=read_question(task.question.text, speakers, asker).speakers)


def parts_of(question: str) -> list[str]:
    """The questions that one sentence asks: "What is X, and when was Y?" asks two; a broad one stays whole."""
    if read_breadth(question) is not Breadth.ONE:
        return [question]
    return [part.strip() for part in _PARTS.split(question) if part.strip()]


def is_known(quotable: Quotable) -> bool:
    """Whether the rows may hold an answer.

    Not where no row has enough of the question, nor where other speakers' rows have much more of it than those of the
    one it asks about: then it is theirs, and the question mistakes the person.
    """
    own, named = quotable.known, quotable.is_named > 0
    if float(own.max(initial=0.0)) < FLOOR:
        return False
    return not named.any() or bool(named.all()) or float(own[~named].max() - own[named].max()) <= OTHERS


def choose_lines(rows: Sequence[Row], scores: Floats, hints: QuestionHints) -> list[int]:
    """The indices of the lines to quote, the one that answers best first.

    A question about the present prefers the latest of the best lines, with what the same person said last of somebody
    or something that it names; one in the present tense does so where the best of all has ended, and else quotes the
    best of those that hold, with what was said last of an end of that. One about the past quotes the oldest first, then
    the best and the latest. One about many things quotes the best line of several days in their order.
    """
    if hints.breadth is not Breadth.ONE:
        return _choose_many(rows, scores)
    of_all = sorted(range(len(rows)), key=lambda index: (-round(float(scores[index]), 6), index))
    ranked = [index for index in of_all if rows[index].is_current or not (hints.present or hints.holds)]
    if not ranked:
        return []
    best = ranked[0]
    alike = [index for index in ranked if scores[index] >= scores[best] - ALIKE]
    alike.sort(key=lambda index: (rows[index].at, rows[index].number))
    if hints.present or (hints.holds and not rows[of_all[0]].is_current):
        return [alike[-1], *_last_said_of(rows, alike[-1])]
    if hints.past:
        gone = [index for index in alike if not rows[index].is_current]
        return list(dict.fromkeys([(gone or alike)[0], best, alike[-1]]))
    said = fold(rows[best].text).casefold()
    other = next((index for index in ranked[1:] if fold(rows[index].text).casefold() != said), best)
    chosen = [best, other] if other != best and scores[other] >= scores[best] - ALSO else [best]
    after = _last_said_of(rows, best, is_end) if hints.holds else []
    return list(dict.fromkeys([*chosen, *_corrections_of(rows, best), *after]))


def _last_said_of(rows: Sequence[Row], told: int, counts: Callable[[str], bool] = bool) -> list[int]:
    """The index of the last line after one in which its speaker names what that names, too; empty if there is none.

    ``counts``: whether a sentence with such a name is looked for.
    """
    people = {part.casefold() for row in rows for part in row.speaker.split()}
    names = {name for name in map(str.casefold, _NAME.findall(rows[told].text)) if name not in people | _CALENDAR}
    later = [
        index
        for index, row in enumerate(rows)
        if row.is_current
        and row.speaker == rows[told].speaker
        and row.at > rows[told].at
        and any(map(counts, _sentences_naming(names, row.text)))
    ]
    return [max(later, key=lambda index: (rows[index].at, rows[index].number))] if later else []


def _corrections_of(rows: Sequence[Row], told: int) -> list[int]:
    """The indices of the later lines of the same day in which its speaker corrects a line."""
    said = rows[told]
    return [
        index
        for index, row in enumerate(rows)
        if row.speaker == said.speaker
        and row.at > said.at
        and row.at.date() == said.at.date()
        and corrects(row.text, said.text)
    ]


def _sentences_naming(names: Set[str], text: str) -> list[str]:
    """The sentences of a text that have one of the names."""
    said = fold(text)
    sentences = [said[start:end] for start, end in sentence_spans(said)]
    return [one for one in sentences if not names.isdisjoint(map(str.casefold, _NAMED.findall(one)))]


def _choose_many(rows: Sequence[Row], scores: Floats) -> list[int]:
    """The indices of the best lines of the days whose lines are best, at most `MANY`, in order of time."""
    best: dict[date, int] = {}
    for index in sorted(range(len(rows)), key=lambda index: (-round(float(scores[index]), 6), index)):
        best.setdefault(rows[index].at.date(), index)
    return sorted(list(best.values())[:MANY], key=lambda index: (rows[index].at, rows[index].number))


def _quote(row: Row, speak_as: str) -> str:
    text = fold(row.text)
    clipped = text if len(text) <= MAX_QUOTE_CHARS else text[: MAX_QUOTE_CHARS - 1] + "…"
    if row.is_memory:
        note = row.past or ("" if row.is_current else NOT_CURRENT)
        return f"{clipped} ({', '.join(filter(None, [write_day(row.at), note]))})"
    who = "I" if row.speaker == speak_as else row.speaker
    return f"On {write_day(row.at)} {who} said: “{clipped}”{f' ({row.past})' if row.past else ''}"
