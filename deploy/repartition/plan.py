"""Plans a change of the number of partitions: from which generation to which, or how one that was begun goes on."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from eunoe.deploy.clients.live_settings import of_generation, settings_in
from eunoe.deploy.clients.shared import open_redis
from eunoe.deploy.generations.rebuild.begun import redis_processes
from eunoe.deploy.settings import Settings
from eunoe.schemas.errors import Refused
from eunoe.streams.admin import check_log_is_open
from eunoe.streams.reader import partitions_of
from eunoe.streams.topics import Topic
from eunoe.workers.stores.records.generations import FIRST, Generation, GenerationState, RedisGenerations

_NUMBERED = re.compile(r"v(\d{1,9})")


@dataclass(frozen=True, slots=True)
class Move:
    """The source and the target of a change of partitions."""

    source: Settings
    """Settings of the generation that reads the present log."""
    target: Settings
    before: int
    """Number of partitions of the present log."""
    partitions: int
    row: Generation
    is_new: bool = True
    """Whether no earlier attempt has begun it."""

    @property
    def names(self) -> tuple[str, str]:
        """The topic names of the present and the new log."""
        return self.source.names.name(Topic.CONVERSATIONS), self.target.names.name(Topic.CONVERSATIONS)


def unfinished(rows: Mapping[str, Generation], live_log: int) -> Generation | None:
    """The generation of a change of partitions that was begun and not finished; `None` where there is none."""
    for row in rows.values():
        if "partitions" in row.plan and (row.log > live_log or row.state is GenerationState.MOVING):
            return row
    return None


def check_goes_on(begun: Generation, partitions: int, into: str | None) -> None:
    """Raise `Refused` for other options than those of the change that was begun."""
    wanted = begun.plan["partitions"]
    if str(partitions) != wanted or into not in (None, begun.name):
        undo = "" if begun.state is GenerationState.MOVING else f", or `eunoe drop {begun.name}` first"
        raise Refused(
            f"a change to {wanted} partitions (generation {begun.name}) was begun and not finished: continue with"
            f" `eunoe topics repartition {wanted}`{undo}"
        )


def next_name(taken: set[str]) -> str:
    """The first of v2, v3 … after all names in ``taken``."""
    numbers = [int(match[1]) for name in taken if (match := _NUMBERED.fullmatch(name))]
    return f"v{max(numbers, default=1) + 1}"


async def survey(settings: Settings, partitions: int, into: str | None = None) -> Move:
    """Plan the change to ``partitions``; writes nothing.

    Raises `Refused` where the log has that number, the name is taken or another change is unfinished, `Unavailable`
    when a server is down.
    """
    await check_log_is_open(settings.kafka_settings, settings.names)
    await redis_processes(settings)  # its rebuild asks for them: a user who may not is told before anything is copied
    async with open_redis(settings) as redis:
        registry = RedisGenerations(redis, settings.prefix)
        live = (await registry.pointer()).live or FIRST
        rows = {row.name: row for row in await registry.all()}
        present = await settings_in(registry, settings.model_copy(update={"generation": live}))
        begun = unfinished(rows, present.names.log)
        if begun is not None:
            check_goes_on(begun, partitions, into)
            source = await settings_in(registry, settings.model_copy(update={"generation": begun.source, "log": None}))
            return _move(source, await _partitions(source), partitions, begun, is_new=False)
        name = into or next_name({live, *rows})
        if name in {live, *rows}:
            raise Refused(
                f"generation {name} exists: choose another name with --into, or run `eunoe drop {name}` first"
            )
        before = await _partitions(present)
        if before == partitions:
            raise Refused(f"{present.names.name(Topic.CONVERSATIONS)} has {partitions} partitions already")
        row = Generation(
            name=name,
            state=GenerationState.BUILDING,
            made_at=datetime.now(UTC),
            source=live,
            changes=rows[live].changes if live in rows else {},
            plan={"partitions": str(partitions)},
            log=present.names.log + 1,
        )
        return _move(present, before, partitions, row)


def _move(source: Settings, before: int, partitions: int, row: Generation, *, is_new: bool = True) -> Move:
    target = of_generation(source, row.name, {}).model_copy(update={"log": row.log})
    return Move(source, target, before, partitions, row, is_new)


async def _partitions(settings: Settings) -> int:
    (partitions,) = await partitions_of(settings.kafka_settings, settings.names, [Topic.CONVERSATIONS])
    return partitions
