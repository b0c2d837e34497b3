"""Which stages depend on which: what a change of one of them makes wrong. Pure."""

from collections.abc import Iterable, Mapping

from eunoe.schemas.base import Contract
from eunoe.schemas.events import ConversationEvent, ReplyRequested, SessionEvent, SessionSkipped
from eunoe.streams.topics import Topic
from eunoe.workers.derive.pipeline import MEMORY_STAGES
from eunoe.workers.registry import STAGES
from eunoe.workers.stage import ApplyOrder, StageSpec

ROOMS: Mapping[str, str | None] = {
    **{name: name for name in MEMORY_STAGES},
    "compression": "compress",
    "embedding": "segment",
    "language": "segment",
    "model": "segment",
    "respond": None,
    "timeline": None,
    "tree_recall": None,
}
"""What a setting belongs to → the first stage that it changes; None: only what replies find in the same memory."""


def dependents(stage: str, specs: Mapping[str, StageSpec] = STAGES) -> frozenset[str]:
    """The stage, and all that must be made again when it decides otherwise.

    A stage depends on those that emit what it consumes, and on those whose state it reads; and so on.
    """
    found: set[str] = set()
    waiting = {stage}
    while waiting:
        found |= waiting
        waiting = {name for name, spec in specs.items() if any(_follows(spec, specs[one]) for one in waiting)} - found
    return frozenset(found)


def _follows(spec: StageSpec, before: StageSpec) -> bool:
    return before.name in spec.reads or bool(set(spec.consumes) & set(before.emits))


def made_again(stage: str) -> tuple[str, ...]:
    """`dependents` among those that make memory, in the order of the house."""
    wanted = dependents(stage)
    return tuple(name for name in MEMORY_STAGES if name in wanted)


def changed_stages(changes: Iterable[str]) -> frozenset[str]:
    """The first stages that changed settings concern, by their names (``link.associative``)."""
    found = (ROOMS.get(name.partition(".")[0]) for name in changes)
    return frozenset(stage for stage in found if stage is not None)


def producer_of(topic: Topic, event: Contract, specs: Mapping[str, StageSpec] = STAGES) -> str | None:
    """The stage that wrote an event of a derived topic; None where none writes such."""
    for spec in specs.values():
        passes_on = isinstance(event, SessionSkipped) and spec.order is ApplyOrder.SESSION
        if topic in spec.outputs and (type(event) in spec.emits or passes_on):
            return spec.name
    return None


def number_of(event: ConversationEvent) -> int | None:
    """By what its producer counts an event: the turn of a request, else the session; None for a probe."""
    if isinstance(event, ReplyRequested):
        return event.turn
    return event.session if isinstance(event, SessionEvent) else None
