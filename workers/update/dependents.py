"""Memories that depend on one that a summary has ended: they restate it, or its successor replaces them too.

Keep Me Updated ends what a sentence contradicts and leaves what rests on it (section 4.3).
"""

from collections.abc import Collection as Ids
from collections.abc import Mapping, Sequence

from eunoe.schemas.memory import Memory
from eunoe.workers.update.applying import RESTATES
from eunoe.workers.update.candidates import restates
from eunoe.workers.update.lifecycle import Cause, Lifecycle
from eunoe.workers.update.operator import OperationPair
from eunoe.workers.update.settings import UpdateSettings

Near = Mapping[str, Sequence[Memory]]
"""Ended memory → the memories one link away that were current."""


def end_restating(life: Lifecycle, ended: Sequence[str], settings: UpdateSettings) -> None:
    """End memories that only restate an ended one as that one: superseded by its successor, or retired.

    They are sought among those loaded: nearly the same words are always among the most similar.
    """
    for id_ in ended:
        old = life.get(id_)
        if old is None or old.ending is None:
            continue
        by = old.ending.by
        for memory in life.current:
            if life.was_added(memory.memory_id) or not restates(old, memory, settings):
                continue
            if by is None:
                life.retire(memory.memory_id, Cause(old.ending.at, RESTATES))
            elif by != memory.memory_id and life.is_current(by):
                life.supersede(memory.memory_id, Cause(old.ending.at, RESTATES, by))


def unjudged(life: Lifecycle, near: Near, judged: Ids[tuple[str, str]]) -> list[OperationPair]:
    """The pairs of a linked memory and the ended one's successor that were not judged, not even with a merged part."""
    found: dict[tuple[str, str], OperationPair] = {}
    for id_, linked in near.items():
        old = life.get(id_)
        successor = life.get(old.ending.by) if old is not None and old.ending is not None and old.ending.by else None
        if successor is None or not life.was_added(successor.memory_id):
            continue
        parts = [successor.memory_id, *life.superseded_by(successor.memory_id)]
        for memory in sorted(linked, key=lambda one: one.order):
            pair = OperationPair(memory, successor)
            was_judged = any((memory.memory_id, part) in judged for part in parts)
            if life.is_current(memory.memory_id) and memory.speaker == successor.speaker and not was_judged:
                found[pair.ids] = pair
    return list(found.values())
