"""Answers questions by the responder, with the memory of a strategy or of a simple baseline."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

from eunoe.deploy.evaluate.baselines import Passage
from eunoe.deploy.evaluate.indexed import IndexedConversation
from eunoe.schemas.events import Line, Strategy
from eunoe.schemas.model_ports import LanguageModel
from eunoe.schemas.replies import Source
from eunoe.workers.models.endpoint.language_model import OpenAIModel
from eunoe.workers.models.questions.metering import Usage
from eunoe.workers.models.questions.recording import RecordedModel
from eunoe.workers.respond import build
from eunoe.workers.respond.context import Context, Row, latest, line_row, make_context, write_day, write_row
from eunoe.workers.respond.replier import DraftReply, Replier, ReplyTask
from eunoe.workers.respond.settings import RespondSettings
from eunoe.workers.text.tokens import count_tokens

NOTHING, EVERYTHING, PLAIN = "no-memory", "full-context", "plain-retrieval"
SIMPLE = (NOTHING, EVERYTHING, PLAIN)
"""Baselines of memory: none, the whole conversation, and single turns by BM25 and cosine."""
PLAIN_RETRIEVER = "turns-rrf"
WAYS = (*(strategy.value for strategy in Strategy), *SIMPLE)


@dataclass(frozen=True, slots=True)
class Said:
    """A question with the names of asker and responder, and the dialogue before it."""

    text: str
    asker: str
    answers: str
    dialogue: tuple[Line, ...] = ()


def replier_of(indexed: IndexedConversation) -> Replier:
    """The stage's own: the model's where there is one; what was answered before is asked again, for it costs again."""
    dependencies = indexed.dependencies
    return build.replier_of(replace(dependencies, language=unrecorded(dependencies.language)))


async def answer(
    indexed: IndexedConversation, replier: Replier, way: str, said: Said, budget: int
) -> tuple[DraftReply, Context]:
    """The reply to a question, and the memory in its prompt."""
    context = await context_of(indexed, way, said.text, budget, said.asker)
    last = indexed.loaded.utterances[-1].at + timedelta(days=1)
    question = Line(utterance_id="question", speaker=said.asker, text=said.text, at=last)
    tokens = indexed.dependencies.settings.of(RespondSettings).dialogue_tokens
    dialogue = latest(said.dialogue, tokens, len(context.rows) + 1, said.text)
    speakers = tuple(dict.fromkeys((*indexed.speakers, said.asker)))
    return await replier.reply(ReplyTask(said.answers, question, dialogue, context, speakers)), context


async def context_of(indexed: IndexedConversation, way: str, question: str, budget: int, asker: str = "") -> Context:
    """The memory for a question by a strategy or one of `SIMPLE`; ``full-context`` ignores the budget (tokens).

    ``asker``: the speaker who asks; empty where the data does not say.
    """
    if way == NOTHING:
        return Context()
    if way == EVERYTHING:
        return lay_out([Passage.of([one]) for one in indexed.loaded.utterances])
    if way == PLAIN:
        return lay_out(fitting(await indexed.baselines.rank(PLAIN_RETRIEVER, question), budget))
    return await indexed.context(Strategy(way), question, budget, asker)


def fitting(ranked: Sequence[Passage], budget: int) -> list[Passage]:
    """The best passages that fit the budget (tokens) as a whole, best first."""
    chosen: list[Passage] = []
    left = budget
    for passage in ranked:
        cost = passage.tokens + len(passage.utterances) + count_tokens(passage.day)
        if cost <= left:
            chosen.append(passage)
            left -= cost
    return chosen


def lay_out(passages: Sequence[Passage]) -> Context:
    """Passages as the responder shows them, in time order; the score of a source is 1 / rank."""
    printed: list[str] = []
    rows: list[Row] = []
    day = ""
    for one in sorted((one for passage in passages for one in passage.utterances), key=lambda one: one.at):
        line = Line(utterance_id=one.utterance_id, speaker=one.speaker, text=one.text, at=one.at)
        if (today := write_day(line.at)) != day:
            printed.append(today)
            day = today
        rows.append(line_row(len(rows) + 1, line))
        printed.append(write_row(rows[-1]))
    return make_context(printed, [_source(passage, place) for place, passage in enumerate(passages)], rows)


def _source(passage: Passage, place: int) -> Source:
    first = passage.utterances[0]
    return Source(
        kind=Strategy.SEGMENT,
        id=first.utterance_id,
        session=1,
        at=first.at,
        utterance_ids=tuple(one.utterance_id for one in passage.utterances),
        score=1 / (place + 1),
    )


def usage_of(language: LanguageModel | None) -> Usage:
    """The usage of an endpoint so far; zeros where there is no endpoint."""
    model = unrecorded(language)
    return replace(model.usage) if isinstance(model, OpenAIModel) else Usage()


def unrecorded(language: LanguageModel | None) -> LanguageModel | None:
    """The model without the recording of its answers."""
    return language.model if isinstance(language, RecordedModel) else language
