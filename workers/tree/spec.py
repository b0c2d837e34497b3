"""Spec of stage tree."""

from typing import TYPE_CHECKING

from eunoe.schemas.memory import MemoriesChanged
from eunoe.workers.on_call import OnCall
from eunoe.workers.stage import ApplyOrder, ModelKind, StageSpec, skip_session
from eunoe.workers.tree.nodes import NAME, TABLES
from eunoe.workers.tree.settings import TreeRecallSettings, TreeSettings

if TYPE_CHECKING:
    from eunoe.workers.tree.build import build
    from eunoe.workers.tree.restore import restore_points
else:
    build = OnCall("eunoe.workers.tree.build:build")
    restore_points = OnCall("eunoe.workers.tree.restore:restore_points")

SPEC = StageSpec(
    name=NAME,
    purpose="Grow a tree over the memories (MemTree)",
    consumes=(MemoriesChanged,),
    order=ApplyOrder.SESSION,
    build=build,
    settings={"tree": TreeSettings},
    reply_settings={"tree_recall": TreeRecallSettings},
    models=(ModelKind.EMBEDDING, ModelKind.LANGUAGE),
    tables=TABLES,
    reads=("update",),
    on_failure=skip_session(NAME),
    restore_points=restore_points,
)
