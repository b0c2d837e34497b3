"""The feed of what becomes memory, followed over HTTP. Knows no Kafka."""

import asyncio
import random
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from typing import Final

import httpx2

from eunoe.schemas.feeds import DerivedConversation, RememberedSession
from eunoe.streams.attempts import TryAgain
from eunoe.streams.gateway import GatewayConnection, GatewayRequest, path_of

_PAUSE_S: Final = (0.1, 1.0)
"""Bounds of the pause before a stream that broke is opened again; all clients of a replica lose theirs at once."""


@dataclass(frozen=True, slots=True)
class FeedEvent:
    """An event of the feed."""

    place: str
    """Its id: the feed goes on behind it, at any replica."""
    session: RememberedSession | None
    """`None`: memory was derived again. Read again what you keep of it: of ``derived``, or of all conversations."""
    derived: DerivedConversation | None = None
    """The conversation whose memory was derived again in its place, as by an erasure; `None`: all were, as where
    another generation is live, or `eunoe up` was started again."""


async def remembered_place(
    gateway: GatewayConnection, conversation_id: str | None = None, *, timeout: float = 30.0
) -> str:
    """The present place of the feed of a conversation, or of all that the key reaches.

    What is read of memory afterwards has all that came before the place; `remembered_feed` behind it tells the rest.
    Raises `Unavailable` where no stream can be opened for ``timeout`` seconds, `GatewayRefused` for a key without the
    right.
    """

    async def first() -> str:
        async with gateway.events(GatewayRequest("GET", _path(conversation_id))) as events:
            async for event in events:
                if event.event == "error":
                    raise gateway.stream_problem(event.data)
                if event.id:
                    return event.id
        raise gateway.ended_early()

    return await gateway.retried(first, timeout)


def _path(conversation_id: str | None) -> str:
    return path_of("remembered") if conversation_id is None else path_of("conversations", conversation_id, "remembered")


async def remembered_feed(
    gateway: GatewayConnection, conversation_id: str | None = None, *, after: str | None = None, timeout: float = 30.0
) -> AsyncGenerator[FeedEvent]:
    """The sessions of a conversation, or of all that the key reaches, as they become memory, and what is derived again.

    Begins behind the place ``after``, else now; goes on by itself where the stream breaks. Whoever keeps a copy of
    memory takes `remembered_place`, reads, and follows from there: what becomes memory between a read and a feed that
    begins now is told by neither. Ends by an exception alone: `Unavailable` where no stream can be opened for
    ``timeout`` seconds, `GatewayRefused` for a key without the right.
    """
    path = _path(conversation_id)
    last = after

    async def opened() -> tuple[AsyncExitStack, AsyncIterator[httpx2.ServerSentEvent]]:
        request = GatewayRequest("GET", path, headers={} if last is None else {"Last-Event-ID": last})
        async with AsyncExitStack() as opening:
            events = await opening.enter_async_context(gateway.events(request))
            return opening.pop_all(), events

    while True:
        connection, events = await gateway.retried(opened, timeout)
        with suppress(TryAgain):
            async with connection:
                async for event in events:
                    if event.event == "error":
                        raise gateway.stream_problem(event.data)
                    before, last = last, event.id or last
                    if event.event == "remembered" and last is not None:
                        yield FeedEvent(last, RememberedSession.model_validate_json(event.data, extra="ignore"))
                    elif event.event == "derived" and last is not None:
                        yield FeedEvent(last, None, DerivedConversation.model_validate_json(event.data, extra="ignore"))
                    elif event.event == "reset" and last is not None and last != before:
                        yield FeedEvent(last, None)  # the first event of the next stream, which has its place
        await asyncio.sleep(random.uniform(*_PAUSE_S))  # noqa: S311 - so that clients do not come all at once
