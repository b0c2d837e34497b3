"""Every behaviour of an endpoint against every stage: what decided, how long it took, and the same memory on replay.

``python -m tests.support.model_faults`` writes the table to ``reports/model-faults.md``.
"""

import asyncio
import logging
import sys
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from eunoe.schemas.errors import Unavailable
from eunoe.workers.derive.in_memory import InMemoryPipeline
from eunoe.workers.intake.settings import IntakeSettings
from eunoe.workers.models.endpoint.client import Endpoint
from eunoe.workers.models.endpoint.dialect import Sampling
from eunoe.workers.models.endpoint.language_model import OpenAIModel, OpenAISettings
from eunoe.workers.models.endpoint.retrying import RetryEnvironment, RetryPolicy
from eunoe.workers.models.questions.metering import ASKING_STAGES
from eunoe.workers.models.questions.recording import RecordedModel
from eunoe.workers.registry import STAGES, StageSettings
from eunoe.workers.runner.decider import RunnerSettings
from eunoe.workers.stores.records.answers import MemoryAnswers
from eunoe.workers.tree.settings import TreeSettings
from tests.support.changes import events
from tests.support.in_memory import make_pipeline
from tests.support.model_server.behaviour import Behaviour, Formats, ItemFault, Wrap
from tests.support.model_server.server import ModelServer, ServerSettings
from tests.support.prompt_answers import PromptAnswers
from tests.support.whole_state import read_digest

SERVERS = ("openai", "azure", "vllm", "llama.cpp", "ollama", "tgi", "litellm")


@dataclass(frozen=True, slots=True)
class FaultCase:
    """A behaviour, and what it must lead to."""

    name: str
    behaviour: Behaviour
    waits: bool = False
    """Whether the stages wait: the endpoint is away, or refuses the deployment."""
    helped: bool = True
    """Whether the model decides most items all the same."""
    sampling: Sampling = field(default_factory=Sampling)


CASES: tuple[FaultCase, ...] = (
    FaultCase("none", Behaviour()),
    FaultCase("output cap 512", Behaviour(output_cap=512)),
    FaultCase("output cap 512, LiteLLM's words", Behaviour(output_cap=512, words="litellm")),
    *(FaultCase(f"context 2600, {words}'s words", Behaviour(context=2600, words=words)) for words in SERVERS),
    FaultCase("context 700: less than any prompt", Behaviour(context=700), helped=False),
    FaultCase("response_format ignored", Behaviour(formats=Formats.IGNORED)),
    FaultCase("response_format refused", Behaviour(formats=Formats.REFUSED)),
    FaultCase("schemas of 12 properties, 8 words", Behaviour(max_properties=12, max_enum_values=8)),
    FaultCase("prose around the JSON", Behaviour(wrap=Wrap.PROSE)),
    FaultCase("fence", Behaviour(wrap=Wrap.FENCE)),
    FaultCase("fence and a word", Behaviour(wrap=Wrap.FENCE_AND_WORD)),
    FaultCase("<think>", Behaviour(wrap=Wrap.THINK)),
    FaultCase("<thinking>", Behaviour(wrap=Wrap.THINKING)),
    FaultCase("reasoning_content", Behaviour(wrap=Wrap.REASONING_CONTENT)),
    FaultCase("all in reasoning_content", Behaviour(wrap=Wrap.EMPTY_CONTENT)),
    FaultCase("length while thinking", Behaviour(thinking_tokens=1500)),
    *(FaultCase(f"item {fault.value}", Behaviour(items=fault)) for fault in ItemFault),
    FaultCase("content filter on answers", Behaviour(filters=True), helped=False),
    FaultCase("content filter on prompts (400)", Behaviour(filters_prompts=True), helped=False),
    FaultCase("content filter on prompts with one of the texts", Behaviour(flagged="bakery")),
    FaultCase("no JSON to prompts with one of the texts", Behaviour(garbled="bakery")),
    FaultCase("the model declines", Behaviour(declines=True), helped=False),
    FaultCase("empty answers", Behaviour(blank=True), helped=False),
    FaultCase("slow for long prompts", Behaviour(slow_over=1300, slow_s=30.0), helped=False),
    FaultCase("slow by token", Behaviour(token_s=0.004)),
    FaultCase("first use of a schema takes 0.3 s", Behaviour(first_use_s=0.3)),
    FaultCase("400 to everything", Behaviour(status=400), helped=False),
    FaultCase("401: wrong key", Behaviour(status=401), waits=True),
    FaultCase("403", Behaviour(status=403), waits=True),
    FaultCase("404: unknown model", Behaviour(status=404), waits=True),
    FaultCase("429 for ever", Behaviour(status=429), waits=True),
    FaultCase("500 for ever", Behaviour(status=500), waits=True),
    FaultCase("answers cut off by the connection", Behaviour(truncates=True), waits=True),
)
"""The matrix."""


