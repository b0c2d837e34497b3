"""Samples the progress of all stages of a process."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from eunoe.deploy.observability.health import HealthState
from eunoe.deploy.observability.rounds import Faults, repeat
from eunoe.schemas.errors import Unavailable
from eunoe.streams.cancelling import cancelled
from eunoe.streams.group.end_watch import EndWatch
from eunoe.streams.group.partition import LogicalPartition
from eunoe.streams.group.stage_consumer import StageConsumer
from eunoe.streams.topics import Topic
from eunoe.workers.runner.backoff import Absence

EVERY_S = 2.0
IDLE_ROUNDS = 5
"""Samples of which one is taken while nothing is to be done."""


@asynccontextmanager
async def monitored(health: HealthState, consumers: Mapping[str, StageConsumer], ends: EndWatch) -> AsyncIterator[None]:
    """Sample every `EVERY_S` seconds during the body, more seldom while nothing changes and nothing is left to do."""
    task = asyncio.create_task(_run(health, consumers, ends))
    try:
        yield
    finally:
        await cancelled(task)
        await ends.close()


async def _run(health: HealthState, consumers: Mapping[str, StageConsumer], ends: EndWatch) -> None:
    rounds, absence = Rounds(), Absence(health.outages)

    async def sample_where_due() -> None:
        handled = {stage: consumer.handled() for stage, consumer in consumers.items()}
        if rounds.is_due(handled, idle=_is_idle(health, consumers)):
            await sample(health, consumers, ends, absence)

    await repeat(sample_where_due, EVERY_S, Faults("the sample of the stages' progress"))


class Rounds:
    """Chooses the samples to take."""

    def __init__(self) -> None:
        self._before: object = None
        self._left_out = 0

    def is_due(self, handled: object, *, idle: bool) -> bool:
        """Whether to sample now: always but where, idle, all was ``handled`` up to here at the last time already."""
        unchanged, self._before = idle and handled == self._before, handled
        self._left_out = self._left_out + 1 if unchanged and self._left_out < IDLE_ROUNDS - 1 else 0
        return self._left_out == 0


def _is_idle(health: HealthState, consumers: Mapping[str, StageConsumer]) -> bool:
    """Whether no record was left at the last sample, and none is in work."""
    if any(one.rebalancing or one.dispatcher.in_work for one in consumers.values()):
        return False
    return not any(any(health.progress(stage).lag().values()) for stage in consumers)


async def sample(health: HealthState, consumers: Mapping[str, StageConsumer], ends: EndWatch, absence: Absence) -> None:
    """Sample all stages once. Where no broker answers, the ends of the partitions stay those known before.

    That counts as a wait (``absence``): consumers of a broker that is away only see no records.
    """
    handled = {stage: consumer.handled() for stage, consumer in consumers.items()}
    known: dict[LogicalPartition, int] = {}
    try:
        letters = {(Topic.DEAD_LETTERS.value, partition) for partition in health.letter_ends}
        known = await ends.ends({place for places in handled.values() for place in places} | letters)
        health.letter_ends.update({partition: known[topic, partition] for topic, partition in letters})
        absence.end()
    except Unavailable as fault:
        absence.note(fault)
    for stage, consumer in consumers.items():
        health.progress(stage).sample(handled[stage], known, rebalancing=consumer.rebalancing)
