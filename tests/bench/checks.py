"""Checks the result of a benchmark run; the figures of a wrong result are worthless."""

from collections.abc import Iterable, Sequence
from contextlib import AsyncExitStack

from eunoe.deploy.clients.bootstrap import open_qdrant
from eunoe.deploy.clients.models import open_embedder
from eunoe.deploy.clients.shared import open_store
from eunoe.deploy.settings import Settings
from eunoe.schemas.errors import EunoeError
from eunoe.schemas.model_ports import LanguageModel
from eunoe.streams.reader import topic_size
from eunoe.streams.topics import Topic
from eunoe.workers.derive.in_memory import InMemoryPipeline, select_stages
from eunoe.workers.intake.settings import IntakeSettings
from eunoe.workers.models.endpoint.client import Endpoint
from eunoe.workers.models.endpoint.language_model import OpenAIModel, OpenAISettings
from eunoe.workers.registry import STAGES
from eunoe.workers.stage import ApplyOrder
from eunoe.workers.stores.vectors.qdrant import QdrantIndex
from tests.bench.load import LoadPlan, rounds
from tests.bench.rig import Rig, start_model_server
from tests.support.whole_state import ConversationState, read_states

SEQUENTIAL = tuple(name for name, spec in STAGES.items() if spec.order in (ApplyOrder.POSITION, ApplyOrder.SESSION))
"""The stages that every session passes."""


class WrongResult(EunoeError):
    """The result of a run is wrong, so its figures are not reported."""


async def check_run(rig: Rig, plan: LoadPlan) -> list[ConversationState]:
    """The states of the plan's conversations; raises `WrongResult` where events are lost, failed or unfinished."""
    letters = await topic_size(rig.settings.kafka_settings, rig.settings.names, Topic.DEAD_LETTERS)
    if letters:
        raise WrongResult(f"{letters} events were dead-lettered")
    if rig.restarts():
        raise WrongResult(f"workers were restarted {rig.restarts()} times")
    async with open_qdrant(rig.settings) as client, open_store(rig.settings) as store:
        states = await read_states(store, QdrantIndex(client, rig.names), plan.keys)
    _check_states(states, plan.keys)
    return states


def _check_states(states: Sequence[ConversationState], keys: Sequence[str]) -> None:
    missing = set(keys) - {state.digest.key for state in states}
    if missing:
        raise WrongResult(f"{len(missing)} conversations are missing, for instance {min(missing)}")
    for state in states:
        if state.findings or state.unfinished:
            problem = (*state.findings, *state.unfinished)[0]
            raise WrongResult(f"{state.digest.key} is incomplete: {problem}")


def check_same(ours: Iterable[ConversationState], theirs: Iterable[ConversationState]) -> None:
    """Raise `WrongResult` where two runs of the same events have different digests."""
    expected = {state.digest.key: state.digest.sha256 for state in theirs}
    wrong = [state.digest.key for state in ours if state.digest.sha256 != expected.get(state.digest.key)]
    if wrong:
        raise WrongResult(f"{len(wrong)} conversations differ from the sequential run: {', '.join(wrong[:5])}")


async def sequential_states(rig: Rig, plan: LoadPlan) -> list[ConversationState]:
    """The states after the same events one at a time, in this process, with in-memory log and stores.

    The model server is the same without its delay; its answers are a function of the question.
    """
    async with AsyncExitStack() as closing:
        language = await _same_answers(rig, closing)
        embedder = await open_embedder(rig.settings, {}, closing)
        settings = _stage_settings(rig.settings)
        pipeline = InMemoryPipeline(embedder, settings.stages, language, stages=select_stages(SEQUENTIAL))
        for events in rounds(plan):
            await pipeline.produce(*events)
        if pipeline.dead_letters():
            raise WrongResult(f"{pipeline.dead_letters()} events were dead-lettered in the sequential run")
        return await read_states(pipeline.store, pipeline.index, plan.keys)


def _stage_settings(settings: Settings) -> Settings:
    return settings.with_changes(IntakeSettings, idle_seconds=1e9)


async def _same_answers(rig: Rig, closing: AsyncExitStack) -> LanguageModel | None:
    if rig.base_url is None:
        return None
    base_url = rig.base_url
    if rig.own_model:
        base_url, _ = await start_model_server(0.0, rig.directory / "sequential", closing)
    model = OpenAIModel(OpenAISettings(Endpoint(model=rig.settings.model, base_url=base_url)))
    closing.push_async_callback(model.aclose)
    return model
