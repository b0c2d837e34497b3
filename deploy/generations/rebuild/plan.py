"""The plan of a rebuild, and checks of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from eunoe.schemas.base import write_time
from eunoe.schemas.errors import Refused
from eunoe.workers.derive.dependents import changed_stages, made_again
from eunoe.workers.registry import MEMORY_STAGES
from eunoe.workers.stores.records.generations import Generation, GenerationState


@dataclass(frozen=True, slots=True)
class RebuildPlan:
    """The target of a rebuild, its part of the log, and its settings."""

    into: str
    """Name of the generation to build."""
    stages: tuple[str, ...] = MEMORY_STAGES
    conversations: frozenset[str] = frozenset()
    """Keys; empty means all."""
    until: datetime | None = None
    """Only records logged up to this time; `None` means all."""
    changes: Mapping[str, str] = field(default_factory=dict)
    """Overridden settings: STAGE.SETTING → value."""
    workers: int = 2
    """Number of processes."""
    from_stage: str | None = None
    """The stage to derive again, with its dependents; the rest is copied. `None` means all, from the log."""
    ask_again: bool = False
    """Whether recorded answers and recorded timing-dependent outcomes are ignored."""
    ask_refused: bool = False
    """Whether questions without a valid answer are asked again, and no others."""
    log: int | None = None
    """Number of the repartitioned log to read; `None` means the log of the live generation."""
    partitions: int | None = None
    """Number of partitions of that log."""

    @property
    def is_partial(self) -> bool:
        """Whether the result is only a part of the memory, which cannot be promoted."""
        return self.stages != MEMORY_STAGES or bool(self.conversations) or self.until is not None

    @property
    def options(self) -> dict[str, str]:
        """The options that tell this plan from another one for the same generation, empty ones left out."""
        options = {
            "stages": ",".join(self.stages) if self.stages != MEMORY_STAGES else "",
            "conversations": " ".join(sorted(self.conversations)),
            "until": "" if self.until is None else self.until.isoformat(),
            "from_stage": self.from_stage or "",
            "ask_again": "yes" if self.ask_again else "",
            "ask_refused": "yes" if self.ask_refused else "",
            "partitions": "" if self.partitions is None else str(self.partitions),
        }
        return {name: value for name, value in options.items() if value}


def check_from_stage(plan: RebuildPlan) -> None:
    """Raise `Refused` for a wrong ``from_stage``, or one after a stage whose settings are overridden."""
    if plan.from_stage is None:
        return
    if plan.from_stage not in MEMORY_STAGES:
        raise Refused(f"--from-stage {plan.from_stage}: no such stage; the stages are {', '.join(MEMORY_STAGES)}")
    if plan.stages != MEMORY_STAGES or plan.until is not None:
        raise Refused("--from-stage cannot be combined with --stages or --until, which rebuild from the log")
    again = made_again(plan.from_stage)
    if before := [stage for stage in MEMORY_STAGES if stage in changed_stages(plan.changes) - set(again)]:
        raise Refused(
            f"--set overrides settings of {', '.join(before)}, whose state --from-stage {plan.from_stage} copies:"
            f" give --from-stage {before[0]}, or leave --from-stage out"
        )


def stages_named(names: str | None) -> tuple[str, ...]:
    """The stages of a list like ``segment,compress``, and intake, in pipeline order; all where it is empty.

    Raises `Refused` for an unknown name.
    """
    if not names:
        return MEMORY_STAGES
    wanted = {name.strip() for name in names.split(",")}
    if unknown := sorted(wanted - set(MEMORY_STAGES)):
        raise Refused(f"--stages {', '.join(unknown)}: no such stage; the stages are {', '.join(MEMORY_STAGES)}")
    return tuple(stage for stage in MEMORY_STAGES if stage in wanted | {"intake"})


def check_still_building(there: Generation | None, begun: Generation) -> None:
    """Raise `Refused` where a generation is no longer the one that a rebuild has begun, ``there`` being what it is now.

    Dropped elsewhere, it lacks what had been derived by then; completed elsewhere, its workers may be at work on it.
    """
    if there is None or write_time(there.made_at) != write_time(begun.made_at):
        raise Refused(
            f"{begun.name} was dropped while it was rebuilt, and what was written since stands under its name:"
            " rebuild into another one"
        )
    if there.state is not begun.state:
        raise Refused(f"{begun.name} was completed meanwhile by another process: see `eunoe generations`")


def check_continues(there: Generation | None, plan: RebuildPlan, live: str) -> None:
    """Raise `Refused` for a generation that is live, complete, or begun with another plan."""
    if plan.into == live:
        raise Refused(f"{plan.into} is live: rebuild into another generation, then `eunoe promote` it")
    if there is None:
        return
    if there.state in (GenerationState.BUILT, GenerationState.MOVING):
        raise Refused(f"{plan.into} exists and is complete: run `eunoe drop {plan.into}` first, or choose another name")
    if (there.changes, there.plan) != (dict(plan.changes), plan.options):
        begun = {**there.changes, **there.plan} or "no changes"
        raise Refused(
            f"{plan.into} was begun with other options ({begun}): continue with them, or `eunoe drop {plan.into}` first"
        )
