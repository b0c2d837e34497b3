"""The invariant of evidence: an utterance that spoke for a memory is cited for good.

What cites it holds, or has ended for a reason: it was superseded by a memory that is there, or retired with words that
say why. The lifecycle and Algorithm 1 keep to that; here it is checked, at each decision and over a whole conversation.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping

from eunoe.schemas.memory import ChangeKind, Ending, Memory
from eunoe.workers.update.lifecycle import Lifecycle
from eunoe.workers.update.memories import SessionSteps


class EvidenceLost(ValueError):
    """A decision would leave evidence without a memory that cites it; the text names it."""


def check_evidence(life: Lifecycle, brought: Iterable[Memory]) -> None:
    """Check what a session's decision changes, which takes time in proportion to that.

    ``brought``: the memories that the session proposes and sums up to. Raises `EvidenceLost`.
    """
    faults = [*_dropped(life, brought), *_changed(life)]
    if faults:
        raise EvidenceLost("; ".join(faults))


def _dropped(life: Lifecycle, brought: Iterable[Memory]) -> Iterator[str]:
    for memory in brought:
        stored = life.get(memory.memory_id)
        lost = _cited(memory) - (_cited(stored) if stored is not None else set())
        if lost:
            yield f"{memory.memory_id} is not stored with its evidence {sorted(lost)}"


def _changed(life: Lifecycle) -> Iterator[str]:
    for memory in life.touched:
        before = life.loaded(memory.memory_id)
        lost = _cited(before) - _cited(memory) if before is not None else set()
        if lost:
            yield f"{memory.memory_id} no longer cites {sorted(lost)}"
        fault = _ending_fault(memory.memory_id, memory.ending, lambda id_: life.get(id_) is not None)
        if fault:
            yield fault


def lost_evidence(endings: Mapping[str, Ending | None], steps: Iterable[SessionSteps]) -> list[str]:
    """Breaches of the invariant in a whole conversation, in words; empty where there are none.

    ``endings``: those of all memories by id, `None` for one that holds. ``steps``: the changes of every session.
    """
    added = (step.memory_id for one in steps for step in one.steps if step.kind is ChangeKind.ADDED)
    faults = [f"{id_} was added and is not stored" for id_ in added if id_ not in endings]
    found = (_ending_fault(id_, ending, endings.__contains__) for id_, ending in endings.items())
    return sorted([*faults, *filter(None, found)])


def _ending_fault(id_: str, ending: Ending | None, is_stored: Callable[[str], bool]) -> str:
    if ending is None:
        return ""
    if ending.by is None:
        return "" if ending.because else f"{id_} was retired without a reason"
    return "" if is_stored(ending.by) else f"{id_} was superseded by {ending.by}, which is not stored"


def _cited(memory: Memory) -> set[str]:
    return {line.utterance_id for line in memory.evidence}
