"""What a rebuild is asked to do."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from eunoe.schemas.errors import Refused
from eunoe.workers.derive.dependents import changed_stages, made_again
from eunoe.workers.registry import MEMORY_STAGES
from eunoe.workers.stores.generations import Generation, GenerationState


@dataclass(frozen=True, slots=True)
class RebuildPlan:
    """Where to, what of the log, with what."""

    into: str
    """The generation to make."""
    stages: tuple[str, ...] = MEMORY_STAGES
    conversations: frozenset[str] = frozenset()
    """Keys; empty: all."""
    until: datetime | None = None
    """Only what the log held at that time."""
    changes: Mapping[str, str] = field(default_factory=dict)
    """Settings that differ from those of the environment."""
    workers: int = 2
    """Processes."""
    from_stage: str | None = None
    """The first stage to make again; what does not depend on it is copied. None: all, from the log."""
    ask_again: bool = False
    """True: recorded answers, and what time made of decisions, are not obeyed."""
    log: int | None = None
    """The number of the log to read, which has other partitions; None: the live generation's."""
    partitions: int | None = None
    """Of that log."""

    @property
    def is_partial(self) -> bool:
        """True: what is made is not all of memory, and can never be promoted."""
        return self.stages != MEMORY_STAGES or bool(self.conversations) or self.until is not None

    @property
    def words(self) -> dict[str, str]:
        """What tells this plan from another one for the same generation."""
        words = {
            "stages": ",".join(self.stages) if self.stages != MEMORY_STAGES else "",
            "conversations": " ".join(sorted(self.conversations)),
            "until": "" if self.until is None else self.until.isoformat(),
            "from_stage": self.from_stage or "",
            "ask_again": "yes" if self.ask_again else "",
            "partitions": "" if self.partitions is None else str(self.partitions),
        }
        return {name: word for name, word in words.items() if word}


def check_from_stage(plan: RebuildPlan) -> None:
    """Refuse a partial rebuild that would not show what was changed; raises `Refused`."""
    if plan.from_stage is None:
        return
    if plan.from_stage not in MEMORY_STAGES:
        raise Refused(f"--from-stage {plan.from_stage}: there are {', '.join(MEMORY_STAGES)}")
    if plan.stages != MEMORY_STAGES or plan.until is not None:
        raise Refused("--from-stage goes with neither --stages nor --until: those begin with the log")
    again = made_again(plan.from_stage)
    if before := [stage for stage in MEMORY_STAGES if stage in changed_stages(plan.changes) - set(again)]:
        raise Refused(
            f"--set changes {', '.join(before)}, which a rebuild from {plan.from_stage} on copies:"
            f" give --from-stage {before[0]}, or leave it out"
        )


def stages_named(names: str | None) -> tuple[str, ...]:
    """``segment,compress`` → these stages and intake, in the order of the house; all where none is named.

    Raises `Refused` for a name that is none.
    """
    if not names:
        return MEMORY_STAGES
    wanted = {name.strip() for name in names.split(",")}
    if unknown := sorted(wanted - set(MEMORY_STAGES)):
        raise Refused(f"--stages {', '.join(unknown)}: there are {', '.join(MEMORY_STAGES)}")
    return tuple(stage for stage in MEMORY_STAGES if stage in wanted | {"intake"})


def check_continues(there: Generation | None, plan: RebuildPlan, live: str) -> None:
    """Refuse a plan for a generation that is live, whole, or was begun in another way; raises `Refused`."""
    if plan.into == live:
        raise Refused(f"{plan.into} is live: rebuild into another generation, then `eunoe promote` it")
    if there is None:
        return
    if there.state in (GenerationState.BUILT, GenerationState.MOVING):
        raise Refused(f"{plan.into} is there and whole: `eunoe drop {plan.into}` first, or choose another name")
    if (there.changes, there.plan) != (dict(plan.changes), plan.words):
        begun = {**there.changes, **there.plan} or "no changes"
        raise Refused(
            f"{plan.into} was begun in another way ({begun}): continue it so, or `eunoe drop {plan.into}` first"
        )
