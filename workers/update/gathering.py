"""What must have come of a session before its memories can be written, and what came. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from eunoe.schemas.events import SessionSkipped
from eunoe.schemas.memory import InsightsProposed, MemoriesFormed

Gathered = MemoriesFormed | InsightsProposed | SessionSkipped


@dataclass(frozen=True, slots=True)
class SessionInput:
    """Everything that a session gives memory to consider, in the order in which it is applied."""

    proposals: tuple[InsightsProposed, ...]
    """Turn by turn."""
    formed: MemoriesFormed | None
    """The summary; None for a session that was skipped."""


def missing(events: Sequence[Gathered]) -> str:
    """What is still to come of the session, in words; empty when all is there.

    That is its summary, or the word that it was skipped, and the proposals of every turn which that lists.
    """
    last = _closing(events)
    if last is None:
        return "the session's summary has not come"
    came = {event.turn for event in events if isinstance(event, InsightsProposed)}
    lacking = [turn for turn in last.turns if turn not in came]
    return f"the proposals of turns {lacking[:10]} have not come" if lacking else ""


def complete(events: Sequence[Gathered]) -> bool:
    """True when nothing more is to come of the session."""
    return not missing(events)


def arrange(events: Sequence[Gathered]) -> SessionInput:
    """What a complete session brought; where a summary came, the word that the session was skipped is void."""
    last = _closing(events)
    listed = () if last is None else last.turns
    proposals = (event for event in events if isinstance(event, InsightsProposed) and event.turn in listed)
    return SessionInput(
        tuple(sorted(proposals, key=lambda event: event.turn)), last if isinstance(last, MemoriesFormed) else None
    )


def _closing(events: Sequence[Gathered]) -> MemoriesFormed | SessionSkipped | None:
    """The summary, or else the word that there is none."""
    ends = [event for event in events if not isinstance(event, InsightsProposed)]
    return next((event for event in ends if isinstance(event, MemoriesFormed)), ends[0] if ends else None)
