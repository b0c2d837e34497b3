"""Lists, promotes and deletes generations."""

import asyncio
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime
from time import monotonic

from eunoe.deploy.clients.bootstrap import open_qdrant
from eunoe.deploy.clients.connect import check_not_of_stack
from eunoe.deploy.clients.live_settings import of_generation, settings_in
from eunoe.deploy.clients.shared import open_publisher, open_redis, remove_snapshots, state_store, store_keys
from eunoe.deploy.generations.erase.loop import no_erasure
from eunoe.deploy.generations.rebuild.keeping import remove_folder
from eunoe.deploy.generations.reindex import check_index_there, check_index_whole
from eunoe.deploy.inspect.counted import counted, named_there
from eunoe.deploy.progress import ReportCount
from eunoe.deploy.settings import Settings
from eunoe.schemas.errors import Refused
from eunoe.schemas.records import GenerationPromoted
from eunoe.streams.admin import delete_topics
from eunoe.streams.codec import encode
from eunoe.streams.groups import delete_groups, groups_with_members
from eunoe.streams.lag import Ends, ends_now, lag
from eunoe.streams.reader import partitions_of
from eunoe.streams.record import Message
from eunoe.streams.topics import Topic, TopicNames
from eunoe.workers.registry import STAGES
from eunoe.workers.stores.records.generations import (
    FIRST,
    Generation,
    GenerationState,
    Listed,
    Pointer,
    RedisGenerations,
    forget_generation,
    listed,
)
from eunoe.workers.stores.vectors.qdrant import QdrantIndex

POLL_S = 0.5
STALLED_S = 60.0
"""Seconds without a shrinking lag after which a generation is taken to have no workers."""
HOPS = 6
"""Topics that an utterance passes one after the other, from the log to the tree."""
_STAGES = {name: spec.inputs for name, spec in STAGES.items()}


async def list_generations(settings: Settings) -> list[Listed]:
    """The live generation, the first one and all rebuilt ones, by name; raises `Unavailable`."""
    async with open_redis(settings) as redis:
        return await listed(RedisGenerations(redis, settings.prefix))


async def promote(settings: Settings, name: str, report_lag: ReportCount) -> str:
    """Let a generation answer from now on; returns the name of the one that answered before.

    First waits until the generation's workers have caught up; ``report_lag`` is called with the number of records
    left. Then publishes a control record into every partition of the log: asks before it belong to the old
    generation, those after it to the new one. Neither memory changes, so promoting the old one again undoes it,
    also where this was interrupted between the two.

    Raises `Refused` for a generation that is incomplete, has no workers (as `check_workers` says) or lacks points in
    Qdrant, where another one's promotion was interrupted, and while partitions are being changed; `Unavailable` when a
    server is down.
    """
    async with open_redis(settings) as redis:
        registry = RedisGenerations(redis, settings.prefix)
        pointer, made = await registry.pointer(), await registry.find(name)
        before = pointer.live or FIRST
        _check_whole(name, pointer, made)
        check_next(name, before, pointer.promoting)
        live = await settings_in(registry, settings.model_copy(update={"generation": before}))
        check_same_log(live.names, name, made)
        check_no_move(await registry.all())
        target = await settings_in(registry, settings.model_copy(update={"generation": name}))
        await check_index_there(target)  # its memory stages wait then and would never catch up
        await caught_up(target, report_lag)
        await check_workers(target)
        await check_index_whole(target)
        if pointer.promoting == before:
            await registry.promote(before)  # all of it was done but to take the note away
        check_no_move(await registry.all())
        await registry.begin_promotion(name)
        await _append_promotions(target, name, await registry.announce(name))
        await registry.promote(name)
    return before if name != before else str(pointer.promoting)


