"""Spec of stage respond."""

from typing import TYPE_CHECKING

from eunoe.schemas.events import ReplyContext
from eunoe.schemas.replies import Recalled, Reply
from eunoe.workers.on_call import OnCall
from eunoe.workers.respond.settings import RespondSettings
from eunoe.workers.respond.tables import NAME, TABLES
from eunoe.workers.stage import ApplyOrder, ModelKind, StageSpec

if TYPE_CHECKING:
    from eunoe.workers.respond.build import build
    from eunoe.workers.respond.stage import error_reply
else:
    build = OnCall("eunoe.workers.respond.build:build")
    error_reply = OnCall("eunoe.workers.respond.stage:error_reply")

SPEC = StageSpec(
    name=NAME,
    purpose="Recall memory for asks, and reply",
    consumes=(ReplyContext,),
    emits=(Reply, Recalled),
    order=ApplyOrder.REQUEST,
    build=build,
    reply_settings={"respond": RespondSettings},
    models=(ModelKind.EMBEDDING, ModelKind.LANGUAGE),
    tables=TABLES,
    reads=("compress", "update", "link", "tree"),
    on_failure=error_reply,
)
