"""Runs the cases through the stages' deciders, with models and offline."""

import asyncio
import os
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace

from eunoe.deploy.clients.models import model_settings, open_embedder, open_shared
from eunoe.deploy.evaluate.fallbacks import Counts
from eunoe.deploy.evaluate.prompts.cases import PromptCase
from eunoe.deploy.evaluate.prompts.deciding import CaseDecision, decide
from eunoe.deploy.evaluate.prompts.kept import AnswerFile, CaseCost, KeptModel
from eunoe.deploy.evaluate.report import OFFLINE
from eunoe.deploy.progress import Advance
from eunoe.deploy.settings import Settings
from eunoe.schemas.model_ports import Embedder
from eunoe.workers.models.endpoint.language_model import OpenAIModel, SharedClient
from eunoe.workers.models.endpoint.profile_keeper import ProfileKeeper
from eunoe.workers.models.local.compression import OfflineCompressor
from eunoe.workers.models.questions.asking import side_by_side
from eunoe.workers.models.questions.metering import stage_of
from eunoe.workers.stage import Dependencies
from eunoe.workers.stores.state.memory_store import MemoryStore
from eunoe.workers.stores.vectors.memory_index import MemoryIndex

AT_ONCE = 16
"""Cases decided concurrently."""


@dataclass(frozen=True, slots=True)
class CaseResult:
    """The decision on a case by one model, and its cost."""

    case: PromptCase
    model: str
    """Name of the model, or `OFFLINE`."""
    decision: CaseDecision
    cost: CaseCost
    items: Counts
    """The items by stage and outcome; empty where no model was asked."""

    @property
    def passed(self) -> bool:
        """Whether nothing differs from gold."""
        return not self.decision.faults


async def run_cases(
    cases: Sequence[PromptCase], settings: Settings, models: Sequence[str], answers: AnswerFile, advance: Advance
) -> list[CaseResult]:
    """Decide all cases by each model and offline; ``advance`` is called for each.

    Raises `Refused` for a case that is not formed and for an endpoint that refuses key or model, `Unavailable`.
    """
    async with AsyncExitStack() as closing:
        embedder = await open_embedder(settings, os.environ, closing)
        results: list[CaseResult] = []
        for model in (*models, None):
            asked = None if model is None else AskedModel.open(model, answers, settings, closing)
            slots = asyncio.Semaphore(AT_ONCE)
            calls = [_decided(case, settings, embedder, asked, slots, advance) for case in cases]
            results += await side_by_side(calls)
    return results


@dataclass(frozen=True, slots=True)
class AskedModel:
    """A model by name, its kept answers, and what all cases share: connections, limit and what is learned of it."""

    name: str
    answers: AnswerFile
    settings: Settings
    shared: SharedClient
    profile: ProfileKeeper = field(default_factory=ProfileKeeper)

    @classmethod
    def open(cls, name: str, answers: AnswerFile, settings: Settings, closing: AsyncExitStack) -> "AskedModel":
        """Open the connections; raises `Refused` where a key is missing."""
        shared = open_shared(settings, os.environ)
        closing.push_async_callback(shared.aclose)
        return cls(name, answers, settings, shared)

    def of_case(self, stage: str) -> KeptModel:
        """The model with the settings of a stage, for one case: its tokens are counted apart."""
        options = model_settings(self.settings, os.environ, stage)
        named = replace(options, endpoint=replace(options.endpoint, model=self.name))
        return KeptModel(OpenAIModel(named, self.profile, self.shared.counted_apart()), self.answers)


async def _decided(
    case: PromptCase,
    settings: Settings,
    embedder: Embedder,
    asked: AskedModel | None,
    slots: asyncio.Semaphore,
    advance: Advance,
) -> CaseResult:
    """Decide one case; offline where no model is asked."""
    async with slots:
        language = None if asked is None else asked.of_case(stage_of(case.stage))
        decision = await decide(case, _dependencies(settings, embedder, language))
        advance()
    if asked is None or language is None:
        return CaseResult(case, OFFLINE, decision, CaseCost(), {})
    return CaseResult(case, asked.name, decision, language.cost, language.items.document())


def _dependencies(settings: Settings, embedder: Embedder, language: KeptModel | None) -> Dependencies:
    return Dependencies(
        store=MemoryStore(),
        index=MemoryIndex(),
        embedder=embedder,
        compressor=OfflineCompressor(),
        language=language,
        settings=settings.stages,
    )


def dollars_of(results: Sequence[CaseResult], settings: Settings) -> float | None:
    """The price of all questions, as if none had been kept; `None` without prices."""
    if not settings.prices.known:
        return None
    prices = settings.prices
    spent = sum(
        one.cost.prompt_tokens * prices.prompt + one.cost.completion_tokens * prices.completion for one in results
    )
    return round(spent / 1e6, 6)


def by(results: Sequence[CaseResult], field: str) -> Mapping[tuple[str, str], list[CaseResult]]:
    """(model, value of the case's field) → results, in their order."""
    groups: dict[tuple[str, str], list[CaseResult]] = {}
    for one in results:
        groups.setdefault((one.model, str(getattr(one.case, field))), []).append(one)
    return groups


def priced(settings: Settings, dollars_in: float, dollars_out: float) -> Settings:
    """The settings with these prices, where they are given."""
    given = {"model_prompt_price": dollars_in, "model_completion_price": dollars_out}
    return settings.model_copy(update={name: value for name, value in given.items() if value})
