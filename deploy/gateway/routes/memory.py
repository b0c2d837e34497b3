"""Routes that read memory: conversations, sessions, memories, timelines, the tree, the state."""

import asyncio
import base64
import json
from datetime import UTC, datetime
from time import monotonic
from typing import Any, Final, cast

from starlette.responses import Response

from eunoe.deploy.gateway.answers import (
    ConversationItem,
    ConversationPage,
    ConversationStatus,
    DecisionItem,
    HistoryItem,
    LogPosition,
    MemoryHistory,
    MemoryItem,
    MemoryPage,
    OpenSessionItem,
    ProfileView,
    SessionPage,
    SessionView,
    StageState,
    StateView,
    TimelineItem,
    TimelinePage,
    TimelineView,
    TreeView,
)
from eunoe.deploy.gateway.bodies import (
    MAX_MEMBERS,
    MemoriesQuery,
    PageQuery,
    ProfileQuery,
    SessionPageQuery,
    TimelineQuery,
    TreeQuery,
    WaitQuery,
)
from eunoe.deploy.gateway.calls import Call, answer, while_connected
from eunoe.deploy.gateway.ports import LiveState
from eunoe.deploy.gateway.problems import Problem, not_found
from eunoe.deploy.gateway.reads import (
    BornPage,
    Progress,
    born,
    closed_session,
    memories_of,
    open_lines,
    read_head,
    read_progress,
    session_ids,
    session_item,
    status_of,
)
from eunoe.deploy.inspect.decisions import decision_shares
from eunoe.deploy.inspect.history import bounded_history
from eunoe.deploy.inspect.known import last_known
from eunoe.deploy.inspect.state import read_states
from eunoe.schemas.ports import ActiveConversation
from eunoe.streams.position import position, split_position
from eunoe.streams.settings import partition_of
from eunoe.streams.topics import Topic
from eunoe.workers.compress.reads import read_session_segments
from eunoe.workers.intake.head import Head, OpenSession
from eunoe.workers.link.reads import Component, read_components, read_edges, read_neighbours
from eunoe.workers.stores.redis import RedisStore
from eunoe.workers.tree.loading import TreeReader
from eunoe.workers.update.person import read_profile
from eunoe.workers.update.reads import read_memories

FIRST_PAUSE_S: Final = 0.05
LONGEST_PAUSE_S: Final = 1.0
MAX_LIST_PAGES: Final = 10
"""Pages of the list that one request reads for a key with a prefix of conversations."""


# ---- conversations


async def list_conversations(call: Call) -> Response:
    """The conversations of the tenant, the last active first."""
    query = call.query(PageQuery)
    live = await call.live()
    last = None if query.cursor is None else _read_cursor(query.cursor)
    found: list[ActiveConversation] = []
    ended = False
    for _ in range(MAX_LIST_PAGES):
        page = await live.activity.active(call.caller.tenant, query.limit, last)
        found += [one for one in page if call.caller.may_use(one.conversation_id)]
        ended = len(page) < query.limit
        last = page[-1] if page else last
        if ended or len(found) >= query.limit:
            break
    shown = found[: query.limit]
    last = shown[-1] if len(found) > query.limit else last
    more = len(found) > query.limit or not ended
    items = tuple(ConversationItem(conversation_id=one.conversation_id, active=one.active) for one in shown)
    return answer(ConversationPage(conversations=items, next=_write_cursor(last) if more and last else None))


def _write_cursor(last: ActiveConversation) -> str:
    text = json.dumps([last.active.isoformat(), last.conversation_id])
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def _read_cursor(text: str) -> ActiveConversation:
    try:
        active, conversation_id = json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
        return ActiveConversation(str(conversation_id), datetime.fromisoformat(active).astimezone(UTC))
    except (ValueError, TypeError, OverflowError):
        raise Problem(422, "the cursor is not one of a page of this list") from None


async def show_conversation(call: Call) -> Response:
    """A conversation: its sessions, and how far the stages have come."""
    live = await call.live()
    head, progress = await _known(call, live)
    opened = tuple(
        OpenSessionItem(
            session_id=one.session_id,
            lines=one.lines,
            last_utterance_id=one.last_utterance_id,
            active=one.last_log_time,
        )
        for one in head.open
    )
    return answer(
        ConversationStatus(
            conversation_id=call.conversation_id,
            sessions=head.closed,
            open=opened,
            remembered=progress.remembered,
            applied=progress.applied,
            position=await _position(call, progress),
        )
    )


async def _known(call: Call, live: LiveState) -> tuple[Head, Progress]:
    """Head and progress of the conversation; raises `Problem` (404) for an unknown one."""
    head, progress = await asyncio.gather(read_head(live.store, call.key), read_progress(live.store, call.key))
    if head is None:
        raise not_found("conversation")
    return head, progress


async def _position(call: Call, progress: Progress) -> LogPosition | None:
    if not progress.position:
        return None
    partitions = await call.gateway.log().partitions(Topic.CONVERSATIONS)
    _, offset = split_position(progress.position)
    return LogPosition(topic=Topic.CONVERSATIONS, partition=partition_of(call.key.encode(), partitions), offset=offset)


# ---- sessions


