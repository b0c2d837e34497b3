"""Benchmark of a worker's memory while 100,000 events wait for a slow model.

    python -m tests.bench.bench_backpressure

Fills ``sessions`` with whole sessions of many conversations and lets ``segment`` and ``summarize`` ask a model that
takes ``--delay`` seconds for each answer. Prints the resident memory of the worker and the number of waiting events.
"""

import argparse
import asyncio
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice

from eunoe.deploy.clients.shared import open_publisher
from eunoe.deploy.settings import read_settings
from eunoe.schemas.events import CloseReason, Line, SessionClosed
from eunoe.streams.codec import encode
from eunoe.streams.lag import lag
from eunoe.streams.record import Message
from eunoe.streams.topics import Topic
from eunoe.workers.registry import STAGES
from tests.bench.counters import rss_mb
from tests.bench.rig import Rig, RigPlan, open_rig

START = datetime(2026, 1, 1, tzinfo=UTC)
MEASURED = ("segment", "summarize")
SESSIONS = 50
"""Sessions of one conversation."""
LINES = 10
BATCH = 1000
"""Messages in one publish."""


def session(conversation: int, number: int) -> SessionClosed:
    lines = tuple(
        Line(
            utterance_id=f"u{number}-{line}",
            speaker="Ann" if line % 2 else "Ben",
            text=f"In week {number} I met friend {line} of town {conversation} and we talked about the harbour.",
            at=START + timedelta(days=number, minutes=line),
        )
        for line in range(LINES)
    )
    return SessionClosed(
        conversation_id=f"c{conversation}", session=number, lines=lines, known_from=START, reason=CloseReason.ENDED
    )


def messages(events: int) -> Iterator[Message]:
    """Sessions of all conversations in turn."""
    conversations = max(1, events // SESSIONS)
    for place in range(events):
        event = session(place % conversations, place // conversations + 1)
        yield Message(Topic.SESSIONS, event.key.encode(), encode(event))


async def fill(rig: Rig, events: int) -> None:
    waiting = messages(events)
    async with open_publisher(rig.settings) as publisher:
        while batch := list(islice(waiting, BATCH)):
            await publisher.publish(batch)


async def watch(rig: Rig, seconds: float) -> list[tuple[float, float, int]]:
    """(seconds, MB, waiting events), every five seconds."""
    worker, stages = rig.workers[0], {name: STAGES[name].inputs for name in MEASURED}
    seen, started = [], time.monotonic()
    while (passed := time.monotonic() - started) < seconds:
        behind = await lag(rig.settings.kafka_settings, rig.settings.names, stages)
        seen.append((passed, rss_mb(worker.pid), behind["segment"]))
        print(f"{passed:6.0f} s  {seen[-1][1]:7.1f} MB  {behind['segment']:8d} wait", flush=True)
        await asyncio.sleep(5)
    return seen


async def main(events: int, seconds: float, delay_s: float) -> None:
    async with open_rig(RigPlan(workers=(), delay_s=delay_s), read_settings()) as rig:
        await rig.add_worker(MEASURED)
        print(f"idle    {rss_mb(rig.workers[0].pid):7.1f} MB", flush=True)
        filling = asyncio.create_task(fill(rig, events))
        seen = await watch(rig, seconds)
        await filling
        seen += await watch(rig, 20)
    memory = [mb for _, mb, _ in seen[2:]]
    print(
        f"{events} events of {LINES} lines: from {memory[0]:.0f} to {memory[-1]:.0f} MB, at most {max(memory):.0f} MB"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=100_000)
    parser.add_argument("--seconds", type=float, default=90)
    parser.add_argument("--delay", type=float, default=20.0)
    wanted = parser.parse_args()
    asyncio.run(main(wanted.events, wanted.seconds, wanted.delay))
