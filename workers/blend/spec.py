"""Spec of stage blend."""

from eunoe.schemas.events import ReplyContext, ReplyRequested
from eunoe.schemas.memory import InsightsProposed
from eunoe.workers.blend.blender import Blender
from eunoe.workers.blend.model import ModelBlender
from eunoe.workers.blend.offline import OfflineBlender
from eunoe.workers.blend.outcomes import propose_nothing
from eunoe.workers.blend.reads import NAME, TABLES, Recall
from eunoe.workers.blend.settings import BlendSettings
from eunoe.workers.blend.stage import BlendStage
from eunoe.workers.stage import ApplyOrder, Dependencies, ModelKind, Stage, StageSpec


def blender_of(dependencies: Dependencies) -> Blender:
    """The blender of the stage: the model's where one is set."""
    settings, language = dependencies.settings.of(BlendSettings), dependencies.language_of("blend")
    offline = OfflineBlender(settings)
    return offline if language is None else ModelBlender(language, offline, settings)


def build(dependencies: Dependencies) -> Stage:
    """The stage over these ports."""
    settings = dependencies.settings.of(BlendSettings)
    recall = Recall(dependencies.store, dependencies.index, dependencies.embedder, settings)
    return BlendStage(dependencies.store, recall, blender_of(dependencies), settings)


SPEC = StageSpec(
    name=NAME,
    purpose="Blend past and present into insights, turn by turn (CREEM, section 3)",
    consumes=(ReplyRequested,),
    emits=(InsightsProposed, ReplyContext),
    order=ApplyOrder.TURN,
    build=build,
    settings={"blend": BlendSettings},
    models=(ModelKind.EMBEDDING, ModelKind.LANGUAGE),
    tables=TABLES,
    reads=("update",),
    on_failure=propose_nothing,
)
