"""Spec of stage summarize."""

from typing import TYPE_CHECKING

from eunoe.schemas.events import SessionSegmented
from eunoe.schemas.memory import MemoriesFormed
from eunoe.workers.on_call import OnCall
from eunoe.workers.stage import ApplyOrder, ModelKind, StageSpec, skip_session
from eunoe.workers.summarize.settings import SummarizeSettings
from eunoe.workers.summarize.stage import NAME

if TYPE_CHECKING:
    from eunoe.workers.summarize.build import build
else:
    build = OnCall("eunoe.workers.summarize.build:build")

SPEC = StageSpec(
    name=NAME,
    purpose="Make memory sentences of a session (THEANINE, section 2.1; Keep Me Updated, section 4.2)",
    consumes=(SessionSegmented,),
    emits=(MemoriesFormed,),
    order=ApplyOrder.SESSION,
    build=build,
    settings={"summarize": SummarizeSettings},
    models=(ModelKind.LANGUAGE,),
    on_failure=skip_session(NAME),
)
