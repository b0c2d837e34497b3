"""Spec of stage link."""

from typing import TYPE_CHECKING

from eunoe.schemas.memory import MemoriesChanged
from eunoe.workers.link.graph import NAME, TABLES
from eunoe.workers.link.settings import LinkSettings, TimelineSettings
from eunoe.workers.on_call import OnCall
from eunoe.workers.stage import ApplyOrder, ModelKind, StageSpec, skip_session

if TYPE_CHECKING:
    from eunoe.workers.link.build import build
else:
    build = OnCall("eunoe.workers.link.build:build")

SPEC = StageSpec(
    name=NAME,
    purpose="Link memories into a graph (THEANINE, section 2.1)",
    consumes=(MemoriesChanged,),
    order=ApplyOrder.SESSION,
    build=build,
    settings={"link": LinkSettings},
    reply_settings={"timeline": TimelineSettings},
    models=(ModelKind.EMBEDDING, ModelKind.LANGUAGE),
    tables=TABLES,
    reads=("update",),
    on_failure=skip_session(NAME),
)
