"""What a stage is, to the runner."""

from typing import Any, Protocol

from eunoe.schemas.decisions import Outcome, Work


class Stage(Protocol):
    """A pure decision with thin reads; it never commits, publishes, acknowledges or retries."""

    async def decide(self, work: Work[Any]) -> Outcome:
        """What should become true because of ``work``.

        Raises `Unavailable` when a server it reads from is; anything else it raises counts as a
        failure of this event.
        """
        ...
