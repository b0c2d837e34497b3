"""The pipeline in one process, over an in-memory log and in-memory stores: for rebuilds, evaluations and tests."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from eunoe.schemas.base import Contract
from eunoe.schemas.events import ConversationEvent, SessionEnded
from eunoe.schemas.memory import MemoriesChanged
from eunoe.schemas.model_ports import Compressor, Embedder, LanguageModel
from eunoe.schemas.replies import Reply
from eunoe.streams.codec import decode, encode
from eunoe.streams.memory_log import MemoryConsumer, MemoryLog, Sleep, yield_only
from eunoe.streams.record import Message
from eunoe.streams.topics import Topic
from eunoe.workers.models.local.compression import OfflineCompressor
from eunoe.workers.registry import STAGES, Stages, StageSettings
from eunoe.workers.runner.decider import RunnerSettings
from eunoe.workers.runner.inbound import LogPlace
from eunoe.workers.runner.outbox import Sender
from eunoe.workers.runner.parts import RunnerContext
from eunoe.workers.runner.recorded_outcomes import RecordedOutcomes
from eunoe.workers.runner.runner import Runner
from eunoe.workers.stage import Build, Dependencies
from eunoe.workers.stores.state.memory_store import MemoryLogPositions, MemoryStore
from eunoe.workers.stores.vectors.memory_index import MemoryIndex

_NO_BUILDS: Mapping[str, Build] = {}


def select_stages(names: Iterable[str], builds: Mapping[str, Build] = _NO_BUILDS) -> Stages:
    """Some of the registered stages, in the order of ``names``; those in ``builds`` are built by another function."""
    return {name: replace(STAGES[name], build=builds.get(name, STAGES[name].build)) for name in names}


def as_message(event: ConversationEvent) -> Message:
    """The message with which a client produces an event."""
    return Message(topic=Topic.CONVERSATIONS, key=event.key.encode(), value=encode(event))


@dataclass(slots=True)
class InMemoryPipeline:
    """Runs stages over in-memory stores, each event to its end before the next one.

    Specs, decisions and runner are those of the workers. Each pipeline begins with empty stores and its own log.
    """

    embedder: Embedder
    settings: StageSettings = field(default_factory=StageSettings)
    language: LanguageModel | None = None
    """`None` means that the offline implementations decide."""
    compressor: Compressor = field(default_factory=OfflineCompressor)
    stages: Stages = field(default_factory=lambda: STAGES)
    runner_settings: RunnerSettings = field(default_factory=RunnerSettings)
    outcomes: RecordedOutcomes = field(default_factory=RecordedOutcomes)
    log: MemoryLog = field(default_factory=MemoryLog)
    place: LogPlace | None = None
    """`None` means epoch 0 and the first generation."""
    store: MemoryStore = field(default_factory=MemoryStore)
    index: MemoryIndex = field(default_factory=MemoryIndex)
    log_positions: MemoryLogPositions = field(default_factory=MemoryLogPositions)
    sleep: Sleep = yield_only
    """The pause where no stage has anything to do; `asyncio.sleep` where servers may be away."""
    in_batches: bool = False
    """Whether records of one conversation that wait in the log are committed together, as workers do it."""
    dependencies: Dependencies = field(init=False)
    _consumer: MemoryConsumer = field(init=False)

    def __post_init__(self) -> None:
        self.dependencies = Dependencies(
            store=self.store,
            index=self.index,
            embedder=self.embedder,
            compressor=self.compressor,
            language=self.language,
            settings=self.settings,
        )
        self._consumer = MemoryConsumer(self.log, self.sleep)
        sender = Sender(self.store, self.index, self.log_positions, self.log)
        place = self.place or LogPlace(epoch=0, partitions=self.log.partitions)
        for name, spec in self.stages.items():
            stage = spec.build(self.dependencies)
            context = RunnerContext(settings=self.runner_settings, outcomes=self.outcomes)
            runner = Runner(spec, stage, sender, self.store, place, context)
            batches = runner.handle_batch if self.in_batches and spec.reads_log else None
            self._consumer.subscribe(name, spec.inputs, runner.handle, batches)

    async def run_until_idle(self) -> None:
        """Handle all records that are left, and what they bring about.

        Raises what a runner raises, and `eunoe.streams.memory_log.Deadlock` when a stage waits forever.
        """
        await self._consumer.run_until_idle()

    async def send(self, *messages: Message) -> None:
        """Append messages to the log, then run until idle; raises what `MemoryLog.publish` raises, too."""
        await self.log.publish(messages)
        await self.run_until_idle()

    async def produce(self, *events: ConversationEvent) -> None:
        """Produce events as a client does, then run until idle."""
        await self.send(*map(as_message, events))

    async def play(self, events: Iterable[ConversationEvent]) -> None:
        """Produce the events of whole conversations, running until idle after each session end."""
        session: list[ConversationEvent] = []
        for event in events:
            session.append(event)
            if isinstance(event, SessionEnded):
                await self.produce(*session)
                session.clear()
        await self.produce(*session)

    def events(self, topic: Topic) -> list[Contract]:
        """The events in a topic, partition by partition, each in log order."""
        return [decode(record.value) for record in self.log.records(topic)]

    def replies(self) -> list[Reply]:
        """The replies."""
        return [event for event in self.events(Topic.REPLIES) if isinstance(event, Reply)]

    def changes(self) -> list[MemoriesChanged]:
        """The change feed of memories."""
        return [event for event in self.events(Topic.CHANGES) if isinstance(event, MemoriesChanged)]

    def dead_letters(self) -> int:
        """The number of dead-lettered records."""
        return len(self.log.records(Topic.DEAD_LETTERS))
