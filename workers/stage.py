"""What a stage is, to the runner."""

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

from eunoe.schemas.decisions import Decision, Outcome, Work


class Stage(Protocol):
    """A pure decision with thin reads; it never commits, publishes, acknowledges or retries."""

    async def decide(self, work: Work[Any]) -> Outcome:
        """What should become true because of ``work``.

        Raises `Unavailable` when a server it reads from is; anything else it raises counts as a
        failure of this event.
        """
        ...


@runtime_checkable
class RunStage(Protocol):
    """A stage that can also decide several events of a conversation before the first of them is committed."""

    async def decide_run(self, works: Sequence[Work[Any]]) -> Sequence[Decision]:
        """The decision of each, in their order, each made as if those before it were committed.

        Raises what `Stage.decide` raises.
        """
        ...
