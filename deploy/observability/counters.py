"""Counters of a worker process as one document, and the file that benchmarks read."""

import asyncio
import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from eunoe.deploy.observability.rounds import Faults, repeat
from eunoe.schemas.model_ports import LanguageModel
from eunoe.streams.cancelling import cancelled
from eunoe.workers.models.endpoint.dialect import Formatting
from eunoe.workers.models.endpoint.embedding_endpoint import EndpointEmbedder
from eunoe.workers.models.endpoint.language_model import OpenAIModel
from eunoe.workers.models.endpoint.profile import Profile
from eunoe.workers.models.questions.metering import ItemCounts, StageCalls
from eunoe.workers.models.questions.recording import RecordedModel
from eunoe.workers.runner.metrics import LoopMeter, StageMeter
from eunoe.workers.stage import Dependencies
from eunoe.workers.stores.cold.conversations import ColdMeter

if TYPE_CHECKING:  # commands that read counters do without Faust, which takes a tenth of a second to import
    from eunoe.streams.group.stage_consumer import StageConsumer

EVERY_S = 1.0


@dataclass(slots=True)
class WorkerMeter:
    """All counters of one worker process."""

    language: LanguageModel | None = None
    loop: LoopMeter = field(default_factory=LoopMeter)
    stages: dict[str, StageMeter] = field(default_factory=dict)
    consumers: "dict[str, StageConsumer]" = field(default_factory=dict)
    cold: ColdMeter = field(default_factory=ColdMeter)

    def __post_init__(self) -> None:
        self.loop.is_idle = self._is_idle

    def _is_idle(self) -> bool:
        return not any(one.dispatcher.in_work or one.dispatcher.queued for one in self.consumers.values())

    def stage(self, name: str) -> StageMeter:
        """The counters of a stage, created at the first call."""
        return self.stages.setdefault(name, StageMeter())

    def document(self) -> dict[str, Any]:
        """``at`` (seconds since the epoch), ``pid``, ``stages``, ``loop``, ``models``, ``items``."""
        return {
            "at": time.time(),
            "pid": os.getpid(),
            "stages": {name: self._stage_document(name) for name in self.stages},
            "loop": self.loop.document(),
            "models": model_document(self.language),
            "items": item_document(self.language),
        }

    def _stage_document(self, name: str) -> dict[str, float]:
        counters = self.stages[name].document()
        if name in self.consumers:
            counters["waiting_s"] += self.consumers[name].dispatcher.waited_s
        return counters


def model_document(language: LanguageModel | None) -> dict[str, float]:
    """Counters of the language model: usage and calls in flight; empty without a model."""
    model = language.model if isinstance(language, RecordedModel) else language
    if not isinstance(model, OpenAIModel):
        return {}
    return {**asdict(model.usage), "in_flight_peak": model.peak_in_flight, "in_flight_s": model.in_flight_s}


def endpoint_models(language: LanguageModel | None) -> list[OpenAIModel]:
    """The models at endpoints: the general one first, then those of single stages; empty without a model."""
    models = language.all if isinstance(language, RecordedModel) else (language,)
    return [model for model in models if isinstance(model, OpenAIModel)]


def model_servers(dependencies: Dependencies) -> list[str]:
    """The endpoints of language models and embedder, as waits for them name them; empty where none is asked."""
    embedder = dependencies.embedder
    embedding = [embedder.server] if isinstance(embedder, EndpointEmbedder) else []
    return [*(model.server for model in endpoint_models(dependencies.language)), *embedding]


def item_document(language: LanguageModel | None) -> dict[str, dict[str, int]]:
    """Stage → outcome → items decided since the start; zeros without a model."""
    models = endpoint_models(language)
    return models[0].items.document() if models else ItemCounts().document()


def stage_calls(language: LanguageModel | None) -> StageCalls:
    """Durations and tokens of the questions, by stage; zeros without a model."""
    models = endpoint_models(language)
    return models[0].stages if models else StageCalls()


def profile_document(language: LanguageModel | None) -> dict[str, dict[str, float]]:
    """Model → what is known of its endpoint: ``cap``, ``context``, ``thinking``, ``schema`` (1: it takes one)."""
    return {model.name: _profile(model.profile.now) for model in endpoint_models(language)}


def _profile(profile: Profile) -> dict[str, float]:
    known = {"cap": profile.cap, "context": profile.context, "thinking": profile.thinking_tokens or None}
    schema = float(profile.dialect.formatting in (Formatting.BOUNDED, Formatting.PLAIN))
    ratios = {f"tokens_{script}": ratio for script, ratio in profile.ratios.items()}
    return {**{name: float(value) for name, value in known.items() if value is not None}, "schema": schema, **ratios}


@asynccontextmanager
async def metered(meter: WorkerMeter, path: Path | None) -> AsyncIterator[None]:
    """Sample the event loop during the body; write the document to ``path``, if given, each second and at the end."""
    tasks = [asyncio.create_task(meter.loop.run())]
    if path is not None:
        write_document(path, meter)
        tasks.append(asyncio.create_task(_write_repeatedly(path, meter)))
    try:
        yield
    finally:
        await cancelled(*tasks)
        if path is not None:
            write_document(path, meter)


async def _write_repeatedly(path: Path, meter: WorkerMeter) -> None:
    async def write() -> None:
        write_document(path, meter)

    await repeat(write, EVERY_S, Faults("the document of counters"))


def write_document(path: Path, meter: WorkerMeter) -> None:
    """Write the document atomically: a reader never sees half of it."""
    draft = path.with_name(f"{path.name}.draft")
    draft.write_bytes(orjson.dumps(meter.document()))
    draft.replace(path)
