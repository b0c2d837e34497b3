"""Histories of supersession, and the utterances that support only ended memories."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime

from eunoe.schemas.events import Strategy
from eunoe.schemas.memory import Memory, MemoryStatus
from eunoe.schemas.relations import Relation
from eunoe.schemas.replies import Source
from eunoe.workers.respond.context import held_until, past_words, write_day

MAX_LENGTH = 8
"""Maximum of memories in one history."""


def is_model_written(memory: Memory) -> bool:
    """Whether a model wrote the memory; an extract repeats only a part of its utterances."""
    return memory.made_by.prompt is not None and not memory.made_by.fallback


def outdated(memory: Memory) -> bool:
    """Whether the memory was current once and has ended; one added as superseded only repeats another."""
    ending = memory.ending
    if ending is None:
        return False
    return ending.session > memory.session or ending.status is MemoryStatus.RETIRED


def without_repetitions(memories: Iterable[Memory]) -> list[Memory]:
    """The memories in order; of one and of those that were added as superseded by it only the first."""
    kept: dict[str, Memory] = {}
    for memory in memories:
        repeated = None if memory.ending is None or outdated(memory) else memory.ending.by
        kept.setdefault(repeated or memory.memory_id, memory)
    return list(kept.values())


def only_outdated(memories: Iterable[Memory], replaced: Collection[str]) -> frozenset[str]:
    """Ids of utterances that are evidence of outdated memories only, or of memories in ``replaced``."""
    past: set[str] = set()
    present: set[str] = set()
    for memory in memories:
        ids = {line.utterance_id for line in memory.evidence}
        (past if outdated(memory) or memory.memory_id in replaced else present).update(ids)
    return frozenset(past - present)


def histories(memories: Sequence[Memory], known: Mapping[str, Memory]) -> list[tuple[Memory, ...]]:
    """For each outdated memory: it and its successors in ``known``, oldest first.

    A chain contained in another is left out; a chain keeps its latest `MAX_LENGTH` memories.
    """
    chains = [_chain(memory, known) for memory in memories if outdated(memory)]
    chains.sort(key=lambda chain: (-len(chain), chain[0].order))
    kept: list[tuple[Memory, ...]] = []
    for chain in chains:
        ids = {memory.memory_id for memory in chain}
        if not any(ids <= {memory.memory_id for memory in longer} for longer in kept):
            kept.append(chain)
    return kept


def _chain(memory: Memory, known: Mapping[str, Memory]) -> tuple[Memory, ...]:
    found = {memory.memory_id: memory}
    ending = memory.ending
    while ending is not None and ending.by is not None and ending.by in known and ending.by not in found:
        found[ending.by] = known[ending.by]
        ending = known[ending.by].ending
    return tuple(found.values())[-MAX_LENGTH:]


def history_source(chain: Sequence[Memory]) -> Source:
    """The source of a history: a timeline whose relations are all Changed."""
    last = chain[-1]
    return Source(
        kind=Strategy.TIMELINE,
        id=last.memory_id,
        session=last.session,
        at=last.at,
        utterance_ids=tuple(dict.fromkeys(line.utterance_id for memory in chain for line in memory.evidence)),
        score=0.0,
        memory_ids=tuple(memory.memory_id for memory in chain),
        relations=(Relation.CHANGED,) * (len(chain) - 1),
    )


def note(memory: Memory, at: datetime | None = None) -> str:
    """The day of a memory, and the day on which it ended; ``at``: event time of the ask."""
    return ", ".join(filter(None, [write_day(memory.at), end_words(memory, at)]))


def end_words(memory: Memory, at: datetime | None = None) -> str:
    """The words for the end of a memory: ``held until 8 May 2023``; empty where it goes on.

    What only repeats another memory was superseded from the start, which is no end of what it says. ``at``: event time
    of the ask.
    """
    if memory.has_expired(at if memory.ending is None else memory.ending.at):
        return held_until(memory.expires_at)
    return f"held until {write_day(memory.ending.at)}" if memory.ending is not None and outdated(memory) else ""


def past_notes(memories: Iterable[Memory], replaced: Collection[str], at: datetime | None) -> Mapping[str, str]:
    """Utterance id → the end of what memories took from it, where that is before the ask; see `past_words`.

    Memories that are outdated or ``replaced`` say nothing of it. ``at``: event time of the ask.
    """
    ends: dict[str, datetime] = {}
    texts: dict[str, str] = {}
    goes_on: set[str] = set()
    for memory in memories:
        if outdated(memory) or memory.memory_id in replaced:
            continue
        if memory.expires_at is None or not memory.has_expired(at):
            goes_on.update(line.utterance_id for line in memory.evidence)
            continue
        for line in memory.evidence:
            ends[line.utterance_id] = max(memory.expires_at, ends.get(line.utterance_id, memory.expires_at))
            texts[line.utterance_id] = line.text
    return {id_: past_words(texts[id_], end, partly=id_ in goes_on) for id_, end in ends.items()}
