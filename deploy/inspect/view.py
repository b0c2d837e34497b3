"""Read-only views of a conversation's memory, from the state store alone."""

import asyncio
from dataclasses import dataclass
from datetime import datetime

from eunoe.schemas.decisions import Scope
from eunoe.schemas.documents import read_document
from eunoe.schemas.errors import Refused
from eunoe.schemas.memory import Memory, MemoryStatus, Segment
from eunoe.schemas.ports import StateStore
from eunoe.workers.compress.tables import SEGMENTS
from eunoe.workers.intake.erased import ERASED_LINE
from eunoe.workers.intake.head import Head
from eunoe.workers.intake.state import HEAD, LINES
from eunoe.workers.link.graph import Edge
from eunoe.workers.link.reads import all_edges
from eunoe.workers.registry import STAGES
from eunoe.workers.stage import ApplyOrder
from eunoe.workers.tree.nodes import TreeNode
from eunoe.workers.tree.reads import read_tree
from eunoe.workers.update.reads import HistoryEntry, all_memories, all_steps, history_of, memories_at

SHOWN = 5
"""Memories listed in the message about an ambiguous id."""


@dataclass(frozen=True, slots=True)
class ConversationView:
    """The progress of a conversation, and its segments in time order."""

    key: str
    head: Head
    remembered: int
    """The last session that the memory holds."""
    open_lines: int
    segments: tuple[Segment, ...]


async def remembered_session(store: StateStore, key: str) -> int:
    """The number of the last session that every memory-building stage has applied."""
    stages = [spec.name for spec in STAGES.values() if spec.order is ApplyOrder.SESSION]
    ledgers = await asyncio.gather(*(store.ledger(Scope(stage, key)) for stage in stages))
    return min(ledger.applied for ledger in ledgers)


async def is_known(store: StateStore, key: str) -> bool:
    """Whether anything was said in a conversation, also where none of it is memory yet."""
    return await _head(store, key) is not None


async def _head(store: StateStore, key: str) -> str | None:
    (head,) = await store.fetch("intake", key, HEAD, [HEAD])
    return head


async def view_conversation(store: StateStore, key: str) -> ConversationView | None:
    """The view of a conversation; `None` where it is unknown."""
    head = await _head(store, key)
    if head is None:
        return None
    rows = await store.scan("compress", key, SEGMENTS)
    segments = sorted(
        (read_document(Segment, row, key) for row in rows.values()), key=lambda item: (item.session, item.index)
    )
    return ConversationView(
        key=key,
        head=read_document(Head, head, key),
        remembered=await remembered_session(store, key),
        open_lines=sum(row != ERASED_LINE for row in (await store.scan("intake", key, LINES)).values()),
        segments=tuple(segments),
    )


@dataclass(frozen=True, slots=True)
class GraphView:
    """All memories of a conversation, oldest first, and the links between them."""

    memories: tuple[Memory, ...]
    edges: tuple[Edge, ...]


async def view_graph(store: StateStore, key: str) -> GraphView | None:
    """The memory graph of a conversation, empty before its first memory; `None` where it is unknown."""
    memories = await all_memories(store, key)
    if memories:
        return GraphView(tuple(memories), tuple(await all_edges(store, key)))
    return GraphView((), ()) if await is_known(store, key) else None


async def view_tree(store: StateStore, key: str) -> dict[str, TreeNode] | None:
    """The tree of a conversation, id → node, empty before its first memory; `None` where it is unknown."""
    nodes = await read_tree(store, key)
    return nodes if nodes or await is_known(store, key) else None


@dataclass(frozen=True, slots=True)
class MemoriesView:
    """Memories of a conversation, oldest first."""

    memories: tuple[Memory, ...]
    known_since: datetime | None
    """Log time at which the first session became known; `None` before that."""


async def view_memories(store: StateStore, key: str, time: datetime | None, *, all_: bool) -> MemoriesView | None:
    """The current memories, or ``all_`` of them, as known at a log time or now.

    None are there before the first session is remembered; the view is `None` where the conversation is unknown.
    """
    first = next(await all_steps(store, key), None)
    if first is None:
        return MemoriesView((), None) if await is_known(store, key) else None
    known = await (all_memories(store, key) if time is None else memories_at(store, key, time))
    shown = (memory for memory in known if all_ or memory.status is MemoryStatus.CURRENT)
    return MemoriesView(tuple(shown), first.known_from)


async def view_history(store: StateStore, key: str, begins: str) -> list[HistoryEntry] | None:
    """The changes of the one memory whose id starts with ``begins``; `None` where the conversation is unknown.

    Raises `Refused` where no id or several ids start so.
    """
    known = await all_memories(store, key)
    if not known and not await is_known(store, key):
        return None
    found = [memory for memory in known if memory.memory_id.startswith(begins)]
    if len(found) == 1:
        return await history_of(store, key, found[0].memory_id)
    if not found:
        raise Refused(f"no memory of this conversation has an id that starts with {begins!r}; see --memories --all")
    some = "; ".join(f"{memory.memory_id[:13]} {memory.text}" for memory in found[:SHOWN])
    more = f"; and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
    raise Refused(f"{len(found)} memories have an id that starts with {begins!r}: {some}{more}")