def check_same_log(live: TopicNames, name: str, made: Generation | None) -> None:
    """Raise `Refused` for a generation that reads another log than the live one."""
    log = 0 if made is None else made.log
    if log > live.log:
        wanted = "N" if made is None else made.plan.get("partitions", "N")
        raise Refused(
            f"{name} reads a log that clients do not produce into yet: continue `eunoe topics repartition {wanted}`"
        )
    if log < live.log:
        left, present = replace(live, log=log).name(Topic.CONVERSATIONS), live.name(Topic.CONVERSATIONS)
        raise Refused(
            f"{name} reads {left}, which {present} has replaced: it lacks everything said since then. Build another"
            " generation from the present log (`eunoe rebuild`); to change partitions, `eunoe topics repartition`"
        )


def check_no_move(rows: Iterable[Generation]) -> None:
    """Raise `Refused` where a generation is taking over the log with other partitions, and is live at the end of that.

    Another one that became live meanwhile would read the log that is closed then.
    """
    for row in rows:
        if row.state is GenerationState.MOVING:
            wanted = row.plan.get("partitions", "N")
            raise Refused(f"{row.name} is taking over the log: finish `eunoe topics repartition {wanted}` first")


def check_next(name: str, live: str, promoting: str | None) -> None:
    """Raise `Refused` where ``name`` is live, and where the promotion of another one was interrupted.

    The live generation undoes an interrupted promotion, for which it is promoted once more.
    """
    interrupted = promoting not in (None, live)
    if name == live and not interrupted:
        raise Refused(f"{name} is live already")
    if interrupted and name not in (live, promoting):
        raise Refused(f"the promotion of {promoting} was interrupted: {_way_out(str(promoting), live)}")


def _way_out(promoting: str, live: str) -> str:
    return f"`eunoe promote {promoting}` completes it, `eunoe promote {live}` undoes it"


def _check_whole(name: str, pointer: Pointer, made: Generation | None) -> None:
    if made is None and name not in (pointer.first, pointer.live):
        raise Refused(f"no generation {name}: see `eunoe generations`, or build it with `eunoe rebuild --into {name}`")
    if made is not None and made.state is GenerationState.PARTIAL:
        raise Refused(f"{name} holds only a part of the memory ({made.plan}) and cannot be promoted")
    if made is not None and made.state is GenerationState.BUILDING:
        wanted = made.plan.get("partitions")
        again = f"eunoe topics repartition {wanted}" if wanted else f"eunoe rebuild --into {name}"
        raise Refused(f"{name} is incomplete: run `{again}` again to continue")


async def caught_up(settings: Settings, report_lag: ReportCount) -> None:
    """Wait until the stages of a generation have handled all records present at the call, and what these led to.

    Records that come in later are not waited for. ``report_lag`` is called with the number of records left. Raises
    `Refused` where none are handled for `STALLED_S`: the generation has no workers.
    """
    kafka, names = settings.kafka_settings, settings.names
    topics = {topic for spec in STAGES.values() for topic in spec.inputs}
    for _ in range(HOPS):
        await _handled(settings, await ends_now(kafka, names, topics), report_lag)
        if not any((await lag(kafka, names, _STAGES)).values()):
            break
    report_lag(0)


async def _handled(settings: Settings, ends: Ends, report_lag: ReportCount) -> None:
    """Wait until all records before ``ends`` are handled."""
    least, since = None, monotonic()
    while left := sum((await lag(settings.kafka_settings, settings.names, _STAGES, ends)).values()):
        report_lag(left)
        if least is None or left < least:
            least, since = left, monotonic()
        if monotonic() - since > STALLED_S:
            name = settings.names.generation
            raise Refused(f"{name} is {counted(left, 'record')} behind and makes no progress: {_starting(name)}")
        await asyncio.sleep(POLL_S)


async def check_workers(settings: Settings) -> None:
    """Raise `Refused` where a stage that clients wait for has no worker: their asks would stay unanswered.

    A memory stage that has caught up may have none, as autoscaling leaves it. With the embedded broker nothing is
    checked: it names members for a while after they have left, and the next `eunoe up` starts workers of the generation
    that is live then. Raises `Unavailable` when a server is down.
    """
    if settings.broker.embedded:
        return
    groups = {settings.names.group(name): name for name, spec in STAGES.items() if spec.answers}
    found = await groups_with_members(settings.kafka_settings, list(groups))
    if lacking := [name for group, name in groups.items() if group not in found]:
        name = settings.names.generation
        raise Refused(f"{name} has no workers of {', '.join(lacking)}, for which clients wait: {_starting(name)}")


