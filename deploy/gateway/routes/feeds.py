"""Routes that stream what becomes memory, and what was derived again."""

import re
from collections import Counter
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from functools import partial
from typing import Final
from urllib.parse import quote

from eunoe.deploy.gateway.bodies import FEED_PLACE, StreamQuery
from eunoe.deploy.gateway.calls import Call
from eunoe.deploy.gateway.feed_sharing import FeedText
from eunoe.deploy.gateway.lookups import READ_COST
from eunoe.deploy.gateway.ports import LiveState
from eunoe.deploy.gateway.problems import Problem, unavailable
from eunoe.deploy.gateway.reads import read_progress
from eunoe.deploy.gateway.sse import EventStream, write_event
from eunoe.schemas.errors import Unavailable
from eunoe.schemas.events import SessionSkipped
from eunoe.schemas.feeds import DerivedConversation, RememberedSession
from eunoe.schemas.identity import split_key
from eunoe.schemas.memory import MemoriesChanged, MemoriesDerived
from eunoe.schemas.versions import ContractError
from eunoe.streams.codec import decode
from eunoe.streams.feed import Subscription, Takes
from eunoe.streams.record import Record
from eunoe.streams.sealed.records import open_record
from eunoe.streams.settings import partition_of
from eunoe.streams.topics import Topic

_ID: Final = re.compile(FEED_PLACE)


async def follow_conversation(call: Call) -> EventStream:
    """The sessions of one conversation as they become memory, and word that it was derived again."""
    key = call.key.encode()
    return await _stream(call, lambda number: [partition_of(key, number)], lambda found: found == key)


async def follow_all(call: Call) -> EventStream:
    """The sessions of all conversations of the tenant as they become memory, and word of those derived again."""
    tenant = f"{quote(call.caller.tenant, safe='')}/".encode()

    def takes(key: bytes | None) -> bool:
        return key is not None and key.startswith(tenant) and call.caller.may_use(_conversation_of(key))

    return await _stream(call, lambda number: list(range(number)), takes)


def _conversation_of(key: bytes) -> str:
    try:
        return split_key(key.decode())[1]
    except ValueError:
        return ""


@dataclass(frozen=True, slots=True)
class FeedPlace:
    """A place in a change feed."""

    feed: str
    """As `feed_name` names it."""
    offsets: dict[int, int]
    """Partition → the next offset to read."""

    def id(self) -> str:
        """The place as the id of an event."""
        return f"{self.feed}:" + ",".join(f"{part}:{offset}" for part, offset in sorted(self.offsets.items()))


def feed_name(live: LiveState) -> str:
    """The name of the change feed that is live: the generation, and the epoch unless it is 0.

    In another epoch the same topic was created anew, as by a start of `eunoe up`: old offsets mean nothing there.
    """
    return f"{live.generation}-{live.epoch}" if live.epoch else live.generation


def read_feed_place(text: str) -> FeedPlace:
    """The place that an event's id names; raises `Problem` (422) for another text."""
    if not _ID.fullmatch(text):
        raise Problem(422, "Last-Event-ID is not that of a stream of this address: send it as it was received")
    feed, _, places = text.partition(":")
    pairs = (pair.split(":") for pair in places.split(","))
    return FeedPlace(feed, {int(partition): int(offset) for partition, offset in pairs})


def _begin_of(place: FeedPlace | None, partitions: list[int]) -> dict[int, int | None]:
    """Where to begin to read each partition; `None` means from now on. Raises `Problem` (422) for other partitions."""
    if place is None:
        return dict.fromkeys(partitions)
    if sorted(place.offsets) != sorted(partitions):
        raise Problem(422, "Last-Event-ID is of a stream of other conversations")
    return dict(place.offsets)


async def _stream(call: Call, wanted: Callable[[int], list[int]], takes: Takes) -> EventStream:
    """The stream of those partitions that are ``wanted`` of so many."""
    query = call.query(StreamQuery)
    given = call.request.headers.get("last-event-id"), query.last_event_id
    places = [read_feed_place(text) for text in given if text is not None]
    place = places[0] if places else None
    async with AsyncExitStack() as opened:
        opened.enter_context(call.gateway.streams.counted(call.caller))
        live, log = await call.live(), call.gateway.log()  # in this order: the look may bring another log
        partitions = wanted(await log.partitions(Topic.CHANGES))
        # places of another feed say nothing here: it may even have had another number of partitions
        stale = place is not None and place.feed != feed_name(live)
        begin = _begin_of(None if stale else place, partitions)
        feed = await opened.enter_async_context(log.subscribe(Topic.CHANGES, begin, takes))
        if feed.backlog is not None:  # streams wait in line however many they are: their number is bounded itself
            await call.admit(READ_COST)
            feed.turn = partial(call.gateway.resumptions.turn, call.caller)
        events = _events(call, feed, live, stale=stale or feed.lost_place)
        return call.stream(events, opened.pop_all())


async def _events(call: Call, feed: Subscription, live: LiveState, *, stale: bool) -> AsyncGenerator[bytes]:
    """The events of a stream; another generation ends it with ``reset``: read memory again, then connect again.

    A credential that is not valid any more ends it with ``error`` before the next event.
    """
    generation, place = live.generation, FeedPlace(feed_name(live), dict(feed.begin))
    yield write_event("reset" if stale else "ready", {"generation": generation}, place.id())
    shared = call.gateway.feeds
    try:
        with shared.watched(call.gateway.states, feed, generation):
            while True:
                record = await feed.next()
                place.offsets[record.partition] = record.offset + 1
                where = place.feed, record.partition, record.offset
                event = await shared.event(where, partial(_event, call, record))
                if event is not None:
                    await call.gateway.credentials.caller(call.request.headers.get("authorization"))
                    yield write_event(event.name, event.data, place.id())
    except Problem as refused:  # a stream outlives the key that it was opened with
        yield write_event("error", refused.document(call.id))
    except Unavailable as away:
        yield await _ending(call, generation, away)


async def _ending(call: Call, generation: str, fault: Unavailable) -> bytes:
    """The last event of a stream whose feed was lost."""
    with suppress(Unavailable):
        live = await call.live()
        if live.generation != generation:
            return write_event("reset", {"generation": live.generation})
    return write_event("error", unavailable(fault.server).document(call.id))


async def _event(call: Call, record: Record) -> FeedText | None:
    """The event of a record; `None` where it tells nothing of memory."""
    live = await call.live()
    try:
        opened = await open_record(record, live.data_keys)
        event = None if opened is None else decode(opened.value)
    except ContractError:
        return None
    if isinstance(event, MemoriesDerived):
        derived = DerivedConversation(conversation_id=event.conversation_id, reason=event.reason)
        return FeedText("derived", derived.to_json())
    if isinstance(event, MemoriesChanged | SessionSkipped):
        remembered = _remembered(event, (await read_progress(live.store, event.key)).applied)
        return FeedText("remembered", remembered.to_json())
    return None


def _remembered(event: MemoriesChanged | SessionSkipped, applied: dict[str, int]) -> RememberedSession:
    if isinstance(event, SessionSkipped):
        return RememberedSession(
            conversation_id=event.conversation_id, session=event.session, changes={}, skipped=True, applied=applied
        )
    return RememberedSession(
        conversation_id=event.conversation_id,
        session=event.session,
        known_from=event.known_from,
        changes=dict(Counter(change.kind for change in event.changes)),
        partial=event.partial,
        applied=applied,
    )
