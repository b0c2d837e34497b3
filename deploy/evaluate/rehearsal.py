"""Whole conversations through the stages in this process, over the in-memory twins of log and stores."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from eunoe.schemas.events import ConversationEvent, SessionEnded, Utterance
from eunoe.schemas.memory import MemoriesChanged
from eunoe.schemas.ports import Embedder, LanguageModel
from eunoe.streams.codec import decode, encode
from eunoe.streams.memory_log import MemoryConsumer, MemoryLog
from eunoe.streams.record import Message
from eunoe.streams.topics import Topic
from eunoe.workers.models.compression import OfflineCompressor
from eunoe.workers.registry import STAGES, StageSettings
from eunoe.workers.runner.decider import RunnerSettings
from eunoe.workers.runner.inbound import LogPlace
from eunoe.workers.runner.outbox import Sender
from eunoe.workers.runner.runner import Runner
from eunoe.workers.stage import Dependencies, Stage
from eunoe.workers.stores.memory import MemoryIndex, MemoryLogPositions, MemoryStore

StageMaker = Callable[[Dependencies], Stage]

MEMORY_UPDATES = ("intake", "segment", "summarize", "update", "link")
"""What it takes to bring memories up to date."""
REMEMBERING = (*MEMORY_UPDATES, "compress", "tree")
"""All that make memory; the others only asks need."""


@dataclass(slots=True)
class Rehearsal:
    """The stages that write memories, each event handled to its end before the next one."""

    embedder: Embedder
    settings: StageSettings = field(default_factory=StageSettings)
    stages: tuple[str, ...] = MEMORY_UPDATES
    language: LanguageModel | None = None
    """None: the offline twins decide."""
    instead: Mapping[str, StageMaker] = field(default_factory=dict)
    """Stages that are built otherwise, by name: what an ablation takes an idea out of."""
    log: MemoryLog = field(default_factory=MemoryLog)
    store: MemoryStore = field(default_factory=MemoryStore)
    index: MemoryIndex = field(default_factory=MemoryIndex)
    dependencies: Dependencies = field(init=False)
    _pump: MemoryConsumer = field(init=False)

    def __post_init__(self) -> None:
        self._pump = MemoryConsumer(self.log)
        self.dependencies = Dependencies(
            store=self.store,
            index=self.index,
            embedder=self.embedder,
            compressor=OfflineCompressor(),
            language=self.language,
            settings=self.settings,
        )
        sender = Sender(self.store, self.index, MemoryLogPositions(), self.log)
        place = LogPlace(epoch=0, partitions=self.log.partitions)
        for name in self.stages:
            stage = self.instead.get(name, STAGES[name].build)(self.dependencies)
            runner = Runner(STAGES[name], stage, sender, self.store, place, RunnerSettings())
            self._pump.subscribe(name, STAGES[name].inputs, runner.handle)

    async def play(self, events: Iterable[Utterance | SessionEnded]) -> None:
        """Produce events as a client does, and let everything happen that they bring about."""
        for event in events:
            await self.log.publish([_message(event)])
            if isinstance(event, SessionEnded):
                await self._pump.run_until_idle()
        await self._pump.run_until_idle()

    async def settle(self) -> None:
        """Let everything happen that was brought about."""
        await self._pump.run_until_idle()

    def changes(self) -> list[MemoriesChanged]:
        """The change feed."""
        events = (decode(record.value) for record in self.log.records(Topic.CHANGES))
        return [event for event in events if isinstance(event, MemoriesChanged)]

    def dead_letters(self) -> int:
        """How many events were set aside."""
        return len(self.log.records(Topic.DEAD_LETTERS))


def _message(event: ConversationEvent) -> Message:
    return Message(topic=Topic.CONVERSATIONS, key=event.key.encode(), value=encode(event))
