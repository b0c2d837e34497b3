"""Reads the memory of a conversation for a comparison, from the state store only and without locks."""

import asyncio

from eunoe.deploy.inspect.differences import Remembered
from eunoe.schemas.decisions import Scope
from eunoe.schemas.documents import read_document
from eunoe.schemas.memory import Segment
from eunoe.schemas.ports import StateStore
from eunoe.workers.compress.tables import NAME as COMPRESS
from eunoe.workers.compress.tables import SEGMENTS
from eunoe.workers.derive.digest import hash_state
from eunoe.workers.link.reads import all_edges
from eunoe.workers.registry import MEMORY_STAGES, STAGES
from eunoe.workers.tree.reads import read_tree
from eunoe.workers.update.reads import all_memories
from eunoe.workers.update.tables import NAME as UPDATE

_DIGESTED = {name: STAGES[name] for name in MEMORY_STAGES}


async def read_remembered(store: StateStore, key: str) -> Remembered:
    """The memory of a conversation in one generation, empty where there is none; raises `Unavailable`."""
    return await _remembered(store, key, await _digest(store, key))


async def read_both(old: StateStore, new: StateStore, key: str) -> tuple[Remembered, Remembered]:
    """The memory of a conversation in two generations; raises `Unavailable`.

    Where the digests are equal, both are the same object: its details are read once.
    """
    before, after = await asyncio.gather(_digest(old, key), _digest(new, key))
    if before == after:
        both = await _remembered(new, key, after)
        return both, both
    return await _remembered(old, key, before), await _remembered(new, key, after)


async def _digest(store: StateStore, key: str) -> str:
    return (await hash_state(store, key, _DIGESTED)).sha256


async def _remembered(store: StateStore, key: str, digest: str) -> Remembered:
    ledger, memories, segments, edges, tree = await asyncio.gather(
        store.ledger(Scope(UPDATE, key)),
        all_memories(store, key),
        store.scan(COMPRESS, key, SEGMENTS),
        all_edges(store, key),
        read_tree(store, key),
    )
    return Remembered(
        key=key,
        digest=digest,
        sessions=ledger.applied,
        memories=memories,
        segments=[read_document(Segment, text, key) for text in segments.values()],
        edges=edges,
        tree=tree,
    )
