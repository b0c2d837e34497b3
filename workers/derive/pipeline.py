"""What a conversation's records make of it: its stages run in memory, as live, and nothing outside is touched.

The same rows, stages and runner as in the workers, over the twins of the stores and of the log. What comes of it can
be put in the place of what a store keeps (a repair) or into another generation (a rebuild).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from eunoe.schemas.decisions import Collection, Point, Timer
from eunoe.schemas.ports import LogPositions, StoredConversation
from eunoe.schemas.versions import ContractError
from eunoe.streams.memory_log import MemoryConsumer, MemoryLog
from eunoe.streams.position import LAST_EPOCH, Headers, copy_headers
from eunoe.streams.record import Message, Record
from eunoe.streams.topics import TOPICS, Topic
from eunoe.workers.blend.settings import BlendSettings
from eunoe.workers.registry import MEMORY_STAGES, STAGES, StageSettings
from eunoe.workers.runner.decider import RunnerSettings
from eunoe.workers.runner.inbound import LogPlace
from eunoe.workers.runner.outbox import Sender
from eunoe.workers.runner.recorded_outcomes import RecordedOutcomes, tells_failure
from eunoe.workers.runner.runner import Runner
from eunoe.workers.stage import Dependencies
from eunoe.workers.stores.memory import MemoryIndex, MemoryLogPositions, MemoryStore

TABLES: Mapping[str, Sequence[str]] = {name: STAGES[name].tables.all for name in MEMORY_STAGES}
"""Stage → its tables; intake, whose ledger says how far a conversation is, comes first."""


_EVER = datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Derived:
    """All that was made of one conversation."""

    key: str
    standing: StoredConversation
    points: tuple[Point, ...]
    timer: Timer | None
    """When its open session goes idle; None: none is open."""
    records: tuple[Record, ...]
    """What the stages told each other, topic by topic, each in its order."""
    failed: int
    """Decisions that raised each time; their sessions are skipped."""

    @property
    def sessions(self) -> int:
        """How many sessions were closed."""
        return sum(record.topic == Topic.SESSIONS for record in self.records)


@dataclass(frozen=True, slots=True)
class Bench:
    """One conversation's stages at work in memory."""

    log: MemoryLog
    pump: MemoryConsumer
    store: MemoryStore
    index: MemoryIndex
    log_positions: MemoryLogPositions

    async def made(self, key: str) -> Derived:
        """All that stands there now."""
        derived = [topic for topic, spec in TOPICS.items() if spec.derived]
        return Derived(
            key=key,
            standing=await self.store.export(key, TABLES),
            points=tuple([point for collection in Collection for point in await self.index.points(collection, key)]),
            timer=await _timer(self.log_positions),
            records=tuple(record for topic in derived for record in self.log.records(topic)),
            failed=sum(tells_failure(record.value) for record in self.log.records(Topic.ANSWERS)),
        )


@dataclass(frozen=True, slots=True)
class Deriver:
    """Derives conversations, each for itself: several at once share only the models.

    ``kit`` gives models and settings; its stores are not used.
    """

    dependencies: Dependencies
    settings: RunnerSettings
    outcomes: RecordedOutcomes
    stages: Sequence[str] = MEMORY_STAGES

    async def derive(
        self, key: str, records: Sequence[Record], epoch: int, done: Callable[[], None] = lambda: None
    ) -> Derived:
        """Run the records of ``conversations`` of one key, in log order, to their end.

        ``epoch`` is that of the log they were read from; ``done`` is called after each record. Nobody is answered:
        ``replayed`` holds for each. Raises `Unavailable` when a model's endpoint stays away,
        `eunoe.streams.memory_log.Deadlock` when a stage waits for ever.
        """
        bench = self.set_up()
        for record in records:
            headers = _copied(record, epoch)
            if headers is not None:
                bench.log.append(Message(Topic.CONVERSATIONS, record.key, record.value, headers))
            await bench.pump.run_until_idle()
            done()
        return await bench.made(key)

    def set_up(self) -> "Bench":
        """The stages over stores and a log that hold nothing yet."""
        log, store, index, log_positions = MemoryLog(partitions=1), MemoryStore(), MemoryIndex(), MemoryLogPositions()
        pump = MemoryConsumer(log)
        dependencies = replace(self.dependencies, store=store, index=index, settings=_patient(self.dependencies))
        sender = Sender(store, index, log_positions, log)
        place = LogPlace(LAST_EPOCH, partitions=1, is_first=False)
        for name in self.stages:
            runner = Runner(
                STAGES[name],
                STAGES[name].build(dependencies),
                sender,
                store,
                place,
                self.settings,
                outcomes=self.outcomes,
            )
            pump.subscribe(name, STAGES[name].inputs, runner.handle)
        return Bench(log, pump, store, index, log_positions)


def _copied(record: Record, epoch: int) -> Headers | None:
    """The headers of the record's copy; None where its place is invalid: the live intake dead-lettered it."""
    try:
        return copy_headers(record, epoch)
    except ContractError:
        return None


def _patient(dependencies: Dependencies) -> StageSettings:
    """The settings with which no turn goes on without memory: nobody waits for it."""
    return dependencies.settings.with_changes(BlendSettings, wait_s=None, wait_unasked_s=None)


async def _timer(log_positions: LogPositions) -> Timer | None:
    due = await log_positions.due(0, _EVER, 1)
    return due[0].timer if due else None
