"""Estimates the model calls of a rebuild from a sample derived in this process; writes nothing."""

import os
import random
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from eunoe.deploy.clients.data_keys import open_data_keys
from eunoe.deploy.clients.erasures import read_erased
from eunoe.deploy.clients.live_settings import of_generation
from eunoe.deploy.clients.models import (
    check_endpoint_of_stack,
    model_settings,
    open_compressor,
    open_embedder,
    uses_endpoint,
)
from eunoe.deploy.generations.rebuild.answers import AnswersFile
from eunoe.deploy.generations.rebuild.counting import CountingEmbedder, CountingModel, ModelCallCounts
from eunoe.deploy.generations.rebuild.keeping import telling_file_faults
from eunoe.deploy.generations.rebuild.named import check_named
from eunoe.deploy.generations.rebuild.plan import RebuildPlan
from eunoe.deploy.generations.rebuild.reading import read_log
from eunoe.deploy.generations.rebuild.spool import Spool, Spooled
from eunoe.deploy.progress import ReportProgress
from eunoe.deploy.settings import Settings
from eunoe.deploy.settings.embedders import asks_endpoint
from eunoe.schemas.erasure import ErasedPart
from eunoe.schemas.model_ports import Embedder
from eunoe.streams.sealed.log import restored
from eunoe.workers.derive.dependents import made_again
from eunoe.workers.derive.pipeline import Deriver
from eunoe.workers.models.local.embedding import WordLlamaEmbedder
from eunoe.workers.models.questions.metering import Usage
from eunoe.workers.runner.recorded_outcomes import RecordedOutcomes
from eunoe.workers.stage import Dependencies
from eunoe.workers.stores.state.memory_store import MemoryStore
from eunoe.workers.stores.vectors.memory_index import MemoryIndex

SAMPLE: Final = 50
"""Maximum number of conversations to derive."""
_SEED: Final = 7


@dataclass(frozen=True, slots=True)
class Estimate:
    """The counts of a rebuild of the whole log; those of the sample are scaled by events."""

    conversations: int
    events: int
    sampled: int
    """Conversations of the sample."""
    sampled_events: int
    sessions: int
    recorded: int
    """Questions answered by recorded answers, at no cost."""
    calls: int
    prompt_tokens: int
    completion_tokens: int
    guessed: tuple[str, ...] = ()
    """Names of prompts without a recorded answer; the length of their answers is assumed."""
    embedded: int | None = None
    """Texts for the embedding endpoint; `None` where the embedder is local."""
    cost: float | None = None
    """Dollars; `None` where no price is set."""

    @property
    def is_exact(self) -> bool:
        """Whether the sample is all conversations."""
        return self.sampled == self.conversations


async def estimate(settings: Settings, plan: RebuildPlan, report: ReportProgress) -> Estimate:
    """Derive at most `SAMPLE` conversations, always the same ones, and scale the counts of their model calls.

    Calls no endpoint and writes nothing. The reported phases are ``log``, ``answers`` and ``sample``. Raises `Refused`
    where there is no log, or it does not hold a conversation of the plan, `Unavailable` when a server is down.
    """
    target = of_generation(settings, plan.into, plan.changes)
    await check_named(target, plan)
    with tempfile.TemporaryDirectory(prefix="eunoe-estimate-") as directory, telling_file_faults(Path(directory)):
        spool = Spool(Path(directory) / "spool.sqlite")
        try:
            erased = await read_erased(settings)
            await read_log(target, plan, spool, lambda done: report("log", done, 0), erased)
            async with open_counted(target, plan, Path(directory) / "answers.sqlite") as counted:
                await counted.answers.read(target, lambda done: report("answers", done, 0))
                return await _derive(target, plan, spool, counted, report, erased)
        finally:
            spool.close()


@dataclass(frozen=True, slots=True)
class Counted:
    """Dependencies that count model calls instead of making them."""

    dependencies: Dependencies
    answers: AnswersFile
    language: CountingModel | None
    embedder: CountingEmbedder | None


def choose(conversations: list[Spooled], limit: int = SAMPLE) -> list[Spooled]:
    """At most ``limit`` of the conversations; equal conversations give an equal choice."""
    ordered = sorted(conversations, key=lambda one: one.key)
    return ordered if len(ordered) <= limit else random.Random(_SEED).sample(ordered, limit)  # noqa: S311


