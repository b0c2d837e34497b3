"""Benchmark of the latency of an ask, hop by hop, on the embedded servers."""

import time
from collections.abc import Iterable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from statistics import quantiles

from eunoe.deploy.clients.shared import open_publisher, open_store
from eunoe.deploy.datasets.load import load_conversation
from eunoe.deploy.datasets.loaded import LoadedConversation
from eunoe.deploy.demo.bundled import CONVERSATION
from eunoe.deploy.demo.play import expected_sessions, produce, wait_until_remembered
from eunoe.deploy.process.temporary import temporary_servers
from eunoe.deploy.settings import Settings
from eunoe.schemas.events import DEFAULT_TENANT, ReplyContext, Utterance
from eunoe.schemas.identity import conversation_key
from eunoe.schemas.replies import Reply
from eunoe.streams.client import MemoryClient
from eunoe.streams.codec import decode
from eunoe.streams.reader import read_all
from eunoe.streams.topics import Topic

WARM_UP = 3

HOPS = ("client → log", "intake", "respond", "reply → client", "whole")


@dataclass(frozen=True, slots=True)
class AskTimes:
    """Percentiles in milliseconds."""

    p50_ms: float
    p95_ms: float


@dataclass(frozen=True, slots=True)
class TimedAsk:
    """The times at which a client sent an ask and received the reply, in milliseconds since the epoch."""

    sent_ms: float
    received_ms: float


async def bench_ask(settings: Settings, asks: int) -> dict[str, AskTimes]:
    """Hop → latency of ``asks`` unrecorded asks, after the bundled conversation is remembered.

    The hops between client and client are read from the time stamps of the records, in whole milliseconds.
    """
    loaded = load_conversation(CONVERSATION)
    async with AsyncExitStack() as closing:
        settings = await closing.enter_async_context(temporary_servers(settings, workers=True))
        store = await closing.enter_async_context(open_store(settings))
        async with open_publisher(settings) as publisher:
            await produce(publisher, loaded.events, lambda _: None)
        key = conversation_key(DEFAULT_TENANT, loaded.conversation_id)
        await wait_until_remembered(store, key, expected_sessions(loaded.events), lambda _: None, 60.0)
        times = await hop_times(settings, await _ask_all(settings, loaded, asks))
        return {name: _times(values) for name, values in times.items()}


async def _ask_all(settings: Settings, loaded: LoadedConversation, asks: int) -> dict[str, TimedAsk]:
    timed: dict[str, TimedAsk] = {}
    async with MemoryClient(
        settings.kafka_settings, conversation_id=loaded.conversation_id, names=settings.names
    ) as memory:
        for number in range(WARM_UP + asks):
            question = loaded.questions[number % len(loaded.questions)]
            sent = time.time()
            reply = await memory.ask(question.question, speaker="bench", record=False)
            if number >= WARM_UP:
                timed[reply.request_id] = TimedAsk(sent * 1000, time.time() * 1000)
    return timed


async def _stamps(settings: Settings) -> dict[str, dict[Topic, int]]:
    """Request id → topic → time stamp of its record."""
    stamps: dict[str, dict[Topic, int]] = {}
    for topic in (Topic.CONVERSATIONS, Topic.REPLY_CONTEXTS, Topic.REPLIES):
        async for record in read_all(settings.kafka_settings, settings.names, topic):
            request_id = _request_of(decode(record.value))
            if request_id is not None:
                stamps.setdefault(request_id, {})[topic] = record.timestamp_ms
    return stamps


def _request_of(event: object) -> str | None:
    if isinstance(event, Reply):
        return event.request_id
    if isinstance(event, ReplyContext):
        return event.request.request_id
    return event.ask.request_id if isinstance(event, Utterance) and event.ask else None


async def hop_times(settings: Settings, timed: Mapping[str, TimedAsk]) -> dict[str, list[float]]:
    """Hop → milliseconds of each ask (by request id), from the time stamps of its records."""
    stamps = await _stamps(settings)
    rows = [_hops(ask, stamps[request_id]) for request_id, ask in timed.items()]
    return {name: [row[place] for row in rows] for place, name in enumerate(HOPS)}


def _hops(ask: TimedAsk, stamps: dict[Topic, int]) -> tuple[float, ...]:
    said, asked, replied = (stamps[topic] for topic in (Topic.CONVERSATIONS, Topic.REPLY_CONTEXTS, Topic.REPLIES))
    return (
        said - ask.sent_ms,
        asked - said,
        replied - asked,
        ask.received_ms - replied,
        ask.received_ms - ask.sent_ms,
    )


def _times(values: Iterable[float]) -> AskTimes:
    cuts = quantiles(values, n=20, method="inclusive")
    return AskTimes(p50_ms=round(cuts[9], 2), p95_ms=round(cuts[18], 2))
