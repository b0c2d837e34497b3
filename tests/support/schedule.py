"""A random schedule over everything a runner awaits: crashes, zombies and redelivery at every step.

Each call to a port stops at a gate before it acts; a seeded scheduler opens one gate at a time. A crash cancels a
process where it stands. A zombie is a process that lost its partitions but goes on: its acknowledgements count for
nothing, its writes must not either.
"""

import asyncio
import copy
import random
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from eunoe.deploy.process.positions import PartitionStart
from eunoe.schemas.model_ports import LanguageModel
from eunoe.streams.memory_log import MemoryLog
from eunoe.streams.position import position
from eunoe.streams.record import Message, Record, Revoked
from eunoe.streams.topics import Topic
from eunoe.workers.blend.settings import BlendSettings
from eunoe.workers.intake.settings import IntakeSettings
from eunoe.workers.registry import STAGES, StageSettings
from eunoe.workers.runner.continuity import Continuity
from eunoe.workers.runner.decider import RunnerSettings
from eunoe.workers.runner.errors import Fenced
from eunoe.workers.runner.failure_limit import FailureLimit
from eunoe.workers.runner.inbound import LogPlace
from eunoe.workers.runner.metrics import StageMeter
from eunoe.workers.runner.outbox import Sender
from eunoe.workers.runner.parts import Surroundings
from eunoe.workers.runner.runner import Runner
from eunoe.workers.stage import ApplyOrder, Dependencies, Stage
from eunoe.workers.stores.at_hand import StateAtHand, state_cache
from eunoe.workers.stores.memory_positions import MemoryHandledPositions
from tests.support.in_memory import Clock, Stores, make_dependencies

PATIENT = StageSettings(blend=BlendSettings(wait_s=None, wait_unasked_s=None))
"""No turn goes on without memory because the clock says so: what timing decides is not the same twice."""
EVERY_TURN = PATIENT.model_copy(update={"intake": IntakeSettings(blend_unasked=True)})
"""The same, with insights of what asks for nothing."""

SHARE_OF_ENDS = 0.4
"""How often a record is the last of the run that its handler is given."""

SHARE_OF_REREADS = 0.5
"""How often an owner that was fenced goes on in the same process."""

RELENTLESS = RunnerSettings(attempts=1, failures=FailureLimit(share=1.0))
"""One try for each event, and no end of failing."""


@dataclass(eq=False)
class Process:
    """One owner of a stage: reads from the committed offsets, conversations side by side."""

    stage: str
    alive: bool = True
    tasks: set[asyncio.Task[None]] = field(default_factory=set)
    taken: dict[tuple[str, int], int] = field(default_factory=dict)
    began: dict[tuple[str, int], int] = field(default_factory=dict)
    done: set[tuple[str, int, int]] = field(default_factory=set)
    last: dict[bytes | None, asyncio.Task[None]] = field(default_factory=dict)
    acking: set[tuple[str, int]] = field(default_factory=set)
    """Partitions with an ack that waits for its round, or for the store."""
    continuity: Continuity | None = None
    runner: Runner | None = None
    """What handles its records; made with the first of them."""
    at_hand: StateAtHand | None = None
    """What it knows of its own state."""
    looked: tuple[int, int] = (0, 0)
    """Records in the log, and partitions that it reads, when it looked for records last."""
    fenced: bool = False
    """True: it must read again, because another process was first, or because the store went back."""

    def read_again(self, beginning: Coroutine[Any, Any, None]) -> None:
        """Forget what it has read; it goes on with what it is made of."""
        for read in (self.taken, self.began, self.done, self.last, self.acking):
            read.clear()
        self.looked, self.fenced = (0, 0), False
        self.tasks = {asyncio.ensure_future(beginning)}


class Gate:
    """Where everything waits for the scheduler."""

    def __init__(self) -> None:
        self.waiting: list[tuple[Process, asyncio.Future[None]]] = []

    async def __call__(self, process: Process) -> None:
        future = asyncio.get_running_loop().create_future()
        self.waiting.append((process, future))
        await future


class Gated:
    """A port whose every method waits at the gate first."""

    def __init__(self, port: Any, gate: Gate, process: Process) -> None:
        self._port, self._gate, self._process = port, gate, process

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._port, name)

        async def call(*args: Any, **kwargs: Any) -> Any:
            await self._gate(self._process)
            return await method(*args, **kwargs)

        return call


@dataclass(frozen=True)
class _Lease:
    gate: Gate
    process: Process
    revoked: bool = False

    async def pause(self, seconds: float) -> None:
        await self.gate(self.process)


WATCHED_EVERY = 500
"""Steps between two looks of the watch at the end of a run, where a stage may wait for one that must read again."""
MAX_STEPS = 20_000
"""More than any run takes that ends."""


