"""Spec of stage compress."""

from typing import TYPE_CHECKING

from eunoe.schemas.events import SessionSegmented
from eunoe.workers.compress.settings import CompressSettings
from eunoe.workers.compress.tables import NAME, TABLES
from eunoe.workers.on_call import OnCall
from eunoe.workers.stage import ApplyOrder, ModelKind, StageSpec, skip_session

if TYPE_CHECKING:
    from eunoe.workers.compress.build import build
    from eunoe.workers.compress.restore import restore_points
else:
    build = OnCall("eunoe.workers.compress.build:build")
    restore_points = OnCall("eunoe.workers.compress.restore:restore_points")

SPEC = StageSpec(
    name=NAME,
    purpose="Denoise segments and make them findable (SeCom, section 2.3)",
    consumes=(SessionSegmented,),
    order=ApplyOrder.SESSION,
    build=build,
    settings={"compress": CompressSettings},
    models=(ModelKind.EMBEDDING, ModelKind.COMPRESSION),
    tables=TABLES,
    on_failure=skip_session(NAME),
    restore_points=restore_points,
)
