"""The work that all streams of a process share: one look at the live generation, and each event read once."""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from eunoe.deploy.gateway.ports import LiveStates
from eunoe.deploy.observability.rounds import Faults, repeat
from eunoe.streams.feed import Subscription

LOOK_S: Final = 2.0
"""Seconds between two looks at the live generation."""
_KNOWN: Final = 256
"""Events that are kept for the streams that have not sent them yet."""

EventPlace = tuple[str, int, int]
"""Feed, partition and offset of a record."""


@dataclass(frozen=True, slots=True)
class FeedText:
    """An event of a feed, as all its streams send it."""

    name: str
    data: bytes
    """JSON."""


@dataclass(slots=True)
class FeedSharing:
    """The looks and the events of all streams of a process."""

    _watched: dict[int, tuple[Subscription, str]] = field(default_factory=dict)
    _looking: "asyncio.Task[None] | None" = None
    _events: "OrderedDict[EventPlace, asyncio.Future[FeedText | None]]" = field(default_factory=OrderedDict)

    @contextmanager
    def watched(self, states: LiveStates, feed: Subscription, generation: str) -> Iterator[None]:
        """End a feed of this generation when another one is live."""
        self._watched[id(feed)] = feed, generation
        if self._looking is None:
            faults = Faults("the look whether another generation answers")
            self._looking = asyncio.create_task(repeat(partial(self._look, states), LOOK_S, faults))
        try:
            yield
        finally:
            del self._watched[id(feed)]
            if not self._watched and self._looking is not None:
                self._looking.cancel()
                self._looking = None

    async def event(self, place: EventPlace, read: Callable[[], Awaitable[FeedText | None]]) -> FeedText | None:
        """The event at a place; only the first stream that comes there reads it."""
        known = self._events.get(place)
        if known is None:
            known = self._events[place] = asyncio.ensure_future(read())
            known.add_done_callback(lambda done: self._keep(place, done))
            while len(self._events) > _KNOWN:
                self._events.popitem(last=False)
        return await asyncio.shield(known)

    def _keep(self, place: EventPlace, done: "asyncio.Future[FeedText | None]") -> None:
        if done.cancelled() or done.exception() is not None:
            self._events.pop(place, None)

    async def _look(self, states: LiveStates) -> None:
        live = await states.live()
        for feed, generation in self._watched.values():
            if generation != live.generation:
                feed.lose("another generation answers now")
