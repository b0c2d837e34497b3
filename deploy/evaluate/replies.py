"""Evaluates replies: answers questions by the responder, scores them by words and by judges."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from eunoe.deploy.datasets.loaded import EvalQuestion, LoadedConversation
from eunoe.deploy.evaluate.answering import PLAIN, Said, answer, replier_of, usage_of
from eunoe.deploy.evaluate.corpus import UNANSWERABLE, answerable
from eunoe.deploy.evaluate.fallbacks import Counts, counts_of, since, with_share
from eunoe.deploy.evaluate.indexed import IndexedConversation
from eunoe.deploy.evaluate.judges import Correct, Entailed, Graded, Remembering, judge, prefer
from eunoe.deploy.evaluate.report import BarChart
from eunoe.deploy.evaluate.textscores import bert_score, bleu, rouge_l, token_f1
from eunoe.deploy.progress import Advance
from eunoe.schemas.events import DEFAULT_AGENT
from eunoe.schemas.model_ports import LanguageModel
from eunoe.workers.models.questions.metering import Prices, Usage
from eunoe.workers.respond.context import write_day

AT_ONCE = 16
"""Questions asked concurrently."""
AROUND = 2
JUDGE_CHARS = 12_000
"""Characters of the history that a judge reads."""


@dataclass(frozen=True, slots=True)
class ReplyEvalOptions:
    """The kinds of memory to compare, the number of questions, and the judges."""

    ways: tuple[str, ...]
    budget: int = 1500
    """Tokens of memory in a prompt."""
    limit: int | None = None
    """Questions of each conversation; `None` means all that have an answer."""
    judge: LanguageModel | None = None
    bert: bool = False
    prices: Prices = field(default_factory=Prices)


@dataclass(frozen=True, slots=True)
class ReplyRow:
    """One kind of memory: means over questions, shares from 0 to 1; `None` where there was no judge."""

    memory: str
    questions: int
    token_f1: float
    rouge_l: float
    bleu: float
    bert_score: float | None
    correct: float | None
    grade: float | None
    """From 1 to 100."""
    preferred: float | None
    """Preference to plain retrieval, judged in both orders; 0.5 means none."""
    consistency: float | None
    """From 1 to 5."""
    memorability: float | None
    """From 1 to 5."""
    entailed: float | None
    contradicted: float | None
    first_cited: float
    """Share of the replies whose first citation is evidence."""
    abstained: float
    """Share of the replies that cite nothing."""
    abstained_unanswerable: float | None
    """The same for questions that the data has no answer to; `None` where none was asked."""
    context_tokens: float
    calls: float | None
    """Calls of the replying model per question; `None` where there is no model."""
    prompt_tokens: float | None
    completion_tokens: float | None
    dollars: float | None
    """Cost of a question by the given prices; `None` without prices."""


@dataclass(frozen=True, slots=True)
class Replied:
    """A question, its reply, and the utterances around its evidence."""

    question: EvalQuestion
    history: str
    reply: str
    context_tokens: int
    first: tuple[str, ...]
    """Ids of the utterances behind the first row that it cites."""


@dataclass(frozen=True, slots=True)
class Verdicts:
    """The judgements of one reply."""

    correct: Correct | None = None
    graded: Graded | None = None
    preferred: float | None = None
    remembering: Remembering | None = None
    entailed: Entailed | None = None


def asked_of(indexed: IndexedConversation, limit: int | None) -> list[EvalQuestion]:
    """The answerable questions that have an answer to compare with, at most ``limit``."""
    return [one for one in answerable(indexed.loaded) if one.answer][:limit]


def unanswerable_of(indexed: IndexedConversation, limit: int | None) -> list[EvalQuestion]:
    """The questions that nothing answers, at most ``limit``."""
    return [one for one in indexed.loaded.questions if one.category == UNANSWERABLE][:limit]


async def evaluate_replies(
    indexed_conversations: Sequence[IndexedConversation], plan: ReplyEvalOptions, advance: Advance = lambda: None
) -> list[ReplyRow]:
    """One row for each kind of memory; ``advance`` is called for each question and kind."""
    found: dict[str, list[Replied]] = {}
    spent: dict[str, Usage | None] = {}
    decided: dict[str, Counts] = {}
    unanswerable: dict[str, list[Replied]] = {}
    language = indexed_conversations[0].dependencies.language
    for way in plan.ways:
        before, items = usage_of(language), counts_of(language)
        found[way] = [
            one
            for indexed in indexed_conversations
            for one in await _replies(indexed, way, plan, asked_of(indexed, plan.limit), advance)
        ]
        spent[way] = None if language is None else _since(before, usage_of(language))
        decided[way] = since(items, counts_of(language))
        if language is None:  # a model would be paid for them
            unanswerable[way] = [
                one
                for indexed in indexed_conversations
                for one in await _replies(indexed, way, plan, unanswerable_of(indexed, plan.limit))
            ]
    plain = {id(one.question): one.reply for one in found.get(PLAIN, [])}
    rows = []
    for way, replied in found.items():
        verdicts = await _judged(replied, plain if way != PLAIN else {}, plan.judge)
        row = _row(way, replied, verdicts, spent[way], plan)
        silent = _mean([float(not one.first) for one in unanswerable.get(way, [])])
        rows.append(replace(row, memory=with_share(way, decided[way]), abstained_unanswerable=silent))
    return rows


async def _replies(
    indexed: IndexedConversation,
    way: str,
    plan: ReplyEvalOptions,
    questions: Sequence[EvalQuestion],
    advance: Advance = lambda: None,
) -> list[Replied]:
    replier, slots = replier_of(indexed), asyncio.Semaphore(AT_ONCE)

    async def one(question: EvalQuestion) -> Replied:
        async with slots:
            said = Said(question.question, question.speaker or "user", DEFAULT_AGENT)
            reply, context = await answer(indexed, replier, way, said, plan.budget)
        advance()
        first = reply.cited[0].cites if reply.cited else ()
        return Replied(question, related_history(indexed.loaded, question), reply.text, context.tokens, first)

    return list(await asyncio.gather(*map(one, questions)))


def related_history(loaded: LoadedConversation, question: EvalQuestion) -> str:
    """The evidence of a question with `AROUND` utterances before and after each, under their days."""
    utterances = loaded.utterances
    places = {one.utterance_id: place for place, one in enumerate(utterances)}
    near = {
        place
        for id_ in question.evidence
        for place in range(max(0, places[id_] - AROUND), min(len(utterances), places[id_] + AROUND + 1))
    }
    return "\n".join(
        f"{write_day(one.at)}, {one.speaker}: {one.text}" for one in (utterances[at] for at in sorted(near))
    )


async def _judged(replied: Sequence[Replied], plain: dict[int, str], model: LanguageModel | None) -> list[Verdicts]:
    if model is None:
        return []
    slots = asyncio.Semaphore(AT_ONCE)

    async def one(each: Replied) -> Verdicts:
        async with slots:
            return await _verdicts(model, each, plain.get(id(each.question)))

    return list(await asyncio.gather(*map(one, replied)))


async def _verdicts(model: LanguageModel, each: Replied, plain: str | None) -> Verdicts:
    question, right = each.question.question, each.question.answer or ""
    said = {"what_was_said": each.history[:JUDGE_CHARS], "question": question}
    asked = {**said, "right_answer": right}
    given, past = {**asked, "reply": each.reply}, {**said, "reply": each.reply}
    return Verdicts(
        correct=await judge(model, "judge-correct/2", Correct, **given),
        graded=await judge(model, "judge-grade/2", Graded, **given),
        preferred=None if plain is None else await prefer(model, asked, each.reply, plain),
        remembering=await judge(model, "judge-memory/2", Remembering, **past),
        entailed=await judge(model, "judge-entailment/2", Entailed, **past),
    )


def _since(before: Usage, after: Usage) -> Usage:
    return Usage(
        calls=after.calls + after.corrections - before.calls - before.corrections,
        prompt_tokens=after.prompt_tokens - before.prompt_tokens,
        completion_tokens=after.completion_tokens - before.completion_tokens,
    )


def _row(
    way: str, replied: Sequence[Replied], verdicts: Sequence[Verdicts], spent: Usage | None, plan: ReplyEvalOptions
) -> ReplyRow:
    said = [one.reply for one in replied]
    right = [one.question.answer or "" for one in replied]
    n = max(len(replied), 1)
    return ReplyRow(
        memory=way,
        questions=len(replied),
        token_f1=round(sum(map(token_f1, said, right)) / n, 3),
        rouge_l=round(rouge_l(said, right), 3),
        bleu=round(bleu(said, right), 2),
        bert_score=round(bert_score(said, right), 3) if plan.bert else None,
        correct=_mean([float(one.correct.correct) for one in verdicts if one.correct]),
        grade=_mean([float(one.graded.score) for one in verdicts if one.graded]),
        preferred=_mean([one.preferred for one in verdicts if one.preferred is not None]),
        consistency=_mean([float(one.remembering.consistency) for one in verdicts if one.remembering]),
        memorability=_mean([float(one.remembering.memorability) for one in verdicts if one.remembering]),
        entailed=_mean([float(one.entailed.verdict == "entails") for one in verdicts if one.entailed]),
        contradicted=_mean([float(one.entailed.verdict == "contradicts") for one in verdicts if one.entailed]),
        first_cited=round(sum(not set(one.first).isdisjoint(one.question.evidence) for one in replied) / n, 3),
        abstained=round(sum(not one.first for one in replied) / n, 3),
        abstained_unanswerable=None,
        context_tokens=round(sum(one.context_tokens for one in replied) / n, 1),
        calls=None if spent is None else round(spent.calls / n, 2),
        prompt_tokens=None if spent is None else round(spent.prompt_tokens / n, 1),
        completion_tokens=None if spent is None else round(spent.completion_tokens / n, 1),
        dollars=None if spent is None or plan.prices == Prices() else round(spent.cost(plan.prices) / n, 6),
    )


def _mean(values: Sequence[float]) -> float | None:
    return round(sum(values) / len(values), 3) if values else None


def reply_bars(rows: Sequence[ReplyRow]) -> BarChart:
    """Bars of the words shared with the right answer and of the judgements."""
    series: dict[str, list[float]] = {
        "token F1": [row.token_f1 for row in rows],
        "ROUGE-L": [row.rouge_l for row in rows],
    }
    if any(row.correct is not None for row in rows):
        series["correct (judge)"] = [row.correct or 0.0 for row in rows]
    return BarChart("Replies", "share", tuple(row.memory for row in rows), series)
