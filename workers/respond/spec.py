"""Spec of stage respond."""

from eunoe.schemas.events import ReplyContext
from eunoe.schemas.replies import Recalled, Reply
from eunoe.workers.on_call import OnCall
from eunoe.workers.respond.settings import RespondSettings
from eunoe.workers.respond.tables import NAME, TABLES
from eunoe.workers.stage import ApplyOrder, ModelKind, StageSpec

SPEC = StageSpec(
    name=NAME,
    purpose="Recall memory for asks, and reply",
    consumes=(ReplyContext,),
    emits=(Reply, Recalled),
    order=ApplyOrder.REQUEST,
    build=OnCall("eunoe.workers.respond.build:build"),
    reply_settings={"respond": RespondSettings},
    models=(ModelKind.EMBEDDING, ModelKind.LANGUAGE),
    tables=TABLES,
    reads=("compress", "update", "link", "tree"),
    on_failure=OnCall("eunoe.workers.respond.stage:error_reply"),
)