class Plant:
    """All stages, each with one owner and any number of zombies, under one scheduler."""

    def __init__(
        self,
        seed: int,
        settings: StageSettings | None = None,
        language: LanguageModel | None = None,
        wrap: Callable[[str, Stage], Stage] = lambda name, stage: stage,
    ) -> None:
        self.random = random.Random(seed)
        self.log = MemoryLog(partitions=2, clock=Clock())
        self.stores = Stores()
        self.handled = MemoryHandledPositions(self.stores.state)
        self.gate = Gate()
        self.committed: dict[tuple[str, str, int], int] = {}
        self._settings = settings or PATIENT
        self._language = language
        self._wrap = wrap
        self.owners = {name: self._start(name) for name in STAGES}
        self.zombies: list[Process] = []
        self.crashes = 0
        self.copies: list[list[Any]] = []
        """What the store was like before: one of them comes back."""
        self.rollbacks = 0

    def _start(self, stage: str) -> Process:
        """An owner that reads from what is committed, and from what the store shows handled where that is less."""
        process = Process(stage)
        spec = STAGES[stage]
        if spec.order is not ApplyOrder.REQUEST:
            positions = Gated(self.handled, self.gate, process)
            process.continuity = Continuity(spec, positions, self.log.partitions, StageMeter())
        process.tasks.add(asyncio.ensure_future(self._begin(process)))
        return process

    async def _begin(self, process: Process) -> None:
        continuity = process.continuity
        if process.at_hand is not None:
            process.at_hand.forget_all()
        for topic in STAGES[process.stage].inputs:
            for partition in range(self.log.partitions):
                at = self.committed.get((process.stage, topic, partition), 0)
                if continuity is not None:
                    start = await PartitionStart(continuity, 0).start(topic, partition, at)
                    at = at if start is None else start
                process.taken[topic, partition] = at
                process.began[topic, partition] = at

    def _runner(self, process: Process) -> Runner:
        stores = Stores(*(Gated(port, self.gate, process) for port in _ports(self.stores)))
        state: Any = stores.state
        if process.continuity is not None:
            state = process.at_hand = StateAtHand(stores.state, process.stage, state_cache())
        seen = replace(stores, state=state)
        dependencies: Dependencies = make_dependencies(seen, self._settings, self._language)
        publisher = _Publisher(self.log, self.gate, process)
        sender = Sender(state, stores.index, stores.log_positions, publisher)
        place = LogPlace(epoch=0, partitions=self.log.partitions)
        stage = self._wrap(process.stage, STAGES[process.stage].build(dependencies))
        around = Surroundings(settings=RELENTLESS, continuity=process.continuity)
        return Runner(STAGES[process.stage], stage, sender, stores.state, place, around)

    def _take(self, process: Process) -> None:
        now = (len(self.log), len(process.taken))
        if process.looked == now:
            return
        process.looked = now
        for (topic, partition), offset in process.taken.items():
            end = offset
            runs: dict[bytes | None, list[Record]] = {}
            while (record := self.log.after(topic, partition, end)) is not None:
                end += 1
                run = runs.setdefault(record.key, [])
                run.append(record)
                if self.random.random() < SHARE_OF_ENDS:
                    self._chain(process, runs.pop(record.key))
            for run in runs.values():
                self._chain(process, run)
            process.taken[topic, partition] = end

    def _chain(self, process: Process, run: Sequence[Record]) -> None:
        key = run[0].key
        task = asyncio.ensure_future(self._handle(process, run, process.last.get(key)))
        process.last[key] = task
        process.tasks.add(task)

    async def _handle(self, process: Process, run: Sequence[Record], before: asyncio.Task[None] | None) -> None:
        if before is not None:
            await before
        if process.fenced:
            return
        await self.gate(process)
        try:
            process.runner = process.runner or self._runner(process)
            await process.runner.handle_batch(run, _Lease(self.gate, process))
        except (Fenced, Revoked):
            process.fenced = True
            return
        for record in run:
            process.done.add((record.topic, record.partition, record.offset))
        self._ack_later(process, run[0].topic, run[0].partition)

    def _ack_later(self, process: Process, topic: str, partition: int) -> None:
        """Ack in the next round, while later records are handled; one ack of a partition at a time."""
        where = (topic, partition)
        if where not in process.acking:
            process.acking.add(where)
            process.tasks.add(asyncio.ensure_future(self._ack(process, topic, partition)))

    async def _ack(self, process: Process, topic: str, partition: int) -> None:
        """Commit what is done without a gap, after the store has its position."""
        await self.gate(process)
        offset = acked = process.began[topic, partition]
        while (topic, partition, offset) in process.done:
            offset += 1
        try:
            if offset > acked and process.continuity is not None and not process.fenced:
                await process.continuity.advance(topic, partition, position(0, offset - 1))
        except Revoked:
            process.fenced = True
        process.acking.discard((topic, partition))
        if process.fenced or offset == acked:
            return
        if process.alive:
            self.committed[process.stage, topic, partition] = offset
        if (topic, partition, offset) in process.done:
            self._ack_later(process, topic, partition)

    async def run(self, *, faults: float, until: int, rollbacks: float = 0.0) -> None:
        """Step until nothing is left; before step ``until`` each step is a fault with probability ``faults``.

        With probability ``rollbacks`` the store goes back to what it was like at a step before.
        """
        step = 0
        while True:
            for process in (*self.owners.values(), *self.zombies):
                if not process.fenced:
                    self._take(process)
            await _settle()
            await self._replace_fenced()
            step += 1
            if rollbacks and step < until:
                self._turn_back(rollbacks)
            assert step < MAX_STEPS, f"the run does not end: {[one.stage for one, _ in self.gate.waiting]} still wait"
            if step > until and step % WATCHED_EVERY == 0:
                await self._holds()
            if step < until and self.random.random() < faults:
                await self._disturb()
            elif not self._open_one() and self._finished() and await self._holds():
                return

    async def _holds(self) -> bool:
        """The look of the watch: False where an owner must read again."""
        for owner in self.owners.values():
            if owner.continuity is not None:
                looking = asyncio.ensure_future(owner.continuity.holds(list(owner.began)))
                while not looking.done():
                    await _settle()
                    self._open_one()
                owner.fenced |= not looking.result()
        return not any(owner.fenced for owner in self.owners.values())

    def _turn_back(self, probability: float) -> None:
        """Copy the store now and then; now and then put one of the last copies in its place."""
        chance = self.random.random()
        if chance < 4 * probability:
            self.copies.append(self._copy())
        elif chance < 5 * probability and self.copies:
            place = self.random.randrange(max(0, len(self.copies) - 3), len(self.copies))
            del self.copies[place + 1 :]  # they are of a time that has not been
            for there, copied in zip(self._parts(), copy.deepcopy(self.copies[place]), strict=True):
                there.clear()
                there.update(copied)
            self.rollbacks += 1
            self.stores.state.server = f"memory {self.rollbacks}"

    def _copy(self) -> list[Any]:
        return copy.deepcopy(self._parts())

    def _parts(self) -> list[Any]:
        """All that the store server holds."""
        state, log_positions, handled = self.stores.state, self.stores.log_positions, self.handled
        tables = (state._ledgers, state._expiry, state._tables, state._parked)
        return [*tables, log_positions._timers, log_positions._promotions, handled._positions, handled._owners]

    def _open_one(self) -> bool:
        waiting = [(process, future) for process, future in self.gate.waiting if not future.done()]
        self.gate.waiting = waiting
        if not waiting:
            return False
        self.random.choice(waiting)[1].set_result(None)
        return True

    def _finished(self) -> bool:
        """True: all is committed, and nobody reads again."""
        return all(task.done() for owner in self.owners.values() for task in owner.tasks) and all(
            self.committed.get((stage, topic, partition), 0)
            == self.owners[stage].taken.get((topic, partition))
            == len(self._partition(topic, partition))
            for stage, spec in STAGES.items()
            for topic in spec.inputs
            for partition in range(self.log.partitions)
        )

    def _partition(self, topic: Topic, partition: int) -> list[Record]:
        return [record for record in self.log.records(topic) if record.partition == partition]

    async def _disturb(self) -> None:
        self.crashes += 1
        stage = self.random.choice(list(self.owners))
        owner = self.owners[stage]
        owner.alive = False
        if self.random.random() < 0.5:
            self.zombies.append(owner)
        else:
            await _kill(owner)
        self.owners[stage] = self._start(stage)

    async def _replace_fenced(self) -> None:
        """A process that was fenced stops where it is; an owner reads again, or another one starts afresh."""
        for process in (*self.zombies, *self.owners.values()):
            if process.fenced:
                await _kill(process)
        self.zombies = [zombie for zombie in self.zombies if not zombie.fenced]
        for stage, owner in self.owners.items():
            if owner.fenced and self.random.random() < SHARE_OF_REREADS:
                owner.read_again(self._begin(owner))
            elif owner.fenced:
                owner.alive = False
                self.owners[stage] = self._start(stage)


class _Publisher:
    """Publishes one message at a step, so that a crash may come between two."""

    def __init__(self, log: MemoryLog, gate: Gate, process: Process) -> None:
        self._log, self._gate, self._process = log, gate, process

    async def publish(self, messages: Sequence[Message]) -> None:
        for message in messages:
            await self._gate(self._process)
            self._log.append(message)


def _ports(stores: Stores) -> tuple[Any, Any, Any]:
    return stores.state, stores.index, stores.log_positions


async def _settle() -> None:
    """Let every task run until it waits at the gate, for eight turns of the event loop at most."""
    ready = getattr(asyncio.get_running_loop(), "_ready", (None,))  # most of the time of a run was empty turns
    for _ in range(8):
        await asyncio.sleep(0)
        if not ready:
            return


async def _kill(process: Process) -> None:
    for task in process.tasks:
        task.cancel()
    await asyncio.gather(*process.tasks, return_exceptions=True)
