"""Routes that read memory: memories, profiles, timelines, the tree, the state."""

from datetime import UTC, datetime
from typing import Any, cast

from starlette.responses import Response

from eunoe.deploy.gateway.bodies import (
    MAX_MEMBERS,
    MemoriesQuery,
    ProfileQuery,
    SessionPageQuery,
    TimelineQuery,
    TreeQuery,
)
from eunoe.deploy.gateway.calls import Call, answer
from eunoe.deploy.gateway.operation_results import DecisionItem, StageState, StateView
from eunoe.deploy.gateway.ports import LiveState
from eunoe.deploy.gateway.problems import Problem, not_found
from eunoe.deploy.gateway.reads import (
    BornPage,
    born,
    memories_of,
    read_progress,
)
from eunoe.deploy.gateway.results import (
    HistoryItem,
    MemoryHistory,
    MemoryItem,
    MemoryPage,
    ProfileView,
    TimelineItem,
    TimelinePage,
    TimelineView,
    TreeView,
)
from eunoe.deploy.gateway.routes.conversations import known_conversation
from eunoe.deploy.inspect.history import bounded_history
from eunoe.deploy.inspect.known import last_known
from eunoe.deploy.inspect.state import check_state
from eunoe.workers.link.reads import Component, read_components, read_edges, read_neighbours
from eunoe.workers.stores.state.redis_store import RedisStore
from eunoe.workers.text.invisible import without_invisible
from eunoe.workers.tree.loading import TreeReader
from eunoe.workers.tree.nodes import ROOT, TreeNode
from eunoe.workers.update.person import read_profile
from eunoe.workers.update.reads import read_memories


async def list_memories(call: Call) -> Response:
    """Memories in the order of their sessions: those that hold now, all, or those known at a time."""
    query = call.query(MemoriesQuery)
    live = await call.live()
    _, progress = await known_conversation(call, live)
    last = progress.applied["update"]
    known = None if query.at is None else await last_known(live.store, call.key, last, query.at)
    upto = last if known is None else known
    page = await born(live.store, call.key, (query.after_session, upto), query.limit)
    memories = await memories_of(live.store, call.key, page.ids, known)
    shown = (one for one in memories if query.status in ("all", one.status))
    items = tuple(MemoryItem(status=memory.status, memory=memory) for memory in shown)
    return answer(MemoryPage(memories=items, next=page.next))


async def show_profile(call: Call) -> Response:
    """The memories that hold now of a person, packed for a prompt: by kind, the latest first, with sources."""
    query = call.query(ProfileQuery)
    live = await call.live()
    await known_conversation(call, live)
    at = query.at or datetime.now(UTC)
    found = await read_profile(live.store, call.key, at=at, person=query.person, budget_tokens=query.budget_tokens)
    return answer(ProfileView(profile=found, text=without_invisible(found.text)))


async def show_history(call: Call) -> Response:
    """The changes of a memory, of those that it superseded and of its successors."""
    live = await call.live()
    found = await bounded_history(live.store, call.key, call.path["memory"])
    if not found:
        raise not_found("memory")
    changes = tuple(
        HistoryItem(
            session=one.session,
            known_from=one.known_from,
            at=one.at,
            kind=one.kind,
            memory=one.memory,
            by=one.by,
            because=one.because,
        )
        for one in found
    )
    return answer(MemoryHistory(changes=changes))


async def list_timelines(call: Call) -> Response:
    """The groups of linked memories that the memories of some sessions belong to."""
    query = call.query(SessionPageQuery)
    live = await call.live()
    _, progress = await known_conversation(call, live)
    page = await born(live.store, call.key, (query.after_session, progress.applied["link"]), query.limit)
    components = await read_components(live.store, call.key, page.ids)
    roots = {one.root: one for one in components.values() if one.size > 1}
    items = tuple(TimelineItem(root=one.root, size=one.size, oldest=one.oldest.memory_id) for one in roots.values())
    return answer(TimelinePage(timelines=items, next=page.next))


async def show_timeline(call: Call) -> Response:
    """The memories of a group, and the links between them; any memory of it names the group."""
    query = call.query(TimelineQuery)
    live = await call.live()
    start = call.path["root"]
    component = (await read_components(live.store, call.key, [start])).get(start)
    if component is None:
        raise not_found("timeline")
    page = await _timeline_page(call, live, component, query)
    memories = sorted(await read_memories(live.store, call.key, page.ids), key=lambda memory: memory.order)
    edges = await read_edges(live.store, call.key, [memory.memory_id for memory in memories])
    return answer(
        TimelineView(
            root=component.root, size=component.size, memories=tuple(memories), edges=tuple(edges), next=page.next
        )
    )


async def _timeline_page(call: Call, live: LiveState, component: Component, query: TimelineQuery) -> BornPage:
    """The ids of the memories of a group: around the one of the path, or those born after a session."""
    if query.after_session is None:
        return BornPage(await _around(call, live), None)
    last = (await read_progress(live.store, call.key)).applied["link"]
    first = max(query.after_session, component.oldest.session - 1)
    page = await born(live.store, call.key, (first, last), query.limit)
    members = await read_components(live.store, call.key, page.ids)
    ids = tuple(id_ for id_ in page.ids if id_ in members and members[id_].root == component.root)
    return BornPage(ids, page.next)


async def _around(call: Call, live: LiveState) -> tuple[str, ...]:
    """The ids of the memories nearest to the one of the path, along the links."""
    start = call.path["root"]
    found, level = dict.fromkeys([start]), [start]
    while level and len(found) < MAX_MEMBERS:
        around = await read_neighbours(live.store, call.key, level)
        level = [id_ for ids in around.values() for id_ in ids if id_ not in found][: MAX_MEMBERS - len(found)]
        level = list(dict.fromkeys(level))
        found |= dict.fromkeys(level)
    return tuple(found)


async def show_tree(call: Call) -> Response:
    """A node of the tree with its children; without a node, the root, which has none before the first memory."""
    query = call.query(TreeQuery)
    live = await call.live()
    reader = TreeReader(live.store, call.key)
    node = (await reader.nodes([query.node])).get(query.node)
    if node is None:
        if query.node != ROOT:
            raise not_found("node")
        await known_conversation(call, live)
        node = TreeNode(node_id=ROOT)  # no session brought a memory yet
    children = await reader.nodes(list(node.children))
    return answer(TreeView(node=node, children=tuple(children[id_] for id_ in node.children if id_ in children)))


async def show_state(call: Call) -> Response:
    """Counts, digest, disagreements of the index and unfinished work of a conversation."""
    live = await call.live()
    if live.index is None:
        raise Problem(503, "this gateway has no Qdrant to check: set EUNOE_QDRANT_URL")
    await known_conversation(call, live)
    state = await check_state(cast("RedisStore", live.store), live.index, call.key)
    if state is None:
        raise not_found("conversation")
    stages: dict[str, Any] = {
        stage: StageState(applied=part.get("applied", 0), tables=dict(state.tables.get(stage, {})))
        for stage, part in state.progress.items()
    }
    return answer(
        StateView(
            digest=state.sha256,
            stages=stages,
            index_findings=tuple(f"{one.collection.value} {one.id}: {one.kind.value}" for one in state.findings),
            unfinished=tuple(f"{one.stage}: {one.why}" for one in state.unfinished),
            decisions=tuple(
                DecisionItem(stage=one.stage, items=one.items, items_offline=one.items_offline)
                for one in state.decisions
            ),
        )
    )
