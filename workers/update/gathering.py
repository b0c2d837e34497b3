"""Checks which events of a session have arrived, and arranges them."""

from collections.abc import Sequence
from dataclasses import dataclass

from eunoe.schemas.events import SessionSkipped
from eunoe.schemas.memory import InsightsProposed, MemoriesFormed

Gathered = MemoriesFormed | InsightsProposed | SessionSkipped


@dataclass(frozen=True, slots=True)
class SessionInput:
    """The events of a complete session, in the order in which they are applied."""

    proposals: tuple[InsightsProposed, ...]
    """In the order of turns."""
    formed: MemoriesFormed | None
    """The summary; `None` for a skipped session."""


def missing(events: Sequence[Gathered]) -> str:
    """Describes what is missing of the session; empty if it is complete.

    Complete means: the summary or `SessionSkipped`, and the proposals of every turn that it lists.
    """
    last = _closing(events)
    if last is None:
        return "the session's summary has not come"
    came = {event.turn for event in events if isinstance(event, InsightsProposed)}
    lacking = [turn for turn in last.turns if turn not in came]
    return f"the proposals of turns {lacking[:10]} have not come" if lacking else ""


def complete(events: Sequence[Gathered]) -> bool:
    """Whether nothing of the session is missing."""
    return not missing(events)


def arrange(events: Sequence[Gathered]) -> SessionInput:
    """The parts of a complete session; a summary takes precedence over `SessionSkipped`."""
    last = _closing(events)
    listed = () if last is None else last.turns
    proposals = (event for event in events if isinstance(event, InsightsProposed) and event.turn in listed)
    return SessionInput(
        tuple(sorted(proposals, key=lambda event: event.turn)), last if isinstance(last, MemoriesFormed) else None
    )


def _closing(events: Sequence[Gathered]) -> MemoriesFormed | SessionSkipped | None:
    """The summary, else `SessionSkipped`; `None` if neither has arrived."""
    ends = [event for event in events if not isinstance(event, InsightsProposed)]
    return next((event for event in ends if isinstance(event, MemoriesFormed)), ends[0] if ends else None)
