"""Spec of stage intake."""

from eunoe.schemas.events import (
    Erase,
    ReplyContext,
    ReplyRequested,
    SessionClosed,
    SessionEnded,
    Utterance,
    UtteranceErased,
)
from eunoe.workers.intake.idle import IdleCloser
from eunoe.workers.intake.settings import IntakeSettings
from eunoe.workers.intake.stage import NAME, IntakeStage
from eunoe.workers.intake.state import TABLES
from eunoe.workers.stage import ApplyOrder, BackgroundContext, Dependencies, PeriodicTask, Stage, StageSpec

MAX_SWEEP_S = 10.0
"""Longest pause between two searches for idle sessions, unless the settings ask for a longer one."""


def build(dependencies: Dependencies) -> Stage:
    """The stage over these ports."""
    return IntakeStage(dependencies.store, dependencies.settings.of(IntakeSettings))


def idle_closer(context: BackgroundContext) -> PeriodicTask:
    """The task that ends idle sessions."""
    settings = context.settings.of(IntakeSettings)
    closer = IdleCloser(
        context.log_positions, context.publisher, context.caught_up, settings, may_close=context.answers
    )
    return PeriodicTask(closer.sweep, max(settings.sweep_seconds, min(MAX_SWEEP_S, settings.idle_seconds / 100)))


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
