"""The replier that needs no language model: it quotes the lines that match best."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from eunoe.schemas.events import Provenance
from eunoe.schemas.ports import Embedder
from eunoe.workers.respond.context import Row, fold, write_day
from eunoe.workers.respond.hints import QuestionHints, read_question
from eunoe.workers.respond.replier import CODE, DraftReply, ReplyTask
from eunoe.workers.text.names import without_names
from eunoe.workers.text.terms import terms

NOTHING = "I do not remember anything about that."
FLOOR = 0.35
"""Minimum score of a line that is quoted."""
ALSO = 0.85
"""Minimum share of the best score for a second line."""
ALIKE = 0.7
"""Minimum share of the best score for lines that may be about the same thing at different times."""
MAX_QUOTE_CHARS = 400


@dataclass(frozen=True, slots=True)
class OfflineReplier:
    """Replies with quotations; deterministic."""

    embedder: Embedder

    async def reply(self, task: ReplyTask) -> DraftReply:
        """Quotations with speaker and day, or a statement that nothing is remembered. Raises `Unavailable`."""
        rows = [row for row in task.rows.values() if row.reply_id is None]
        made_by = Provenance(code=CODE, model=f"quotation + {self.embedder.name}")
        if not rows:
            return DraftReply(NOTHING, (), made_by)
        scores = await self._scores(task, rows)
        hints = read_question(task.question.text, task.speakers, task.question.speaker)
        chosen = choose_lines(rows, scores, hints)
        if not chosen:
            return DraftReply(NOTHING, (), made_by)
        cited = tuple(rows[index] for index in sorted(chosen))
        return DraftReply(" ".join(_quote(row, task.speak_as) for row in cited), cited, made_by)

    async def _scores(self, task: ReplyTask, rows: Sequence[Row]) -> list[float]:
        question = without_names(task.question.text, task.speakers)
        vectors = await self.embedder.embed([question, *(row.text for row in rows)])
        cosines = vectors[1:] @ vectors[0]
        wanted = set(terms(task.question.text, drop=task.speakers))
        shared = [_overlap(wanted, set(terms(row.text, drop=task.speakers))) for row in rows]
        asked_of = [_speaks(row, task) for row in rows]
        own = np.asarray(cosines) + np.asarray(shared) + 0.15 * np.asarray(asked_of)
        return with_answers(rows, [float(score) for score in own])


def _overlap(wanted: set[str], words: set[str]) -> float:
    return len(wanted & words) / len(wanted) if wanted else 0.0


def _speaks(row: Row, task: ReplyTask) -> float:
    """1 if the question names the row's speaker, or is in the first person and the row is the asker's; else 0."""
    said = f" {task.question.text.casefold()} "
    named = row.speaker.casefold() in said
    own = row.speaker == task.question.speaker and any(word in said for word in (" i ", " my ", " me "))
    return float(named or own)


def with_answers(rows: Sequence[Row], scores: Sequence[float]) -> list[float]:
    """Scores in which a question counts half and passes 0.3 of its score to the next speaker's row."""
    handed = [score * (0.5 if _asks(row) else 1.0) for row, score in zip(rows, scores, strict=True)]
    for index in range(1, len(rows)):
        before = rows[index - 1]
        if _asks(before) and before.speaker != rows[index].speaker:
            handed[index] += 0.3 * scores[index - 1]
    return handed


def _asks(row: Row) -> bool:
    return row.text.rstrip().endswith("?")


def best_lines(scores: Sequence[float]) -> list[int]:
    """The indices of the best line and of a second one nearly as good; empty below the floor."""
    ranked = sorted(range(len(scores)), key=lambda index: (-round(scores[index], 6), index))
    best = ranked[0]
    if scores[best] < FLOOR:
        return []
    return [best, *(index for index in ranked[1:2] if scores[index] >= ALSO * scores[best])]


def choose_lines(rows: Sequence[Row], scores: Sequence[float], hints: QuestionHints) -> list[int]:
    """The indices of the lines to quote.

    A question about the present selects the latest line; one about the past the oldest beside the best and the latest.
    """
    best = best_lines(scores)
    if not best or not (hints.present or hints.past):
        return best
    alike = [index for index, score in enumerate(scores) if score >= max(FLOOR, ALIKE * scores[best[0]])]
    alike.sort(key=lambda index: (rows[index].at, rows[index].number))
    if hints.present:
        return [index for index in alike if rows[index].is_current][-1:]
    gone = [index for index in alike if not rows[index].is_current]
    return sorted({(gone or alike)[0], best[0], alike[-1]})


def _quote(row: Row, speak_as: str) -> str:
    text = fold(row.text)
    clipped = text if len(text) <= MAX_QUOTE_CHARS else text[: MAX_QUOTE_CHARS - 1] + "…"
    if row.is_memory:
        return f"{clipped} ({write_day(row.at)})"
    who = "I" if row.speaker == speak_as else row.speaker
    return f"On {write_day(row.at)} {who} said: “{clipped}”"
