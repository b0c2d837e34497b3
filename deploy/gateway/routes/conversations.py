"""Routes that read conversations and their sessions."""

import asyncio
import base64
import json
from contextlib import nullcontext
from datetime import UTC, datetime
from time import monotonic
from typing import Final

from starlette.responses import Response

from eunoe.deploy.gateway.bodies import (
    PageQuery,
    SessionPageQuery,
    WaitQuery,
)
from eunoe.deploy.gateway.calls import Call, answer, while_connected
from eunoe.deploy.gateway.ports import LiveState
from eunoe.deploy.gateway.problems import Problem, not_found
from eunoe.deploy.gateway.reads import (
    Progress,
    closed_session,
    open_lines,
    read_head,
    read_progress,
    session_ids,
    session_item,
    status_of,
)
from eunoe.deploy.gateway.results import (
    ConversationItem,
    ConversationPage,
    ConversationStatus,
    LogPosition,
    OpenSessionItem,
    SessionPage,
    SessionView,
)
from eunoe.schemas.ports import ActiveConversation
from eunoe.streams.position import position, split_position
from eunoe.streams.settings import partition_of
from eunoe.streams.topics import Topic
from eunoe.workers.compress.reads import read_session_segments, read_stats
from eunoe.workers.intake.head import Head, OpenSession

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
    (head, progress), stats = await asyncio.gather(known_conversation(call, live), read_stats(live.store, call.key))
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
            segments=stats.segments,
            applied=progress.applied,
            position=await _position(call, progress),
        )
    )


async def known_conversation(call: Call, live: LiveState) -> tuple[Head, Progress]:
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
    head, progress = await known_conversation(call, live)
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
    with call.gateway.waits.counted(call.caller) if seconds else nullcontext():
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
