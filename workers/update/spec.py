"""Spec of stage update."""

from eunoe.schemas.memory import InsightsProposed, MemoriesChanged, MemoriesFormed
from eunoe.workers.on_call import OnCall
from eunoe.workers.stage import ApplyOrder, ModelKind, StageSpec, skip_session
from eunoe.workers.update.settings import UpdateSettings
from eunoe.workers.update.tables import NAME, TABLES

SPEC = StageSpec(
    name=NAME,
    purpose="Keep memories up to date, as their only writer (Keep Me Updated, section 4.3)",
    consumes=(MemoriesFormed, InsightsProposed),
    emits=(MemoriesChanged,),
    order=ApplyOrder.SESSION,
    build=OnCall("eunoe.workers.update.build:build"),
    settings={"update": UpdateSettings},
    models=(ModelKind.EMBEDDING, ModelKind.LANGUAGE),
    tables=TABLES,
    reads=("link",),
    gathers=True,
    in_order=(MemoriesFormed,),
    on_failure=skip_session(NAME),
    restore_points=OnCall("eunoe.workers.update.restore:restore_points"),
)