@dataclass(frozen=True, slots=True)
class FaultRow:
    """What became of one case."""

    case: FaultCase
    waited: bool
    """Whether a stage waited; the fault is in ``fault``."""
    fault: str
    seconds: float
    items: Mapping[str, Mapping[str, int]]
    """Stage → outcome → items."""
    calls: int
    digest: str = ""
    replayed: str = ""
    """The digest of a replay with the recorded answers, against an endpoint that answers otherwise."""
    replayed_calls: int = 0

    @property
    def differs(self) -> bool:
        """Whether the replay came to another memory, or asked the model."""
        return (self.digest, 0) != (self.replayed, self.replayed_calls)

    def offline(self, stage: str) -> float | None:
        """The share of a stage's items that were decided offline; `None` where it had none."""
        counted = self.items.get(stage, {})
        total = sum(counted.values())
        return counted.get("offline", 0) / total if total else None


async def _quick(seconds: float) -> None:
    """A pause of no length, so that away is known at once."""
    del seconds


def _model(server: ModelServer, case: FaultCase) -> OpenAIModel:
    return OpenAIModel(
        OpenAISettings(
            Endpoint(model="m", base_url=server.base_url, timeout_s=1.0),
            retry=RetryPolicy(attempts=2),
            sampling=case.sampling,
            environment=RetryEnvironment(sleep=_quick),
            memory_limit_s=2.0,
            reply_limit_s=1.5,
        )
    )


async def run_case(case: FaultCase) -> FaultRow:
    """Play all sessions of `tests.support.changes` with a model that behaves so, then replay them."""
    kept, started = MemoryAnswers(), time.perf_counter()
    async with ModelServer(ServerSettings(behaviour=case.behaviour, scripts={"*": PromptAnswers()})) as server:
        model = _model(server, case)
        try:
            pipeline = await _played(RecordedModel(model, kept))
        except Unavailable as away:
            return FaultRow(case, True, str(away), time.perf_counter() - started, model.items.document(), 0)
        finally:
            await model.aclose()
        seconds, items, calls = time.perf_counter() - started, model.items.document(), server.stats["chat"]
        digest = await _digest(pipeline)
        server.settings = replace(server.settings, behaviour=Behaviour())
        before = server.stats["chat"]
        again = _model(server, case)
        replayed = await _digest(await _played(RecordedModel(again, kept)))
        await again.aclose()
        return FaultRow(case, False, "", seconds, items, calls, digest, replayed, server.stats["chat"] - before)


async def _played(language: RecordedModel) -> InMemoryPipeline:
    settings = StageSettings(intake=IntakeSettings(blend_unasked=True), tree=TreeSettings(ask_model=True))
    pipeline = make_pipeline(settings, language, RunnerSettings(retry_limit_s=0.01))
    await pipeline.produce(*events())
    return pipeline


async def _digest(pipeline: InMemoryPipeline) -> str:
    return (await read_digest(pipeline.store, "default/c", STAGES)).sha256[:16]


def table(rows: Iterable[FaultRow]) -> str:
    """The matrix as Markdown."""
    head = ["behaviour", *ASKING_STAGES, "calls", "seconds", "replay"]
    lines = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    for row in rows:
        cells = [_cell(row, stage) for stage in ASKING_STAGES]
        same = "–" if row.waited else "differs" if row.differs else "same, no call"
        name = f"`{row.case.name}`" if "<" in row.case.name else row.case.name
        lines.append(f"| {name} | {' | '.join(cells)} | {row.calls} | {row.seconds:.1f} | {same} |")
    return "\n".join(lines)


def _cell(row: FaultRow, stage: str) -> str:
    """The share decided offline, and the number of items; waiting where the first stage that asks waits."""
    share = row.offline(stage)
    if share is None:
        return "waits" if row.waited else "–"
    total = sum(row.items[stage].values())
    return f"{share:.0%} of {total}"


async def _play_all(path: Path) -> int:
    rows = []
    for case in CASES:
        rows.append(await run_case(case))
        sys.stdout.write(f"{table(rows[-1:]).splitlines()[-1]}\n")
    head = "# model-faults\n\nThe share of the items that the offline rules decided, of all items, by stage."
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{head}\n\n{table(rows)}\n")
    return int(any(row.waited != row.case.waits or (row.differs and not row.waited) for row in rows))


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    sys.exit(asyncio.run(_play_all(Path("reports/model-faults.md"))))