async def _derive(
    settings: Settings,
    plan: RebuildPlan,
    spool: Spool,
    counted: Counted,
    report: ReportProgress,
    erased: Mapping[str, ErasedPart],
) -> Estimate:
    there = list(spool.conversations())
    chosen = choose(there)
    outcomes = RecordedOutcomes(None if plan.ask_again else counted.answers)
    deriver = Deriver(counted.dependencies, settings.runner, outcomes, plan.stages)
    sessions, epoch = 0, settings.log_epoch
    async with open_data_keys(settings) as data_keys:
        for done, one in enumerate(chosen):
            report("sample", done, len(chosen))
            key = one.key.decode()
            records = await restored(spool.records(one.key), data_keys, epoch)
            derived = await deriver.derive(key, records, epoch, erased=erased.get(key))
            sessions += derived.sessions
    report("sample", len(chosen), len(chosen))
    return scaled(settings, there, chosen, sessions, counted)


def scaled(
    settings: Settings, there: list[Spooled], chosen: list[Spooled], sessions: int, counted: Counted
) -> Estimate:
    """The counts of the sample ``chosen``, scaled by events to all conversations ``there``."""
    events, sampled_events = (sum(one.events for one in group) for group in (there, chosen))
    factor = events / sampled_events if sampled_events else 0.0
    counts = None if counted.language is None else counted.language.counts
    calls, prompt, completion, recorded = (
        (0, 0.0, 0.0, 0)
        if counts is None
        else (counts.calls, counts.prompt_tokens, counts.completion_tokens, counts.recorded)
    )
    usage = Usage(
        calls=round(calls * factor),
        prompt_tokens=round(prompt * factor),
        completion_tokens=round(completion * factor),
    )
    return Estimate(
        conversations=len(there),
        events=events,
        sampled=len(chosen),
        sampled_events=sampled_events,
        sessions=round(sessions * factor),
        recorded=round(recorded * factor),
        calls=usage.calls,
        prompt_tokens=usage.prompt_tokens,
        completion_tokens=usage.completion_tokens,
        guessed=() if counts is None else tuple(counts.guessed),
        embedded=None if counted.embedder is None else round(counted.embedder.texts * factor),
        cost=usage.cost(settings.prices) if settings.prices.known else None,
    )


def _counting_model(
    settings: Settings, plan: RebuildPlan, answers: AnswersFile, counts: ModelCallCounts
) -> CountingModel:
    def counting(stage: str | None, others: Mapping[str, CountingModel]) -> CountingModel:
        one = model_settings(settings, os.environ, stage)
        return CountingModel(
            one.endpoint.model,
            answers,
            one.parameters,
            ask_again=plan.ask_again,
            asks_refused=plan.ask_refused,
            counts=counts,
            others=others,
        )

    return counting(None, {stage: counting(stage, {}) for stage in settings.models})


@asynccontextmanager
async def open_counted(settings: Settings, plan: RebuildPlan, path: Path) -> AsyncIterator[Counted]:
    """Dependencies that count the model calls of a plan; ``path`` is that of a file for recorded answers.

    Raises `Refused` as `check_endpoint_of_stack`.
    """
    check_endpoint_of_stack(settings, os.environ)
    async with AsyncExitStack() as closing:
        answers = AnswersFile(path)
        closing.callback(answers.close)
        language, again = None, made_again(plan.from_stage) if plan.from_stage else None
        if uses_endpoint(settings, os.environ):
            language = _counting_model(settings, plan, answers, ModelCallCounts(again))
        counting = None
        embedder: Embedder
        if asks_endpoint(settings.embedding):
            local = WordLlamaEmbedder()
            closing.push_async_callback(local.aclose)
            embedder = counting = CountingEmbedder(local)
        else:
            embedder = await open_embedder(settings, os.environ, closing)
        dependencies = Dependencies(
            store=MemoryStore(),
            index=MemoryIndex(),
            embedder=embedder,
            compressor=await open_compressor(settings, closing),
            language=language,
            settings=settings.stages,
        )
        yield Counted(dependencies, answers, language, counting)
