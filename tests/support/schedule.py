"""A random schedule over everything a runner awaits: crashes, zombies and redelivery at every step.

Each call to a port stops at a gate before it acts; a seeded scheduler opens one gate at a time. A crash cancels a
process where it stands. A zombie is a process that lost its partitions but goes on: its acknowledgements count for
nothing, its writes must not either.
"""

import asyncio
import random
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from eunoe.deploy.process.positions import PartitionStart
from eunoe.schemas.events import ConversationEvent
from eunoe.schemas.model_ports import LanguageModel
from eunoe.streams.memory_log import MemoryLog
from eunoe.streams.position import position
from eunoe.streams.record import Message, Record, Revoked
from eunoe.streams.settings import partition_of
from eunoe.streams.topics import Topic
from eunoe.workers.blend.settings import BlendSettings
from eunoe.workers.derive.in_memory import as_message
from eunoe.workers.intake.settings import IntakeSettings
from eunoe.workers.registry import STAGES, StageSettings
from eunoe.workers.runner.decider import RunnerSettings
from eunoe.workers.runner.errors import Fenced
from eunoe.workers.runner.failure_limit import FailureLimit
from eunoe.workers.runner.inbound import LogPlace
from eunoe.workers.runner.loss_detector import LossDetector
from eunoe.workers.runner.metrics import StageMeter
from eunoe.workers.runner.outbox import Sender
from eunoe.workers.runner.parts import RunnerContext
from eunoe.workers.runner.runner import Runner
from eunoe.workers.stage import ApplyOrder, Dependencies, Stage
from eunoe.workers.stores.state.cached_state import CachedStateStore, state_cache
from tests.support.in_memory import START, Clock, make_dependencies
from tests.support.schedule_stores import Gate, StoreServers, TwinServers

PATIENT = StageSettings(blend=BlendSettings(wait_s=None, wait_unasked_s=None))
"""No turn goes on without memory because the clock says so: what timing decides is not the same twice."""
EVERY_TURN = PATIENT.model_copy(update={"intake": IntakeSettings(blend_unasked=True)})
"""The same, with insights of what asks for nothing."""

SHARE_OF_ENDS = 0.4
"""How often a record is the last of the run that its handler is given."""

SHARE_OF_RESTS = 0.85
"""How often a conversation is frozen rather than gone on with, where nothing is left to do."""

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
    loss_detector: LossDetector | None = None
    runner: Runner | None = None
    """What handles its records; made with the first of them."""
    cached: CachedStateStore | None = None
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


@dataclass(frozen=True)
class _Lease:
    gate: Gate
    process: Process
    revoked: bool = False

    async def pause(self, seconds: float) -> None:
        await self.gate(self.process)


@dataclass(frozen=True)
class Faults:
    """What befalls a run; each is the probability of a step, before the step ``until``."""

    crashes: float = 0.0
    """A process dies, or becomes a zombie."""
    rollbacks: float = 0.0
    """A server of the store goes back to what it was like at a step before."""
    freezes: float = 0.0
    """The freezing of a conversation begins."""
    flow: float = 1.0
    """The next event comes; 1: all come at once. Where nothing else is left to do, it comes anyway."""
    until: int = 1500


WATCHED_EVERY = 500
"""Steps between two looks of the watch at the end of a run, where a stage may wait for one that must read again."""
MAX_STEPS = 20_000
"""More than any run takes that ends, once nothing befalls it."""


