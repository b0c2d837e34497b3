"""Questions answered by the responder, with the memory of a strategy or with that of something simpler."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

from eunoe.deploy.evaluate.baselines import Passage
from eunoe.deploy.evaluate.library import IndexedConversation
from eunoe.schemas.events import Line, Source, Strategy
from eunoe.schemas.ports import LanguageModel
from eunoe.workers.models.metering import Usage
from eunoe.workers.models.openai import OpenAIModel
from eunoe.workers.models.recording import RecordedModel
from eunoe.workers.respond.context import Context, Row, latest, line_row, make_context, write_day, write_row
from eunoe.workers.respond.model import ModelReplier
from eunoe.workers.respond.offline import OfflineReplier
from eunoe.workers.respond.replier import DraftReply, Replier, ReplyTask
from eunoe.workers.respond.settings import RespondSettings
from eunoe.workers.text.tokens import count_tokens

NOTHING, EVERYTHING, PLAIN = "no-memory", "full-context", "plain-retrieval"
SIMPLE = (NOTHING, EVERYTHING, PLAIN)
"""Memories to compare with: none, the whole conversation, and single turns by BM25 and cosine."""
PLAIN_RETRIEVER = "turns-rrf"
WAYS = (*(strategy.value for strategy in Strategy), *SIMPLE)


@dataclass(frozen=True, slots=True)
class Said:
    """A question with its place: who asks, who answers, and what was said just before."""

    text: str
    asker: str
    answers: str
    dialogue: tuple[Line, ...] = ()


def replier_of(library: IndexedConversation) -> Replier:
    """The stage's own: the model's where there is one; what was answered before is asked again, for it costs again."""
    offline = OfflineReplier(library.dependencies.embedder)
    language = unrecorded(library.dependencies.language)
    return (
        offline
        if language is None
        else ModelReplier(language, offline, library.dependencies.settings.of(RespondSettings).refine)
    )


async def answer(
    library: IndexedConversation, replier: Replier, way: str, said: Said, budget: int
) -> tuple[DraftReply, Context]:
    """The reply and the memory that it was given."""
    context = await context_of(library, way, said.text, budget)
    last = library.loaded.utterances[-1].at + timedelta(days=1)
    question = Line(utterance_id="question", speaker=said.asker, text=said.text, at=last)
    dialogue = latest(
        said.dialogue, library.dependencies.settings.of(RespondSettings).dialogue_tokens, len(context.rows) + 1
    )
    speakers = tuple(dict.fromkeys((*library.speakers, said.asker)))
    return await replier.reply(ReplyTask(said.answers, question, dialogue, context, speakers)), context


async def context_of(library: IndexedConversation, way: str, question: str, budget: int) -> Context:
    """Memory by a strategy, or by one of `SIMPLE`; only ``full-context`` knows no budget."""
    if way == NOTHING:
        return Context()
    if way == EVERYTHING:
        return lay_out([Passage.of([one]) for one in library.loaded.utterances])
    if way == PLAIN:
        return lay_out(fitting(await library.baselines.rank(PLAIN_RETRIEVER, question), budget))
    return await library.context(Strategy(way), question, budget)


def fitting(ranked: Sequence[Passage], budget: int) -> list[Passage]:
    """The best pieces that fit, whole, best first."""
    chosen: list[Passage] = []
    left = budget
    for piece in ranked:
        cost = piece.tokens + len(piece.utterances) + count_tokens(piece.day)
        if cost <= left:
            chosen.append(piece)
            left -= cost
    return chosen


def lay_out(pieces: Sequence[Passage]) -> Context:
    """Pieces as the responder would show them, in time order; sources carry their rank as a score."""
    printed: list[str] = []
    rows: list[Row] = []
    day = ""
    for one in sorted((one for piece in pieces for one in piece.utterances), key=lambda one: one.at):
        line = Line(utterance_id=one.utterance_id, speaker=one.speaker, text=one.text, at=one.at)
        if (today := write_day(line.at)) != day:
            printed.append(today)
            day = today
        rows.append(line_row(len(rows) + 1, line))
        printed.append(write_row(rows[-1]))
    return make_context(printed, [_source(piece, place) for place, piece in enumerate(pieces)], rows)


def _source(piece: Passage, place: int) -> Source:
    first = piece.utterances[0]
    return Source(
        kind=Strategy.SEGMENT,
        id=first.utterance_id,
        session=1,
        at=first.at,
        utterance_ids=tuple(one.utterance_id for one in piece.utterances),
        score=1 / (place + 1),
    )


def usage_of(language: LanguageModel | None) -> Usage:
    """What an endpoint was asked so far; nothing where there is none."""
    model = unrecorded(language)
    return replace(model.usage) if isinstance(model, OpenAIModel) else Usage()


def unrecorded(language: LanguageModel | None) -> LanguageModel | None:
    """The model itself, without the memory of what it answered."""
    return language.model if isinstance(language, RecordedModel) else language
