"""Spec of stage blend."""

from typing import TYPE_CHECKING

from eunoe.schemas.events import ReplyContext, ReplyRequested
from eunoe.schemas.memory import InsightsProposed
from eunoe.workers.blend.settings import BlendSettings
from eunoe.workers.blend.tables import NAME, TABLES
from eunoe.workers.on_call import OnCall
from eunoe.workers.stage import ApplyOrder, ModelKind, StageSpec

if TYPE_CHECKING:
    from eunoe.workers.blend.build import build
    from eunoe.workers.blend.outcomes import propose_nothing
else:
    build = OnCall("eunoe.workers.blend.build:build")
    propose_nothing = OnCall("eunoe.workers.blend.outcomes:propose_nothing")

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
