"""Checks which events of a session have arrived, and arranges them."""

from collections.abc import Sequence
from dataclasses import dataclass

from eunoe.schemas.events import SessionSkipped
from eunoe.schemas.memory import InsightsProposed, MemoriesFormed

PROPOSER = "blend"
"""The stage that sends `InsightsProposed`; only its ledger is read."""

Gathered = MemoriesFormed | InsightsProposed | SessionSkipped


@dataclass(frozen=True, slots=True)
class SessionInput:
    """The events of a complete session, in the order in which they are applied."""

    proposals: tuple[InsightsProposed, ...]
    """In the order of turns."""
    formed: MemoriesFormed | None
    """The summary; `None` for a skipped session."""
    carried_on: tuple[InsightsProposed, ...] = ()
    """Proposals of sessions that are still open."""


def missing(events: Sequence[Gathered]) -> str:
    """Describes what is missing of the session; empty if it is complete.

    Complete means: the summary or `SessionSkipped`, and the proposals of every turn since the session before closed,
    also of turns in sessions that are still open.
    """
    if _closing(events) is None:
        return "the session's summary has not come"
    lacking = lacking_turns(events)
    return f"the proposals of turns {lacking[:10]} have not come" if lacking else ""


def lacking_turns(events: Sequence[Gathered]) -> list[int]:
    """The turns whose proposals have not come; empty while the session's summary has not."""
    last = _closing(events)
    came = {event.turn for event in events if isinstance(event, InsightsProposed)}
    return [] if last is None else [turn for turn in last.turns if turn not in came]


def arrange(events: Sequence[Gathered], carried: Sequence[InsightsProposed] = ()) -> SessionInput:
    """The parts of a complete session; a summary takes precedence over `SessionSkipped`.

    ``carried`` are proposals that came with earlier sessions. One of a session that is still open is carried on.
    """
    last = _closing(events)
    listed = () if last is None else last.turns
    own = own_turns(events)
    came = [event for event in events if isinstance(event, InsightsProposed) and event.turn in listed]
    mine = [event.model_copy(update={"session": _number(events)}) for event in (*carried, *came) if event.turn in own]
    return SessionInput(
        tuple(sorted(mine, key=lambda event: event.turn)),
        last if isinstance(last, MemoriesFormed) else None,
        tuple(event for event in came if event.turn not in own),
    )


def own_turns(events: Sequence[Gathered]) -> tuple[int, ...]:
    """The turns of the session itself; none while its end has not come."""
    last = _closing(events)
    if last is None:
        return ()
    return last.turns if last.own_turns is None else last.own_turns


def turns_before(events: Sequence[Gathered]) -> tuple[int, ...]:
    """The session's turns of the time before the session before it closed: their proposals were carried."""
    last = _closing(events)
    return tuple(turn for turn in own_turns(events) if last is not None and turn not in last.turns)


def _number(events: Sequence[Gathered]) -> int:
    return events[0].session


def _closing(events: Sequence[Gathered]) -> MemoriesFormed | SessionSkipped | None:
    """The summary, else `SessionSkipped`; `None` if neither has arrived."""
    ends = [event for event in events if not isinstance(event, InsightsProposed)]
    return next((event for event in ends if isinstance(event, MemoriesFormed)), ends[0] if ends else None)
