"""Tells endings of what no longer holds from those of what another memory says too, by what the changes carry.

Keep Me Updated (section 4.3) removes a memory where it is out of date, and also where another sentence says it already.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from eunoe.schemas.memory import ChangeKind, MemoriesChanged, Memory, MemoryOrigin
from eunoe.workers.text.language import is_english
from eunoe.workers.text.terms import terms
from eunoe.workers.update.applying import MERGED, REACHED, RESTATES
from eunoe.workers.update.english.rules import SAID, says_all_of
from eunoe.workers.update.memories import normalized
from eunoe.workers.update.operator import OperationPair

Successors = Mapping[str, str | None]
"""Ended id → the id of the memory that says all of it too; `None` where it no longer holds, or may not."""


@dataclass(frozen=True, slots=True)
class SessionEndings:
    """The memories that ended with a session."""

    repeated: frozenset[str] = frozenset()
    """Ids of those that it added and that say nothing but what a memory says, which they reinforce."""
    said_by: Successors = field(default_factory=dict)
    """All others."""


def endings_of(event: MemoriesChanged) -> SessionEndings:
    """The endings among a session's changes; a chain of successors counts as its last one."""
    states = {change.memory.memory_id: change.memory for change in event.changes}
    kinds = {ChangeKind.SUPERSEDED, ChangeKind.RETIRED}
    ended = {change.memory.memory_id: change.memory for change in event.changes if change.kind in kinds}
    added = frozenset(memory.memory_id for memory in event.added)
    passed = _reinforcing(event, ended) & added
    repeated = frozenset(id_ for id_ in passed if not _tells_more(ended[id_], states))
    successors = {
        id_: _by(memory) if id_ in passed else _successor(memory, states, added)
        for id_, memory in ended.items()
        if id_ not in repeated
    }
    successors |= _restating(ended, successors)
    return SessionEndings(repeated, {id_: _last(id_, successors) for id_ in successors})


def _reinforcing(event: MemoriesChanged, ended: Mapping[str, Memory]) -> frozenset[str]:
    """The ids of the memories that reinforced the memory that superseded them."""
    notes = {
        (change.memory.reinforced[-1].by, change.memory.memory_id)
        for change in event.changes
        if change.kind is ChangeKind.REINFORCED and change.memory.reinforced
    }
    return frozenset(id_ for id_, memory in ended.items() if (id_, _by(memory)) in notes)


def _tells_more(passed: Memory, states: Mapping[str, Memory]) -> bool:
    """Whether the rules passed a sentence with words of its own: they ask for most of them in the memory, not for all.

    What a model passes may be said in quite other words.
    """
    known = states[_by(passed) or ""]
    return _because(passed) == SAID and not set(terms(passed.text)) <= set(terms(known.text))


def _by(memory: Memory) -> str | None:
    return None if memory.ending is None else memory.ending.by


def _because(memory: Memory) -> str:
    return "" if memory.ending is None else memory.ending.because


def _successor(old: Memory, states: Mapping[str, Memory], added: frozenset[str]) -> str | None:
    """The id of the memory that superseded another one, if it says all of that."""
    new = states.get(_by(old) or "")
    if new is None:
        return None
    joined = new.origin is MemoryOrigin.FUSION and new.memory_id in added and not _because(old).startswith(REACHED)
    says = joined or _because(old) == MERGED or _has_its_words(old, new)
    return new.memory_id if says else None


def _has_its_words(old: Memory, new: Memory) -> bool:
    if normalized(old.text) == normalized(new.text):
        return True
    # the rules know English negations only: elsewhere more words may deny the old ones
    return is_english((old.text, new.text)) and says_all_of(OperationPair(old, new))


def _restating(ended: Mapping[str, Memory], successors: Successors) -> dict[str, str | None]:
    """The successors of memories that restate others, where these have one that says all of them."""
    restated: dict[str | None, bool] = {}
    for id_, successor in successors.items():
        if _because(ended[id_]) != RESTATES:
            by = _by(ended[id_])
            restated[by] = restated.get(by, True) and successor is not None
    return {
        id_: _by(ended[id_])
        for id_ in successors
        if _because(ended[id_]) == RESTATES and restated.get(_by(ended[id_]), False)
    }


def _last(id_: str, successors: Successors) -> str | None:
    """The end of the chain of successors; `None` if any of it no longer holds, or if it comes back to itself."""
    by, passed = successors[id_], {id_}
    while by is not None and by in successors:
        if by in passed:  # no stage writes such a chain, but a producer may
            return None
        passed.add(by)
        by = successors[by]
    return by