async def list_sessions(call: Call) -> Response:
    """The closed sessions of a conversation, the oldest first."""
    query = call.query(SessionPageQuery)
    live = await call.live()
    head, progress = await _known(call, live)
    numbers = range(query.after_session + 1, min(query.after_session + query.limit, head.closed) + 1)
    names, segments = await asyncio.gather(
        session_ids(live.store, call.key, numbers),
        asyncio.gather(*(read_session_segments(live.store, call.key, number) for number in numbers)),
    )
    items = tuple(
        session_item(number, names.get(number), status_of(number, progress), found)
        for number, found in zip(numbers, segments, strict=True)
    )
    more = bool(numbers) and numbers[-1] < head.closed
    return answer(SessionPage(sessions=items, next=numbers[-1] if more else None))


async def show_session(call: Call) -> Response:
    """A session: how far it has come, and its segments; waits until it is in memory where the query says so."""
    query = call.query(WaitQuery)
    if not _names_session(call.path["session"]):
        raise not_found("session")
    seconds = query.timeout if query.wait or query.after is not None else 0.0
    found = await while_connected(call, _awaited(call, query, seconds))
    if found is None:
        return Response(status_code=499)
    return answer(found)


async def _awaited(call: Call, query: WaitQuery, seconds: float) -> SessionView:
    begun, pause = monotonic(), FIRST_PAUSE_S
    while True:
        live = await call.live()
        head, progress = await asyncio.gather(read_head(live.store, call.key), read_progress(live.store, call.key))
        seen = query.after is None or progress.position >= position(live.epoch, query.after)
        found = await _named(call, live, head) if head is not None and seen else None
        good = found is not None and (query.wait is None or _is_remembered(found, progress))
        left = seconds - (monotonic() - begun)
        if not seen and left <= 0:
            where = await _position(call, progress)
            return SessionView(status="accepted", remembered=False, applied=progress.applied, position=where)
        if good or left <= 0:
            if found is None:
                raise not_found("session")
            return await _session_view(call, live, found, progress)
        await asyncio.sleep(min(pause, left))
        pause = min(2 * pause, LONGEST_PAUSE_S)


def _is_remembered(found: int | OpenSession, progress: Progress) -> bool:
    return isinstance(found, int) and not progress.missing(found)


def _names_session(name: str) -> bool:
    """Whether a part of a path is the name of a session that may exist."""
    return (
        name in ("last", "open") or name.startswith("id:") or (name.isascii() and name.isdecimal() and len(name) < 10)
    )


async def _named(call: Call, live: LiveState, head: Head) -> int | OpenSession | None:
    """The number of the closed session, or the open session, that the path names; `None` where there is none."""
    name = call.path["session"]
    if name == "last":
        return head.closed or None
    if name == "open":
        return head.find(None)
    if name.startswith("id:"):
        session_id = name.removeprefix("id:")
        return head.find(session_id) or await closed_session(live.store, call.key, session_id)
    return int(name) if 1 <= int(name) <= head.closed else None


async def _session_view(call: Call, live: LiveState, found: int | OpenSession, progress: Progress) -> SessionView:
    where = await _position(call, progress)
    if isinstance(found, OpenSession):
        return SessionView(
            session_id=found.session_id,
            status="open",
            remembered=False,
            applied=progress.applied,
            position=where,
            lines=await open_lines(live.store, call.key, found),
        )
    return SessionView(
        session=found,
        session_id=(await session_ids(live.store, call.key, [found])).get(found),
        status=status_of(found, progress),
        remembered=not progress.missing(found),
        applied=progress.applied,
        missing=progress.missing(found),
        position=where,
        segments=tuple(await read_session_segments(live.store, call.key, found)),
    )


# ---- memories


async def list_memories(call: Call) -> Response:
    """Memories in the order of their sessions: those that hold now, all, or those known at a time."""
    query = call.query(MemoriesQuery)
    live = await call.live()
    _, progress = await _known(call, live)
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
    await _known(call, live)
    at = query.at or datetime.now(UTC)
    found = await read_profile(live.store, call.key, at=at, person=query.person, budget_tokens=query.budget_tokens)
    return answer(ProfileView(profile=found, text=found.text))


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
    _, progress = await _known(call, live)
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
    """A node of the tree with its children; without a node, the root."""
    query = call.query(TreeQuery)
    live = await call.live()
    reader = TreeReader(live.store, call.key)
    node = (await reader.nodes([query.node])).get(query.node)
    if node is None:
        raise not_found("tree" if query.node == "root" else "node")
    children = await reader.nodes(list(node.children))
    return answer(TreeView(node=node, children=tuple(children[id_] for id_ in node.children if id_ in children)))


async def show_state(call: Call) -> Response:
    """Counts, digest, disagreements of the index and unfinished work of a conversation."""
    live = await call.live()
    if live.index is None:
        raise Problem(503, "this gateway has no Qdrant to check: set EUNOE_QDRANT_URL")
    await _known(call, live)
    states = await read_states(cast("RedisStore", live.store), live.index, [call.key])
    if not states:
        raise not_found("conversation")
    (state,) = states
    stages: dict[str, Any] = {
        stage: StageState(
            applied=part.get("applied", 0),
            tables={table: len(rows) for table, rows in part.get("tables", {}).items()},
        )
        for stage, part in state.digest.state.items()
    }
    return answer(
        StateView(
            digest=state.digest.sha256,
            stages=stages,
            index_findings=tuple(f"{one.collection.value} {one.id}: {one.kind.value}" for one in state.findings),
            unfinished=tuple(f"{one.stage}: {one.why}" for one in state.unfinished),
            decisions=tuple(
                DecisionItem(stage=one.stage, items=one.items, items_offline=one.items_offline)
                for one in decision_shares(state.digest.state)
            ),
        )
    )
