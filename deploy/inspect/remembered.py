"""Reads the memory of a conversation for a comparison, from the state store only and without locks."""

import asyncio

from eunoe.deploy.inspect.differences import Remembered
from eunoe.schemas.decisions import Scope
from eunoe.schemas.memory import Segment
from eunoe.schemas.ports import StateStore
from eunoe.workers.compress.segments import NAME as COMPRESS
from eunoe.workers.compress.segments import SEGMENTS
from eunoe.workers.derive.digest import read_digest
from eunoe.workers.link.reads import all_edges
from eunoe.workers.registry import MEMORY_STAGES, STAGES
from eunoe.workers.tree.reads import read_tree
from eunoe.workers.update.memories import NAME as UPDATE
from eunoe.workers.update.reads import all_memories

_DIGESTED = {name: STAGES[name] for name in MEMORY_STAGES}


async def read_remembered(store: StateStore, key: str) -> Remembered:
    """The memory of a conversation in one generation, empty where there is none; raises `Unavailable`."""
    digest, ledger, memories, segments, edges, tree = await asyncio.gather(
        read_digest(store, key, _DIGESTED),
        store.ledger(Scope(UPDATE, key)),
        all_memories(store, key),
        store.scan(COMPRESS, key, SEGMENTS),
        all_edges(store, key),
        read_tree(store, key),
    )
    return Remembered(
        key=key,
        digest=digest.sha256,
        sessions=ledger.applied,
        memories=memories,
        segments=[Segment.from_json(text) for text in segments.values()],
        edges=edges,
        tree=tree,
    )
