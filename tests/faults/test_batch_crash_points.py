"""Stages that decide waiting sessions together, killed or asleep at each step of the one commit: the same memory."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import pytest

from eunoe.streams.memory_log import MemoryConsumer
from eunoe.streams.record import Lease, Record
from eunoe.workers.registry import STAGES
from eunoe.workers.runner.decider import RunnerSettings
from eunoe.workers.runner.errors import Fenced
from eunoe.workers.runner.inbound import LogPlace
from eunoe.workers.runner.metrics import StageMeter
from eunoe.workers.runner.outbox import Sender
from eunoe.workers.runner.runner import Runner
from eunoe.workers.stage import Batching
from eunoe.workers.stores.uncommitted import UncommittedState
from tests.faults.test_crash_points import STEPS, Killed, Plant, Wire, Wired
from tests.support.in_memory import make_dependencies
from tests.support.schedule import PATIENT

BATCHED = [name for name, spec in STAGES.items() if spec.batching is not Batching.ALONE]
POINTS = [
    pytest.param(stage, step, when, id=f"{stage}-{when}-{step}")
    for stage in BATCHED
    for step in STEPS[stage]
    for when in ("before", "after")
]


@dataclass
class BatchPlant(Plant):
    """All stages, one of which comes last, so that sessions wait for it; it is given them together."""

    batched: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.meter = StageMeter()

    def processes(self, wires: Mapping[str, Wire] | None = None) -> MemoryConsumer:
        consumer = MemoryConsumer(self.log)
        wire = (wires or {}).get(self.batched) or Wire("", "", _nothing)
        runner = self._runner(wire)

        async def handle_batch(records: Sequence[Record], lease: Lease) -> None:
            await runner.handle_batch(records, lease)
            await wire.at("ack", "before")
            await wire.at("ack", "after")

        async def handle(record: Record, lease: Lease) -> None:
            await handle_batch([record], lease)

        consumer.subscribe(self.batched, STAGES[self.batched].inputs, handle, handle_batch)
        for name, spec in STAGES.items():
            if name != self.batched:
                consumer.subscribe(name, spec.inputs, self._handler(name, None))
        return consumer

    def _runner(self, wire: Wire) -> Runner:
        state: Any = Wired(self.stores.state, wire)
        uncommitted = UncommittedState(state, self.batched)
        known: Any = uncommitted
        stage = STAGES[self.batched].build(make_dependencies(replace(self.stores, state=known), PATIENT))
        index, log, positions = Wired(self.stores.index, wire), Wired(self.log, wire), self.stores.log_positions
        sender = Sender(state, index, positions, log, self.meter)  # type: ignore[arg-type]
        place = LogPlace(epoch=0, partitions=self.log.partitions)
        spec, settings = STAGES[self.batched], RunnerSettings(attempts=1)
        wired: Any = Wired(stage, wire)
        return Runner(spec, wired, sender, self.stores.state, place, settings, uncommitted=uncommitted)


async def _nothing() -> None:
    """The act of a wire that is never met."""


@pytest.fixture(scope="module")
def undisturbed() -> tuple[object, ...]:
    async def run() -> tuple[object, ...]:
        plant = Plant()
        await plant.processes().run_until_idle()
        return plant.known()

    return asyncio.run(run())


@pytest.mark.parametrize("stage", BATCHED)
async def test_sessions_that_wait_give_the_memory_of_sessions_that_do_not(stage: str, undisturbed: tuple[object, ...]):
    plant = BatchPlant(batched=stage)
    await plant.processes().run_until_idle()
    assert plant.known() == undisturbed
    assert plant.meter.commits < plant.meter.events


@pytest.mark.parametrize(("stage", "step", "when"), POINTS)
async def test_a_batch_that_is_killed_at_a_point_leaves_nothing_undone(
    stage: str, step: str, when: str, undisturbed: tuple[object, ...]
):
    async def kill() -> None:
        raise Killed

    plant = BatchPlant(batched=stage)
    wire = Wire(step, when, kill, left=1)
    with pytest.raises(Killed):
        await plant.processes({stage: wire}).run_until_idle()
    await plant.processes().run_until_idle()
    assert plant.known() == undisturbed


@pytest.mark.parametrize(("stage", "step", "when"), POINTS)
async def test_a_batch_that_slept_through_a_rebalance_commits_nothing(
    stage: str, step: str, when: str, undisturbed: tuple[object, ...]
):
    """While it sleeps, others do all that is to be done, from the beginning of the log; then it wakes."""
    plant = BatchPlant(batched=stage)
    waking: list[tuple[object, ...]] = []

    async def sleep() -> None:
        await plant.processes().run_until_idle()
        waking.append(plant.known())

    wire = Wire(step, when, sleep, left=1)
    with suppress(Fenced):  # the stage itself, or blend, which was waiting for memory meanwhile
        await plant.processes({stage: wire}).run_until_idle()
    assert waking == [undisturbed]
    assert plant.known() == undisturbed
