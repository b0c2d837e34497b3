"""Brings the points of a conversation in line with its derived state, and keeps late workers from undoing that.

Points have ids that follow from their session and place in it, and live stages remove none. So every point that a late
worker may still hold is in the index, in an unsent outbox, or stands for a document: these are removed in a way that
refuses them for good (`eunoe.schemas.ports.VectorIndex.fence_off`).
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Final, Protocol

from eunoe.schemas.decisions import Collection, Ledger
from eunoe.schemas.ports import VectorIndex
from eunoe.workers.derive.pipeline import Derived
from eunoe.workers.registry import MEMORY_STAGES, STAGES

Ids = Mapping[Collection, set[str]]
"""Ids of points by collection."""

POINTS_AT_ONCE: Final = 2_048
"""Points of one write."""
_STAGE_OF: Final = {indexed.collection: name for name in MEMORY_STAGES for indexed in STAGES[name].tables.indexed}


class ListedStore(Protocol):
    """A state store that lists what it holds without reading it."""

    async def ids(self, stage: str, key: str, table: str) -> set[str]:
        """The ids of all documents of a table, also of those that cannot be read. Raises `Unavailable`."""
        ...


async def document_ids(store: ListedStore, key: str) -> Ids:
    """The points that the documents of a conversation may have now, by id alone; raises `Unavailable`.

    A document is not read: that it cannot be read may be the reason for the repair.
    """
    return {
        indexed.collection: await store.ids(name, key, indexed.table) - indexed.without_point
        for name in MEMORY_STAGES
        for indexed in STAGES[name].tables.indexed
    }


def unsent_ids(ledgers: Iterable[Ledger]) -> Ids:
    """The points in unsent outboxes."""
    found: defaultdict[Collection, set[str]] = defaultdict(set)
    for ledger in ledgers:
        for point in () if ledger.outbox is None else ledger.outbox.points:
            found[point.collection].add(point.id)
    return found


async def write_index(index: VectorIndex, derived: Derived, ledgers: Mapping[str, Ledger], late: Ids | None) -> int:
    """Write the derived points and remove stale ones; returns the number removed.

    ``ledgers`` are those stored with the derived state. ``late``: points that workers may still write, refused from now
    on like all that are removed; `None`: nothing is refused. Raises `Unavailable`.
    """
    removed = 0
    for collection, stage in _STAGE_OF.items():
        there = await index.seqs(collection, derived.key)
        points, ledger = derived.points[collection], ledgers[stage]
        known = {point.id: point.seq for point in points}
        for places in _parts(list(known.values())):
            await index.upsert([points[place] for place in places], ledger.lates, mark=late is not None, over=there)
        stale = {id_ for id_, seq in there.items() if id_ not in known and seq <= ledger.applied}
        if late is None:
            await index.remove(collection, derived.key, sorted(stale))
        else:
            refused = (stale | late.get(collection, set())) - known.keys()
            await index.fence_off(collection, sorted(refused), ledger.lates)
        removed += len(stale)
    return removed


def _parts(seqs: Sequence[int]) -> Iterator[list[int]]:
    """The places of points in parts: all points of a long conversation at once would take more than the rest of it.

    Those of one session stand together, since the index takes them in one request.
    """
    order = iter(sorted(range(len(seqs)), key=seqs.__getitem__))
    while part := list(islice(order, POINTS_AT_ONCE)):
        yield part