def _starting(name: str) -> str:
    """The advice how to start the workers of a generation."""
    return f"start its workers (EUNOE_GENERATION={name} eunoe worker all, or eunoe rebuild --into {name} --follow)"


async def _append_promotions(settings: Settings, name: str, nonce: str) -> None:
    """Publish the control record of the promotion into every partition of the log."""
    kafka, names = settings.kafka_settings, settings.names
    (partitions,) = await partitions_of(kafka, names, [Topic.CONVERSATIONS])
    value = encode(GenerationPromoted(generation=name, at=datetime.now(UTC), nonce=nonce))
    async with open_publisher(settings) as publisher:
        await publisher.publish(
            [Message(Topic.CONVERSATIONS, None, value, partition=partition) for partition in range(partitions)]
        )


async def check_droppable(settings: Settings, name: str) -> None:
    """Raise `Refused` for the live generation, for an unknown one, and for one that is about to become live.

    Also for one that `eunoe up` is at work on: its broker does not tell workers that have ended from those that run.
    """
    found = {listed.name: listed for listed in await list_generations(settings)}
    if name not in found:
        raise Refused(f"no generation {name}: {named_there(found)}")
    if found[name].is_live:
        raise Refused(f"{name} is live: promote another generation first")
    if found[name].is_promoting:
        live = next(one.name for one in found.values() if one.is_live)
        raise Refused(f"the promotion of {name} was interrupted, and it may answer: {_way_out(name, live)}")
    made = found[name].made
    if made is not None and made.state is GenerationState.MOVING:
        raise Refused(f"{name} answers already: continue `eunoe topics repartition {made.plan['partitions']}`")
    check_not_of_stack(settings, name)


async def _idle_groups(settings: Settings) -> list[str]:
    """The consumer groups of a generation; raises `Refused` where a worker is a member of one.

    The embedded broker names members for a while after they have left; there nothing is checked.
    """
    kafka, names = settings.kafka_settings, settings.names
    groups = [names.group(stage) for stage in STAGES]
    if not settings.broker.embedded and (busy := await groups_with_members(kafka, groups)):
        raise Refused(f"workers of {names.generation} run ({', '.join(busy)}): stop them first")
    return groups


async def drop(settings: Settings, name: str) -> int:
    """Delete a generation: topics, consumer groups, vectors, state; returns the number of deleted Redis keys.

    Stop its workers first: while they run it is refused. An erasure that runs is waited for. The log stays, except a
    copy with another number of partitions that clients do not use yet. Raises `Refused` as `check_droppable` does,
    `Unavailable` when a server is down, or the generation has snapshots in another cold store.
    """
    async with no_erasure(settings):  # it would write the state of this generation once more
        return await _drop(settings, name)


async def _drop(settings: Settings, name: str) -> int:
    await check_droppable(settings, name)
    async with open_redis(settings) as redis:
        registry = RedisGenerations(redis, settings.prefix)
        live = await settings_in(registry, settings.model_copy(update={"generation": None}))
        made = await registry.find(name)
    if made is not None:
        remove_folder(settings.prefix, made)
    log = 0 if made is None else made.log
    target = of_generation(settings, name, {}).model_copy(update={"log": log})
    groups = await _idle_groups(target)
    async with open_redis(target) as redis:  # first: the mark by which the store is known goes with the state
        await state_store(target, redis, store_keys(target), None).cold.check_store()
    await delete_topics(target.kafka_settings, target.names, log_too=log > live.names.log)
    await delete_groups(target.kafka_settings, groups)
    async with open_qdrant(target) as client:
        await QdrantIndex(client, store_keys(target)).drop_generation()
    async with open_redis(target) as redis:
        await remove_snapshots(target)
        removed = await forget_generation(redis, store_keys(target))
        await RedisGenerations(redis, settings.prefix).forget(name)
    return removed
