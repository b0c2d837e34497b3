"""Every stage killed, or put to sleep, before and after each step of its commit: the memory of an undisturbed run.

The random schedule of `test_protocol` meets these points by chance; here each is met, by name.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest

from eunoe.schemas.decisions import Outcome, Work
from eunoe.schemas.events import Ask, ConversationEvent
from eunoe.streams.memory_log import MemoryConsumer, MemoryLog
from eunoe.streams.record import Lease, Record
from eunoe.workers.derive.in_memory import as_message
from eunoe.workers.registry import STAGES
from eunoe.workers.runner.decider import RunnerSettings
from eunoe.workers.runner.errors import Fenced
from eunoe.workers.runner.inbound import LogPlace
from eunoe.workers.runner.outbox import Sender
from eunoe.workers.runner.parts import RunnerContext
from eunoe.workers.runner.runner import Runner
from tests.support.in_memory import START, Clock, Stores, ended, make_dependencies, utterance
from tests.support.schedule import PATIENT
from tests.support.schedule_runs import dead_letters, memory, proposals, requests

STEPS: Mapping[str, tuple[str, ...]] = {
    "intake": ("decide", "commit", "publish", "mark_sent", "ack"),
    "blend": ("decide", "commit", "publish", "mark_sent", "ack"),
    "segment": ("decide", "commit", "publish", "mark_sent", "ack"),
    "compress": ("decide", "commit", "upsert", "mark_sent", "ack"),
    "summarize": ("decide", "commit", "publish", "mark_sent", "ack"),
    "update": ("decide", "commit", "upsert", "publish", "mark_sent", "ack"),
    "link": ("decide", "commit", "ack"),
    "tree": ("decide", "commit", "upsert", "mark_sent", "ack"),
    "respond": ("decide", "commit", "publish", "mark_sent", "ack"),
}
"""What each stage does with a decision, in order: link has nothing to send, only some have points."""

POINTS = [
    pytest.param(stage, step, when, id=f"{stage}-{when}-{step}")
    for stage, steps in STEPS.items()
    for step in steps
    for when in ("before", "after")
]


class Killed(BaseException):
    """What nobody catches: the process is gone."""


@dataclass
class Wire:
    """Acts when a stage comes to a point for the second time: then there is something that could be spoilt."""

    step: str
    when: str
    act: Callable[[], Awaitable[None]]
    left: int = 2

    async def at(self, step: str, when: str) -> None:
        if (step, when) == (self.step, self.when) and self.left:
            self.left -= 1
            if not self.left:
                await self.act()


@dataclass
class Wired:
    """A port, or a stage, whose steps are points."""

    inner: Any
    wire: Wire

    def __getattr__(self, name: str) -> Any:
        method = getattr(self.inner, name)
        if name not in {"commit", "upsert", "publish", "mark_sent"}:
            return method

        async def call(*words: Any) -> Any:
            await self.wire.at(name, "before")
            result = await method(*words)
            await self.wire.at(name, "after")
            return result

        return call

    async def decide(self, work: Work) -> Outcome:
        await self.wire.at("decide", "before")
        outcome: Outcome = await self.inner.decide(work)
        await self.wire.at("decide", "after")
        return outcome


@dataclass
class Plant:
    """All stages over one log and one set of stores; processes come and go."""

    log: MemoryLog = field(default_factory=lambda: MemoryLog(partitions=2, clock=Clock()))
    stores: Stores = field(default_factory=Stores)

    def __post_init__(self) -> None:
        for event in conversation():
            self.log.append(as_message(event))

    def processes(self, wires: Mapping[str, Wire] | None = None) -> MemoryConsumer:
        """A process for each stage, those of ``wires`` with a wire across each step; they begin where none has."""
        consumer = MemoryConsumer(self.log)
        for name, spec in STAGES.items():
            consumer.subscribe(name, spec.inputs, self._handler(name, (wires or {}).get(name)))
        return consumer

    def _handler(self, name: str, wire: Wire | None) -> Callable[[Record, Lease], Awaitable[None]]:
        stage = STAGES[name].build(make_dependencies(self.stores, PATIENT))
        sender = Sender(self.stores.state, self.stores.index, self.stores.log_positions, self.log)
        if wire is not None:
            stage = Wired(stage, wire)
            state, index = Wired(self.stores.state, wire), Wired(self.stores.index, wire)
            sender = Sender(state, index, self.stores.log_positions, Wired(self.log, wire))
        place = LogPlace(epoch=0, partitions=self.log.partitions)
        runner = Runner(
            STAGES[name], stage, sender, self.stores.state, place, RunnerContext(settings=RunnerSettings(attempts=1))
        )
        handled = False

        async def handle(record: Record, lease: Lease) -> None:
            nonlocal handled
            if wire is not None and handled:
                await wire.at("ack", "after")
            await runner.handle(record, lease)
            handled = True
            if wire is not None:
                await wire.at("ack", "before")

        return handle

    def known(self) -> tuple[object, ...]:
        assert dead_letters(self.log) == 0
        return memory(self.stores), requests(self.log), proposals(self.log)


def conversation() -> list[ConversationEvent]:
    """Three sessions, in each of which somebody asks; what is told changes, and is told again."""
    told = ["I live in Lyon.", "My knee hurts.", "I moved to Oslo.", "My knee hurts.", "My knee is fine again."]
    events: list[ConversationEvent] = []
    for session in range(3):
        for place in range(3):
            number = 3 * session + place + 1
            ask = Ask(request_id=f"r{session}") if place == 1 else None
            events.append(utterance(number, told[number % len(told)], ask=ask))
        events.append(ended(at=START + timedelta(minutes=len(events))))
    return events


@pytest.fixture(scope="module")
def undisturbed() -> tuple[object, ...]:
    import asyncio  # noqa: PLC0415 - one run for all tests of this module, which have loops of their own

    async def run() -> tuple[object, ...]:
        plant = Plant()
        await plant.processes().run_until_idle()
        return plant.known()

    return asyncio.run(run())


def test_every_stage_has_its_points():
    assert set(STEPS) == set(STAGES)


@pytest.mark.parametrize(("stage", "step", "when"), POINTS)
async def test_a_process_that_is_killed_at_a_point_leaves_nothing_undone(
    stage: str, step: str, when: str, undisturbed: tuple[object, ...]
):
    async def kill() -> None:
        raise Killed

    plant = Plant()
    wire = Wire(step, when, kill)
    consumer = plant.processes({stage: wire})
    with pytest.raises(Killed):
        await consumer.run_until_idle()
    assert not wire.left
    await consumer.run_until_idle()
    assert plant.known() == undisturbed


@pytest.mark.parametrize(("stage", "step", "when"), POINTS)
async def test_a_process_that_slept_through_a_rebalance_commits_nothing(
    stage: str, step: str, when: str, undisturbed: tuple[object, ...]
):
    """While it sleeps, others do all that is to be done, from the beginning of the log; then it wakes."""
    plant = Plant()
    waking: list[tuple[object, ...]] = []

    async def sleep() -> None:
        await plant.processes().run_until_idle()
        waking.append(plant.known())

    wire = Wire(step, when, sleep)
    try:
        await plant.processes({stage: wire}).run_until_idle()
    except Fenced:
        assert (step, when) in {("decide", "before"), ("decide", "after"), ("commit", "before")}
    assert waking == [undisturbed]
    assert plant.known() == undisturbed
