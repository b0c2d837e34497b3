"""The answers that the page would get about one conversation, for a file of its own."""

import asyncio
import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final
from urllib.parse import quote

from eunoe.deploy.gateway.reads import Progress, read_head, read_progress, session_ids, session_item, status_of
from eunoe.deploy.gateway.results import (
    ConversationStatus,
    HistoryItem,
    MemoryHistory,
    MemoryItem,
    SessionItem,
    SessionPage,
    SessionView,
    TimelineItem,
    TimelinePage,
    TimelineView,
    TreeView,
)
from eunoe.deploy.inspect.history import bounded_history
from eunoe.schemas.base import Value, write_time
from eunoe.schemas.identity import split_key
from eunoe.schemas.memory import Memory, Segment
from eunoe.schemas.ports import StateStore
from eunoe.workers.compress.reads import read_session_segments, read_stats
from eunoe.workers.link.graph import Edge
from eunoe.workers.link.reads import all_edges
from eunoe.workers.tree.reads import read_tree
from eunoe.workers.update.reads import HistoryEntry, all_memories

SESSION_PAGE: Final = 50
"""Sessions that the page asks for at once."""
AT_ONCE: Final = 32
"""Sessions or histories that are read side by side."""


async def read_snapshot(store: StateStore, key: str) -> bytes | None:
    """The answers about a conversation, and its memories, as JSON; `None` where it is unknown. Scans its tables."""
    head, progress, stats = await asyncio.gather(
        read_head(store, key), read_progress(store, key), read_stats(store, key)
    )
    if head is None:
        return None
    conversation_id = split_key(key)[1]
    base = f"v1/conversations/{quote(conversation_id, safe=chr(39) + '!*()')}"
    memories = await all_memories(store, key)
    status = ConversationStatus(
        conversation_id=conversation_id,
        sessions=head.closed,
        remembered=progress.remembered,
        segments=stats.segments,
        applied=progress.applied,
    )
    answers: dict[str, object] = {base: _json(status)}
    answers |= await _sessions(store, key, (base, head.closed), progress)
    for memory, history in zip(memories, await _histories(store, key, memories), strict=True):
        answers[f"{base}/memories/{memory.memory_id}/history"] = _json(_history(history))
    answers |= _timelines(base, memories, await all_edges(store, key))
    for node in (tree := await read_tree(store, key)).values():
        if not node.is_leaf:
            children = tuple(tree[id_] for id_ in node.children if id_ in tree)
            answers[f"{base}/tree?node={node.node_id}"] = _json(TreeView(node=node, children=children))
    document = {
        "conversation": conversation_id,
        "written": write_time(datetime.now(UTC)),
        "answers": answers,
        "memories": [_json(MemoryItem(status=memory.status, memory=memory)) for memory in memories],
    }
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()


def _json(value: Value) -> object:
    return value.model_dump(mode="json")


async def _sessions(store: StateStore, key: str, known: tuple[str, int], progress: Progress) -> dict[str, object]:
    base, closed = known
    names = await session_ids(store, key, range(1, closed + 1))
    items: list[SessionItem] = []
    answers: dict[str, object] = {}
    for first in range(1, closed + 1, AT_ONCE):
        numbers = range(first, min(first + AT_ONCE, closed + 1))
        found = await asyncio.gather(*(read_session_segments(store, key, number) for number in numbers))
        for number, segments in zip(numbers, found, strict=True):
            view = _session_view(number, names.get(number), progress, segments)
            answers[f"{base}/sessions/{number}"] = _json(view)
            items.append(session_item(number, names.get(number), view.status, segments))
    for after in range(0, max(1, closed), SESSION_PAGE):
        page = SessionPage(sessions=tuple(items[after : after + SESSION_PAGE]))
        answers[f"{base}/sessions?limit={SESSION_PAGE}&after_session={after}"] = _json(page)
    return answers


def _session_view(number: int, name: str | None, progress: Progress, segments: Sequence[Segment]) -> SessionView:
    return SessionView(
        session=number,
        session_id=name,
        status=status_of(number, progress),
        remembered=not progress.missing(number),
        applied=progress.applied,
        missing=progress.missing(number),
        segments=tuple(segments),
    )


async def _histories(store: StateStore, key: str, memories: Sequence[Memory]) -> list[list[HistoryEntry]]:
    found: list[list[HistoryEntry]] = []
    for first in range(0, len(memories), AT_ONCE):
        some = memories[first : first + AT_ONCE]
        found += await asyncio.gather(*(bounded_history(store, key, memory.memory_id) for memory in some))
    return found


def _history(entries: Sequence[HistoryEntry]) -> MemoryHistory:
    names = ("session", "known_from", "at", "kind", "memory", "by", "because")
    return MemoryHistory(changes=tuple(HistoryItem(**{name: getattr(one, name) for name in names}) for one in entries))


def _timelines(base: str, memories: Sequence[Memory], edges: Sequence[Edge]) -> dict[str, object]:
    """The list of timelines, and each of them; any memory of one names it, by the address of the first."""
    groups = grouped([memory.memory_id for memory in memories], edges)
    into: dict[str, list[Edge]] = {}
    for edge in edges:
        into.setdefault(edge.newer, []).append(edge)
    known = {memory.memory_id: memory for memory in memories}
    answers: dict[str, object] = {}
    items = []
    for members in groups:
        root = members[0]
        ordered = tuple(sorted((known[id_] for id_ in members), key=lambda memory: memory.order))
        inside = tuple(edge for memory in ordered for edge in into.get(memory.memory_id, ()))
        view = TimelineView(root=root, size=len(members), memories=ordered, edges=inside)
        answers[f"{base}/timelines/{root}"] = _json(view)
        answers |= {f"{base}/timelines/{id_}": f"{base}/timelines/{root}" for id_ in members[1:]}
        if len(members) > 1:
            items.append(TimelineItem(root=root, size=len(members), oldest=ordered[0].memory_id))
    answers[f"{base}/timelines?limit=200&after_session=0"] = _json(TimelinePage(timelines=tuple(items)))
    return answers


def grouped(ids: Sequence[str], edges: Sequence[Edge]) -> list[list[str]]:
    """The connected groups of memories, each in the order of ``ids``."""
    parents = {id_: id_ for id_ in ids}

    def root(id_: str) -> str:
        while parents[id_] != id_:
            parents[id_] = parents[parents[id_]]
            id_ = parents[id_]
        return id_

    for edge in edges:
        if edge.older in parents and edge.newer in parents:
            parents[root(edge.newer)] = root(edge.older)
    groups: dict[str, list[str]] = {}
    for id_ in ids:
        groups.setdefault(root(id_), []).append(id_)
    return list(groups.values())
