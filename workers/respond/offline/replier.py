"""The replier that needs no language model: it quotes the lines that match best."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from eunoe.schemas.events import Provenance
from eunoe.schemas.model_ports import Embedder
from eunoe.workers.respond.breadth import Breadth, read_breadth, topic_of
from eunoe.workers.respond.context import Row, fold, write_day
from eunoe.workers.respond.hints import QuestionHints, read_question, without_asking
from eunoe.workers.respond.offline.answerable import may_answer
from eunoe.workers.respond.offline.day_questions import asks_for_days, rows_of_days
from eunoe.workers.respond.offline.line_choice import choose_lines, choose_of_days, only_asks
from eunoe.workers.respond.offline.medicines import asks_for_medicines, rows_of_medicines
from eunoe.workers.respond.offline.others import asks_what_is, third_named
from eunoe.workers.respond.offline.quotable import Quotable
from eunoe.workers.respond.offline.quoting import score_quotes
from eunoe.workers.respond.offline.whose import asks_of_ones_own
from eunoe.workers.respond.replier import CODE, DraftReply, ReplyTask
from eunoe.workers.respond.times import without_days
from eunoe.workers.text.brackets import without_brackets
from eunoe.workers.text.names import without_names
from eunoe.workers.text.terms import terms
from eunoe.workers.text.tokens import clip_chars

NOTHING = "I do not remember anything about that."
FLOOR = 0.35
"""Minimum share of the question's words plus cosine of a row, for there to be an answer."""
UNFIT = 100.0
"""Taken from the score of a row that may not answer: it comes behind all others."""
OTHERS = 0.5
"""Maximum lead of other speakers' rows, in the same measure, over those of the speaker asked about."""
LEAD = 0.2
"""Minimum lead, in the share of the question's words, of what the one who replies said over all that others told."""
MAX_QUOTE_CHARS = 400
NOT_CURRENT = "not current"
"""Behind the day of a memory in whose place another one holds, or that has ended."""
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
        if asks_for_medicines(question, hints):
            rows = [part for row in task.rows.values() for part in row.quotable]
            if places := rows_of_medicines(rows, hints.speakers):
                return [rows[place] for place in places]
        is_of_days = asks_for_days(question, hints, task.speakers)
        question = without_days(question, hints.days)  # "last week" has nothing in common with "next week"
        rows = [part for row in task.rows.values() for part in row.quotable]
        if own := asked_for_own(task, rows, hints):
            hints = replace(hints, speakers=own)
            quotable = replace(await self._read(task, rows, without_asking(question), hints), for_replies=True)
            answering = [place for place, row in enumerate(rows) if row.speaker in own]
        else:
            # an answer may be to what a reply asked
            rows = [row for row in rows if row.reply_id is None or "?" in row.text]
            quotable = await self._read(task, rows, question, hints)
            answering = [place for place, row in enumerate(rows) if row.reply_id is None and not only_asks(row)]
        if is_of_days:
            of_days = set(rows_of_days(rows, question, hints))
            answering = [place for place in answering if place in of_days]
            there, scores = [rows[place] for place in answering], score_quotes(quotable)[answering]
            return [there[place] for place in choose_of_days(there, scores, hints)] if there else []
        answering = [place for place in answering if not quotable.of_others[place]]
        fits = np.ones(len(rows), dtype=np.bool_) if quotable.for_replies else may_answer(quotable)
        for places in in_turn(quotable, answering):
            if chosen := choose_among(quotable, places, fits):
                return [rows[place] for place in chosen]
        return []

    async def _read(self, task: ReplyTask, rows: Sequence[Row], question: str, hints: QuestionHints) -> Quotable:
        """The rows beside one part of the question."""
        question, speakers = topic_of(question, hints.breadth), task.speakers
        texts = [without_brackets(row.text) or row.text for row in rows]
        third = "" if asks_what_is(question) and not hints.whether else third_named(question, speakers)
        names = (*speakers, third) if third else speakers
        vectors = await self.embedder.embed([without_names(text, names) for text in (question, *texts)])
        cosines = np.asarray(vectors[1:] @ vectors[0], dtype=np.float64)
        talker = "" if task.speak_as == task.question.speaker else task.speak_as
        return Quotable(question, hints, speakers, rows, cosines, task.context.sources, talker)


