"""Links for suspicions of `update`: the older memory may have changed into the newer one.

Such a pair needs no judge. If a judge found a causal relation for it, that relation stays; else the pair is Changed,
marked as a suspicion.
"""

from collections.abc import Iterable, Iterator

from eunoe.schemas.memory import ChangeKind, MemoriesChanged
from eunoe.schemas.relations import CAUSAL, Relation
from eunoe.workers.link.graph import Related
from eunoe.workers.link.writes import age_key


def suspected_pairs(event: MemoriesChanged) -> Iterator[Related]:
    """The suspected pairs of an earlier and a new memory, in the order of the feed."""
    added = {memory.memory_id: memory for memory in event.added}
    for change in event.changes:
        if change.kind is not ChangeKind.SUSPECTED or not change.memory.suspected:
            continue
        newer = added.get(change.memory.suspected[-1].by)
        if newer is not None and change.memory.session < event.session:
            older = age_key(change.memory)
            yield Related(older, age_key(newer), Relation.CHANGED, change.because, suspected=True, judged=False)


def with_suspicions(judged: Iterable[Related], suspected: Iterable[Related]) -> list[Related]:
    """All related pairs without duplicates; suspected ones are marked, judged or not."""
    pairs = {(pair.older, pair.newer): pair for pair in judged}
    for pair in suspected:
        found = pairs.get((pair.older, pair.newer))
        keeps = found is not None and found.relation in CAUSAL
        pairs[pair.older, pair.newer] = found._replace(suspected=True) if found is not None and keeps else pair
    return list(pairs.values())
