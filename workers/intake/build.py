"""Builds stage intake from its ports and settings."""

from eunoe.workers.intake.idle import IdleCloser
from eunoe.workers.intake.settings import IntakeSettings
from eunoe.workers.intake.stage import IntakeStage
from eunoe.workers.stage import BackgroundContext, Dependencies, PeriodicTask, Stage

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
