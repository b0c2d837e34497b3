"""Contexts for questions in the open session, by stage blend and strategy insight (CREEM, section 3)."""

from datetime import datetime, timedelta

from eunoe.deploy.datasets.loaded import EvalQuestion
from eunoe.deploy.evaluate.indexed import IndexedConversation
from eunoe.schemas.decisions import Decision, Work
from eunoe.schemas.events import Ask, Insight, Line, ReplyContext, ReplyRequested, Strategy
from eunoe.workers.registry import STAGES
from eunoe.workers.respond.context import Context
from eunoe.workers.respond.recall.sources import Query
from eunoe.workers.update.reads import findable_session


async def infused(indexed: IndexedConversation, question: EvalQuestion, budget: int) -> Context:
    """The context with the insights of the open session, those of the question included."""
    asked = await _asked(indexed, question)
    return await _shown(indexed, asked, budget, await _insights(indexed, asked))


async def uninfused(indexed: IndexedConversation, question: EvalQuestion, budget: int) -> Context:
    """The context without insights of the open session."""
    return await _shown(indexed, await _asked(indexed, question), budget, ())


async def _asked(indexed: IndexedConversation, question: EvalQuestion) -> ReplyRequested:
    """The question as intake publishes it: in the session after the last one that the memory holds."""
    utterances = indexed.loaded.utterances
    last = utterances[-1]
    dialogue = [one for one in utterances if one.session_id == last.session_id]
    return ReplyRequested(
        tenant=last.tenant,
        conversation_id=last.conversation_id,
        session=await findable_session(indexed.dependencies.store, indexed.key) + 1,
        turn=len(utterances) + 1,
        request=Ask(request_id="question", strategy=Strategy.INSIGHT, record=False),
        question=_line("question", question.speaker or "user", question.question, last.at + timedelta(minutes=1)),
        dialogue=tuple(_line(one.utterance_id, one.speaker, one.text, one.at) for one in dialogue),
    )


def _line(utterance_id: str, speaker: str, text: str, at: datetime) -> Line:
    return Line(utterance_id=utterance_id, speaker=speaker, text=text, at=at)


async def _insights(indexed: IndexedConversation, asked: ReplyRequested) -> tuple[Insight, ...]:
    """The insights of stage blend for the reply; its proposal is not stored, so that questions stay independent."""
    stage = indexed.how.instead.get("blend", STAGES["blend"].build)(indexed.dependencies)
    work = Work(indexed.key, (asked,), asked.session, asked.question.at)
    decision = await stage.decide(work)
    if not isinstance(decision, Decision):
        raise TypeError(f"memory of the sessions before is there, yet blend says {decision}")
    return next(event.insights for event in decision.events if isinstance(event, ReplyContext))


async def _shown(
    indexed: IndexedConversation, asked: ReplyRequested, budget: int, insights: tuple[Insight, ...]
) -> Context:
    query = Query(
        key=indexed.key,
        text=asked.question.text,
        speakers=indexed.speakers,
        budget_tokens=budget,
        asker=asked.question.speaker,
        session=asked.session,
        insights=insights,
    )
    return await indexed.sources[Strategy.INSIGHT].recall(query)
