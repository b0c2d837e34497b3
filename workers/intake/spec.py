"""Spec of stage intake."""

from typing import TYPE_CHECKING

from eunoe.schemas.events import (
    Erase,
    ReplyContext,
    ReplyRequested,
    SessionClosed,
    SessionEnded,
    Utterance,
    UtteranceErased,
)
from eunoe.workers.intake.settings import IntakeSettings
from eunoe.workers.intake.stage import NAME
from eunoe.workers.intake.state import TABLES
from eunoe.workers.on_call import OnCall
from eunoe.workers.stage import ApplyOrder, StageSpec

if TYPE_CHECKING:
    from eunoe.workers.intake.build import build, idle_closer
else:
    build = OnCall("eunoe.workers.intake.build:build")
    idle_closer = OnCall("eunoe.workers.intake.build:idle_closer")

SPEC = StageSpec(
    name=NAME,
    purpose="Take in the log: open, number and close sessions; hand on asks",
    consumes=(Utterance, SessionEnded, Erase, UtteranceErased),
    emits=(SessionClosed, ReplyRequested, ReplyContext),
    order=ApplyOrder.POSITION,
    build=build,
    settings={"intake": IntakeSettings},
    tables=TABLES,
    background=(idle_closer,),
)
