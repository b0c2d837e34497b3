"""Spec of stage segment."""

from typing import TYPE_CHECKING

from eunoe.schemas.events import SessionClosed, SessionSegmented
from eunoe.workers.on_call import OnCall
from eunoe.workers.segment.settings import SegmentSettings
from eunoe.workers.segment.stage import NAME
from eunoe.workers.stage import ApplyOrder, ModelKind, StageSpec, skip_session

if TYPE_CHECKING:
    from eunoe.workers.segment.build import build
else:
    build = OnCall("eunoe.workers.segment.build:build")

SPEC = StageSpec(
    name=NAME,
    purpose="Split sessions into topic segments (SeCom, section 2.2)",
    consumes=(SessionClosed,),
    emits=(SessionSegmented,),
    order=ApplyOrder.SESSION,
    build=build,
    settings={"segment": SegmentSettings},
    models=(ModelKind.EMBEDDING, ModelKind.LANGUAGE),
    on_failure=skip_session(NAME),
)