class Plant:
    """All stages, each with one owner and any number of zombies, under one scheduler."""

    def __init__(
        self,
        seed: int,
        settings: StageSettings | None = None,
        language: LanguageModel | None = None,
        wrap: Callable[[str, Stage], Stage] = lambda name, stage: stage,
        servers: StoreServers | None = None,
    ) -> None:
        self.random = random.Random(seed)
        self._clock = Clock()
        self.log = MemoryLog(partitions=2, clock=self._clock)
        self._unsaid: deque[Message] = deque()
        self._said = START
        self.servers = servers or TwinServers()
        self.gate = Gate()
        self.committed: dict[tuple[str, str, int], int] = {}
        self._settings = settings or PATIENT
        self._language = language
        self._wrap = wrap
        self.owners = {name: self._start(name) for name in STAGES}
        self.zombies: list[Process] = []
        self.crashes = 0
        self.rollbacks = 0
        self.freezers: list[Process] = []

    def say(self, events: Iterable[ConversationEvent]) -> None:
        """Have events come into the log in this order, each at a log time of its own in every run."""
        self._unsaid += map(as_message, events)

    def _hear(self, probability: float) -> bool:
        """Append the next event with this probability; True where one came."""
        if not self._unsaid or (probability < 1 and self.random.random() >= probability):
            return False
        self._clock.now = self._said
        self.log.append(self._unsaid.popleft())
        self._said = self._clock.now
        return True

    def _start(self, stage: str) -> Process:
        """An owner that reads from what is committed, and from what the store shows handled where that is less."""
        process = Process(stage)
        spec = STAGES[stage]
        if spec.order is not ApplyOrder.REQUEST:
            positions = self.servers.positions(self.gate, process)
            process.loss_detector = LossDetector(spec, positions, self.log.partitions, StageMeter())
        process.tasks.add(asyncio.ensure_future(self._begin(process)))
        return process

    async def _begin(self, process: Process) -> None:
        loss_detector = process.loss_detector
        if process.cached is not None:
            process.cached.forget_all()
        for topic in STAGES[process.stage].inputs:
            for partition in range(self.log.partitions):
                at = self.committed.get((process.stage, topic, partition), 0)
                if loss_detector is not None:
                    start = await PartitionStart(loss_detector, 0).start(topic, partition, at)
                    at = at if start is None else start
                process.taken[topic, partition] = at
                process.began[topic, partition] = at

    def _runner(self, process: Process) -> Runner:
        stores = self.servers.stores(self.gate, process)
        state: Any = stores.state
        if process.loss_detector is not None:
            state = process.cached = CachedStateStore(stores.state, process.stage, state_cache())
        seen = replace(stores, state=state)
        dependencies: Dependencies = make_dependencies(seen, self._settings, self._language)
        publisher = _Publisher(self.log, self.gate, process)
        sender = Sender(state, stores.index, stores.log_positions, publisher)
        place = LogPlace(epoch=0, partitions=self.log.partitions)
        stage = self._wrap(process.stage, STAGES[process.stage].build(dependencies))
        context = RunnerContext(settings=RELENTLESS, loss_detector=process.loss_detector)
        return Runner(STAGES[process.stage], stage, sender, stores.state, place, context)

    def _take(self, process: Process) -> None:
        process.looked = (len(self.log), len(process.taken))
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
            if offset > acked and process.loss_detector is not None and not process.fenced:
                await process.loss_detector.advance(topic, partition, position(0, offset - 1))
        except Revoked:
            process.fenced = True
        process.acking.discard((topic, partition))
        if process.fenced or offset == acked:
            return
        if process.alive:
            self.committed[process.stage, topic, partition] = offset
        if (topic, partition, offset) in process.done:
            self._ack_later(process, topic, partition)

    async def run(self, faults: Faults) -> None:
        """Step until nothing is left."""
        step, left = 0, True
        while left or not (self._finished() and await self._holds()):
            while self._hear(faults.flow):
                pass
            records = len(self.log)
            for process in (*self.owners.values(), *self.zombies):
                if not process.fenced and process.looked != (records, len(process.taken)):
                    self._take(process)
            await self.gate.settle()
            await self._replace_fenced()
            step += 1
            assert step < faults.until + MAX_STEPS, f"the run does not end: {self._at_work()} still work"
            if step < faults.until:
                left = await self._befall(faults) or self.gate.open_one(self.random) or self._go_on(faults)
                continue
            if step % WATCHED_EVERY == 1:
                await self._holds()
            left = self.gate.open_one(self.random) or self._hear(1.0)
        for task in (task for freezer in self.freezers for task in freezer.tasks):
            task.result()  # a fault of it is one of the run

    async def _befall(self, faults: Faults) -> bool:
        """What may happen at a step; True where it is the step."""
        self._turn_back(faults.rollbacks)
        self._freeze(faults.freezes)
        if self.random.random() >= faults.crashes:
            return False
        await self._disturb()
        return True

    def _go_on(self, faults: Faults) -> bool:
        """Where nothing is left to do, freeze a conversation, or let the next event come; False where none is left."""
        rests = faults.freezes > 0 and self.random.random() < SHARE_OF_RESTS
        return (rests and self._freeze(1.0)) or self._hear(1.0)

    async def _holds(self) -> bool:
        """The look of the watch: False where an owner must read again."""
        for owner in self.owners.values():
            if owner.loss_detector is not None:
                looking = asyncio.ensure_future(owner.loss_detector.is_intact(list(owner.began)))
                while not looking.done():
                    await self.gate.settle()
                    self.gate.open_one(self.random)
                owner.fenced |= not looking.result()
        return not any(owner.fenced for owner in self.owners.values())

    def _turn_back(self, probability: float) -> None:
        """Copy a server now and then; now and then put one of the last copies in its place."""
        if not probability:
            return
        chance = self.random.random()
        if chance < 4 * probability:
            self.servers.keep_copy(self.random)
        elif chance < 5 * probability:
            self.rollbacks += self.servers.turn_back(self.random)

    def _freeze(self, probability: float) -> bool:
        """Begin to freeze a conversation with this probability, whatever is under way in it; True where it begins."""
        if not probability or not len(self.log) or self.random.random() >= probability:
            return False
        process = Process("freezer")
        key = self.random.choice(self.conversations())
        partition = partition_of(key.encode(), self.log.partitions)
        process.tasks.add(asyncio.ensure_future(self.servers.freeze(self.gate, process, key, partition)))
        self.freezers.append(process)
        return True

    def conversations(self) -> list[str]:
        """The keys of the conversations, sorted."""
        return sorted({record.key.decode() for record in self.log.records(Topic.CONVERSATIONS) if record.key})

    def _finished(self) -> bool:
        """True: all is committed, and nobody reads again."""
        return not self._at_work() and all(
            self.committed.get((stage, topic, partition), 0)
            == self.owners[stage].taken.get((topic, partition))
            == len(self._partition(topic, partition))
            for stage, spec in STAGES.items()
            for topic in spec.inputs
            for partition in range(self.log.partitions)
        )

    def _at_work(self) -> list[str]:
        """The processes that have not finished what they began."""
        working = (*self.owners.values(), *self.freezers)
        return [process.stage for process in working if not all(task.done() for task in process.tasks)]

    def _partition(self, topic: Topic, partition: int) -> list[Record]:
        return [record for record in self.log.records(topic) if record.partition == partition]

    async def _disturb(self) -> None:
        self.crashes += 1
        if self.freezers and self.random.random() < 0.2:
            await _kill(self.freezers.pop())
            return
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


async def _kill(process: Process) -> None:
    for task in process.tasks:
        task.cancel()
    await asyncio.gather(*process.tasks, return_exceptions=True)
