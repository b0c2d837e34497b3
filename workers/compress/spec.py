"""Spec of stage compress."""

from eunoe.schemas.events import SessionSegmented
from eunoe.workers.compress.settings import CompressSettings
from eunoe.workers.compress.tables import NAME, TABLES
from eunoe.workers.on_call import OnCall
from eunoe.workers.stage import ApplyOrder, ModelKind, StageSpec, skip_session

SPEC = StageSpec(
    name=NAME,
    purpose="Denoise segments and make them findable (SeCom, section 2.3)",
    consumes=(SessionSegmented,),
    order=ApplyOrder.SESSION,
    build=OnCall("eunoe.workers.compress.build:build"),
    settings={"compress": CompressSettings},
    models=(ModelKind.EMBEDDING, ModelKind.COMPRESSION),
    tables=TABLES,
    on_failure=skip_session(NAME),
    restore_points=OnCall("eunoe.workers.compress.restore:restore_points"),
)