def in_turn(quotable: Quotable, answering: Sequence[int]) -> Iterator[list[int]]:
    """Yield the places among which an answer is looked for, one lot after the other, until there is one.

    What the one who replies said before is talk and advice, and comes behind what others told. Of the asker and theirs
    it answers only by a sentence with all of the question's words; before others that have fewer.
    """
    own = [place for place in answering if quotable.is_talk[place]]
    others = [place for place in answering if not quotable.is_talk[place]]
    restating = [place for place in own if quotable.tells_all[place]]
    most = float(np.maximum(quotable.shares, quotable.tells_state)[others].max(initial=0.0))
    if any(quotable.shares[place] > most + LEAD for place in restating):
        yield restating
    yield others
    yield restating if asks_of_ones_own(quotable.question) else own


def choose_among(quotable: Quotable, answering: Sequence[int], fits: NDArray[np.bool_]) -> list[int]:
    """The places of the rows to quote, of those ``answering``, the one that answers best first.

    ``fits``: for each row whether it may answer.
    """
    question, hints, rows = quotable.question, quotable.hints, quotable.rows
    if not answering or not is_known(quotable, fits, answering):
        return []
    fits, has_enough = fits[answering], quotable.has_enough(FLOOR)[answering]
    if quotable.is_whether_of_self and not has_enough.any():
        return []
    scores = score_quotes(quotable)[answering]
    scores = np.where(fits, scores, scores - UNFIT)
    topic = frozenset(terms(question, drop=quotable.speakers))
    chosen = choose_lines([rows[place] for place in answering], scores, hints, topic, has_enough)
    return [answering[place] for place in chosen] if chosen and fits[chosen[0]] else []


def asked_for_own(task: ReplyTask, rows: Sequence[Row], hints: QuestionHints) -> frozenset[str]:
    """The names under which the one who replies spoke, where a question asks for that ("your advice"); else none.

    Where no row has its name, its replies do: chats that were imported, or shown by a client, name it otherwise.
    """
    own = frozenset(row.speaker for row in rows if row.speaker == task.speak_as)
    own = own or frozenset(row.speaker for row in rows if row.reply_id is not None)
    is_asked = hints.replies and hints.named <= own and task.question.speaker not in own
    return own if is_asked else frozenset()


def _hints_of(task: ReplyTask, question: str) -> QuestionHints:
    """The hints of one part of the question; one that names nobody is about whom the whole question is about."""
    asker, speakers = task.question.speaker, task.speakers
    hints = read_question(question, speakers, asker, task.question.at.date())
    if hints.speakers or question == task.question.text:
        return hints
    return replace(hints, speakers=read_question(task.question.text, speakers, asker).speakers)


def parts_of(question: str) -> list[str]:
    """The questions that one sentence asks: "What is X, and when was Y?" asks two; a broad one stays whole."""
    if read_breadth(question) is not Breadth.ONE:
        return [question]
    return [part.strip() for part in _PARTS.split(question) if part.strip()]


def is_known(quotable: Quotable, fits: NDArray[np.bool_], answering: Sequence[int]) -> bool:
    """Whether the rows at the places ``answering`` may hold an answer.

    ``fits``: for each row whether it may answer. Not where none of those has enough of the question, nor where other
    speakers' rows have much more of it than those of the one it asks about, or only what is told of others has its
    most telling word: then it is theirs, and the question mistakes the person.
    """
    if quotable.is_of_others and not quotable.tells_state.any():
        return False
    own, named = quotable.known * fits, quotable.is_named > 0
    if float((own * (1 - quotable.of_others))[answering].max(initial=0.0)) < FLOOR:
        return False
    others = own[~named & ~(quotable.is_talk & (not quotable.hints.named))].max(initial=0.0)
    return not named.any() or float(others - own[named].max()) <= OTHERS


def _quote(row: Row, speak_as: str) -> str:
    text = fold(row.text)
    clipped = text if len(text) <= MAX_QUOTE_CHARS else clip_chars(text, MAX_QUOTE_CHARS - 1) + "…"
    if row.is_memory:
        note = row.past or ("" if row.is_current else NOT_CURRENT)
        return f"{clipped} ({', '.join(filter(None, [write_day(row.at), note]))})"
    who = "I" if row.speaker == speak_as else row.speaker
    return f"On {write_day(row.at)} {who} said: “{clipped}”{f' ({row.past})' if row.past else ''}"
