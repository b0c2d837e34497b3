"""Benchmark of timeline queries in a component of 10,000 memories: ``python -m tests.bench.bench_timelines``.

Queries the timelines of k = 3 retrieved memories, in the in-memory store or with ``--redis URL`` in Redis.
"""

import argparse
import asyncio
import random
import time
from collections.abc import Callable
from statistics import quantiles

from redis.asyncio import Redis

from eunoe.schemas.decisions import Commit, Scope
from eunoe.schemas.events import Provenance
from eunoe.schemas.ports import StateStore
from eunoe.schemas.relations import Relation
from eunoe.workers.link.graph import NAME, AgeKey, Related, choose_links
from eunoe.workers.link.reads import read_stored_neighbours, read_timelines
from eunoe.workers.link.settings import TimelineSettings
from eunoe.workers.link.writes import graph_writes
from eunoe.workers.stores.redis.keys import Keys
from eunoe.workers.stores.state.memory_store import MemoryStore
from eunoe.workers.stores.state.redis_store import RedisStore

KEY = "default/bench"
PER_SESSION = 10
Shape = Callable[[random.Random, int], list[int]]
MADE_BY = Provenance(code="bench", model="bench")


def order(number: int) -> AgeKey:
    return AgeKey(number // PER_SESSION + 1, number % PER_SESSION, f"{number:08d}-0000-5000-8000-000000000000")


def chain(choose: random.Random, number: int) -> list[int]:
    """Link every memory to one of the session before it."""
    return [number - PER_SESSION] if number >= PER_SESSION else []


def near(choose: random.Random, number: int) -> list[int]:
    """Link to three of the last hundred memories."""
    earlier = number - number % PER_SESSION
    return sorted({choose.randrange(max(0, earlier - 100), earlier) for _ in range(3)}) if earlier else []


def anywhere(choose: random.Random, number: int) -> list[int]:
    """Link to three of all earlier memories."""
    earlier = number - number % PER_SESSION
    return sorted({choose.randrange(earlier) for _ in range(3)}) if earlier else []


def hub(choose: random.Random, number: int) -> list[int]:
    """Link all memories to the first one."""
    return [0] if number >= PER_SESSION else []


async def plant(store: StateStore, shape: Shape, memories: int, every_edge: bool) -> None:
    """Build a graph of a shape, session by session.

    With ``every_edge`` all edges are kept, not only one per component as Algorithm 1 of THEANINE does.
    """
    choose = random.Random(7)
    scope = Scope(NAME, KEY)
    for first in range(0, memories, PER_SESSION):
        new = [order(number) for number in range(first, first + PER_SESSION)]
        related = [
            Related(order(older), order(number), Relation.SAME_TOPIC)
            for number in range(first, first + PER_SESSION)
            for older in shape(choose, number)
        ]
        known = await read_stored_neighbours(store, KEY, sorted({pair.older.memory_id for pair in related}))
        session = first // PER_SESSION + 1
        links = related if every_edge else choose_links(related, known.roots)
        writes = graph_writes(new, links, known, MADE_BY)
        if not await store.commit(scope, Commit(expect=session - 1, applied=session, writes=tuple(writes))):
            raise SystemExit("the store is not empty")


async def measure(store: StateStore, memories: int, queries: int) -> tuple[list[float], int, int]:
    choose = random.Random(11)
    times: list[float] = []
    longest = cut = 0
    for _ in range(queries):
        retrieved = [order(choose.randrange(memories)).memory_id for _ in range(3)]
        start = time.perf_counter()
        found = await read_timelines(store, KEY, retrieved, TimelineSettings())
        times.append((time.perf_counter() - start) * 1000)
        longest = max(longest, *(len(timeline.memories) for timeline in found))
        cut += sum(timeline.truncated for timeline in found)
    return times, longest, cut


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--memories", type=int, default=10_000)
    parser.add_argument("--queries", type=int, default=40)
    parser.add_argument("--redis", help="URL of a Redis to use instead of the in-memory store")
    wanted = parser.parse_args()
    for shape, every_edge in (
        (chain, False),
        (near, False),
        (anywhere, False),
        (hub, False),
        (near, True),
        (anywhere, True),
    ):
        name = f"{shape.__name__}{', every edge' if every_edge else ''}"
        await run(name, shape, every_edge, wanted)


async def run(name: str, shape: Shape, every_edge: bool, wanted: argparse.Namespace) -> None:
    """Build the graph, query it, print the times."""
    store: StateStore = MemoryStore()
    if wanted.redis:
        store = RedisStore(Redis.from_url(wanted.redis), Keys(prefix="bench", generation=f"t{time.time_ns()}"))
    start = time.perf_counter()
    await plant(store, shape, wanted.memories, every_edge)
    planted = (time.perf_counter() - start) * 1000 / (wanted.memories / PER_SESSION)
    times, longest, cut = await measure(store, wanted.memories, wanted.queries)
    cuts = quantiles(times, n=20)
    print(
        f"{name:20} p50 {cuts[9]:6.1f} ms, p95 {cuts[18]:6.1f} ms; longest {longest:2}, cut {cut} of"
        f" {3 * wanted.queries}; growth {planted:.2f} ms a session"
    )


if __name__ == "__main__":
    asyncio.run(main())
