"""Benchmark of the bytes that Redis holds for a conversation, by stage and table."""

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from redis.asyncio import RedisCluster

from eunoe.deploy.progress import ReportProgress
from eunoe.deploy.settings import Settings
from eunoe.schemas.errors import Refused
from eunoe.workers.stores.redis.connection import RedisClient, as_text
from eunoe.workers.stores.redis.keys import Keys
from tests.bench.checks import check_run
from tests.bench.load import LoadPlan
from tests.bench.pipeline import play, warm_up
from tests.bench.report import Plot, Series
from tests.bench.rig import Rig, RigPlan, open_rig
from tests.bench.watch import Watch

MARKS = (1, 10, 100, 1_000)
SHARED: Final = "(not of a conversation)"
"""The row of what belongs to no conversation: timers, positions, answers of models."""
_SCAN_COUNT: Final = 1_000


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """The options of the benchmark: one conversation that grows."""

    marks: tuple[int, ...] = MARKS
    """Numbers of sessions after which the bytes are read."""
    turns: int = 10
    seed: int = 1
    rig: RigPlan = field(default_factory=lambda: RigPlan(delay_s=None))


@dataclass(frozen=True, slots=True)
class KeySize:
    """One key of Redis: its name, its bytes and its number of fields."""

    name: str
    size: int
    """Bytes by ``MEMORY USAGE`` of all elements, the key's own entry included."""
    fields: int
    """Fields of a hash, members of a sorted set; 0 of any other kind."""


async def bench_memory(
    plan: MemoryPlan, settings: Settings, report: ReportProgress = lambda *_: None
) -> dict[str, Any]:
    """Mark → bytes of a session, whole and by table; raises `WrongResult` where the result is wrong."""
    if plan.rig.attach:
        raise Refused("this benchmark reads the memory of a whole server: it needs one of its own")
    load = LoadPlan(1, 0, plan.turns, plan.seed, name="held")
    found: dict[int, tuple[int, list[KeySize]]] = {}
    async with open_rig(plan.rig, settings) as rig:
        await warm_up(rig)
        empty = await used_bytes(rig.redis)
        watch = Watch(rig.redis, rig.names, load.keys)
        held = 0
        for mark in sorted(plan.marks):
            await play(rig, replace(load, sessions=mark - held), watch, report, held + 1)
            held = mark
            found[mark] = await used_bytes(rig.redis) - empty, await _sizes(rig, load)
        await check_run(rig, load)
    return memory_figures(found, rig.names)


def memory_figures(found: Mapping[int, tuple[int, list[KeySize]]], names: Keys) -> dict[str, Any]:
    """The figures of all marks.

    ``found``: number of sessions → the growth of the server's data set in bytes, and the sizes of its keys.
    """
    totals: dict[str, dict[str, float]] = {}
    rows: dict[str, dict[str, float]] = {}
    fields: dict[str, dict[str, float]] = {}
    for mark, (grown, keys) in found.items():
        sizes, counts = by_table(keys, names)
        held = sum(size for table, size in sizes.items() if table != SHARED)
        totals[str(mark)] = {
            "bytes_per_session": round(held / mark),
            "used_memory_per_session": round(grown / mark),
            "fields_per_session": round(counts.total() / mark, 1),
        }
        for table, size in sizes.most_common():
            rows.setdefault(table, {})[str(mark)] = round(size / mark)
            fields.setdefault(table, {})[str(mark)] = round(counts[table] / mark, 1)
    ordered = sorted(rows, key=lambda table: -list(rows[table].values())[-1])
    return {
        "sessions": totals,
        "bytes_per_session_by_table": {table: rows[table] for table in ordered},
        "fields_per_session_by_table": {table: fields[table] for table in ordered},
    }


def by_table(keys: Iterable[KeySize], names: Keys) -> tuple[Counter[str], Counter[str]]:
    """Stage and table → bytes and number of fields; ledgers and parked events have the name of their stage."""
    sizes: Counter[str] = Counter()
    fields: Counter[str] = Counter()
    for key in keys:
        table = _table(key.name, names)
        sizes[table] += key.size
        fields[table] += key.fields
    return sizes, fields


def _table(name: str, names: Keys) -> str:
    if names.conversation_of(name) is None:
        return SHARED
    _, _, rest = name.partition("}:")
    stage, at, _ = rest.partition("@")
    return f"{stage}@request" if at else rest.partition("!")[0] + ("!parked" if "!" in rest else "")


async def _sizes(rig: Rig, load: LoadPlan) -> list[KeySize]:
    """The keys of the measured conversation, and those of none; the conversations of the warm-up are left out."""
    own = set(load.keys)
    found = []
    async for name in rig.redis.scan_iter(match="*", count=_SCAN_COUNT):
        key = as_text(name)
        conversation = rig.names.conversation_of(key)
        if conversation is None or conversation in own:
            found.append(_size(rig.redis, key))
    return await asyncio.gather(*found)


async def _size(redis: RedisClient, name: str) -> KeySize:
    kind = as_text(await redis.execute_command("TYPE", name))
    count = {"hash": "HLEN", "zset": "ZCARD"}.get(kind)
    fields = 0 if count is None else int(await redis.execute_command(count, name))
    size = await redis.execute_command("MEMORY USAGE", name, "SAMPLES", 0)
    return KeySize(name, int(size or 0), fields)


async def used_bytes(redis: RedisClient) -> int:
    """Bytes of the data set: ``used_memory`` without buffers of clients and of replication."""
    assert not isinstance(redis, RedisCluster)
    stats = await redis.execute_command("MEMORY STATS")  # type: ignore[no-untyped-call]
    words = stats if isinstance(stats, Mapping) else dict(zip(stats[::2], stats[1::2], strict=True))
    return int({as_text(name): value for name, value in words.items()}["dataset.bytes"])


def memory_plot(figures: Mapping[str, Any]) -> Plot:
    """A plot with a line for each table over the number of sessions."""
    series = [
        Series(table, [float(mark) for mark in row], list(row.values()))
        for table, row in figures["bytes_per_session_by_table"].items()
    ]
    return Plot("Bytes in Redis of one session", "sessions held", "bytes", series)
