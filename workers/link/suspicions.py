"""Links of what `update` suspects: an old memory that a new one may contradict has perhaps changed into it. Pure.

No judge is asked about such a pair. A relation that one has found for it nevertheless stays, where it says how the
one leads to the other; else the pair is Changed, and marked as a suspicion.
"""

from collections.abc import Iterable, Iterator

from eunoe.schemas.memory import ChangeKind, MemoriesChanged
from eunoe.schemas.relations import CAUSAL, Relation
from eunoe.workers.link.graph import Related
from eunoe.workers.link.growth import order_of


def suspected_pairs(event: MemoriesChanged) -> Iterator[Related]:
    """The memories of earlier sessions that the session's new memories may contradict, in the order of the feed."""
    added = {memory.memory_id: memory for memory in event.added}
    for change in event.changes:
        if change.kind is not ChangeKind.SUSPECTED or not change.memory.suspected:
            continue
        newer = added.get(change.memory.suspected[-1].by)
        if newer is not None and change.memory.session < event.session:
            older = order_of(change.memory)
            yield Related(older, order_of(newer), Relation.CHANGED, change.because, suspected=True, judged=False)


def with_suspicions(judged: Iterable[Related], suspected: Iterable[Related]) -> list[Related]:
    """All related pairs, each once; the suspected ones are marked as such, whoever told their relation."""
    pairs = {(pair.older, pair.newer): pair for pair in judged}
    for pair in suspected:
        found = pairs.get((pair.older, pair.newer))
        keeps = found is not None and found.relation in CAUSAL
        pairs[pair.older, pair.newer] = found._replace(suspected=True) if found is not None and keeps else pair
    return list(pairs.values())
