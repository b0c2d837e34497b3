"""Spec of stage blend."""

from eunoe.schemas.events import ReplyContext, ReplyRequested
from eunoe.schemas.memory import InsightsProposed
from eunoe.workers.blend.settings import BlendSettings
from eunoe.workers.blend.tables import NAME, TABLES
from eunoe.workers.on_call import OnCall
from eunoe.workers.stage import ApplyOrder, ModelKind, StageSpec

SPEC = StageSpec(
    name=NAME,
    purpose="Blend past and present into insights, turn by turn (CREEM, section 3)",
    consumes=(ReplyRequested,),
    emits=(InsightsProposed, ReplyContext),
    order=ApplyOrder.TURN,
    build=OnCall("eunoe.workers.blend.build:build"),
    settings={"blend": BlendSettings},
    models=(ModelKind.EMBEDDING, ModelKind.LANGUAGE),
    tables=TABLES,
    reads=("update",),
    on_failure=OnCall("eunoe.workers.blend.outcomes:propose_nothing"),
)
