"""Spec of stage update."""

from typing import TYPE_CHECKING

from eunoe.schemas.memory import InsightsProposed, MemoriesChanged, MemoriesFormed
from eunoe.workers.on_call import OnCall
from eunoe.workers.stage import ApplyOrder, ModelKind, StageSpec, skip_session
from eunoe.workers.update.settings import UpdateSettings
from eunoe.workers.update.tables import NAME, TABLES

if TYPE_CHECKING:
    from eunoe.workers.update.build import build
    from eunoe.workers.update.restore import restore_points
else:
    build = OnCall("eunoe.workers.update.build:build")
    restore_points = OnCall("eunoe.workers.update.restore:restore_points")

SPEC = StageSpec(
    name=NAME,
    purpose="Keep memories up to date, as their only writer (Keep Me Updated, section 4.3)",
    consumes=(MemoriesFormed, InsightsProposed),
    emits=(MemoriesChanged,),
    order=ApplyOrder.SESSION,
    build=build,
    settings={"update": UpdateSettings},
    models=(ModelKind.EMBEDDING, ModelKind.LANGUAGE),
    tables=TABLES,
    reads=("link",),
    gathers=True,
    in_order=(MemoriesFormed,),
    on_failure=skip_session(NAME),
    restore_points=restore_points,
)
