"""The whole house in one process, over the twins of all ports."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import numpy as np

from eunoe.schemas.events import ConversationEvent, Reply, SessionEnded, Utterance
from eunoe.schemas.ports import LanguageModel, Vectors
from eunoe.streams.codec import decode, encode
from eunoe.streams.memory_log import MemoryConsumer, MemoryLog
from eunoe.streams.record import Message
from eunoe.streams.topics import Topic
from eunoe.workers.models.compression import OfflineCompressor
from eunoe.workers.registry import STAGES, StageSettings
from eunoe.workers.runner.decider import RunnerSettings
from eunoe.workers.runner.inbound import LogPlace
from eunoe.workers.runner.outbox import Sender
from eunoe.workers.runner.recorded_outcomes import RecordedOutcomes
from eunoe.workers.runner.runner import Runner
from eunoe.workers.stage import Dependencies
from eunoe.workers.stores.memory import MemoryIndex, MemoryLogPositions, MemoryStore

START = datetime(2026, 1, 1, tzinfo=UTC)


class HashEmbedder:
    """Words hashed into 64 dimensions: quick, deterministic, and alike for texts that share words."""

    name = "words-64"
    dimensions = 64

    async def embed(self, texts: Sequence[str]) -> Vectors:
        rows = np.zeros((len(texts), self.dimensions), dtype=np.float32)
        for row, text in enumerate(texts):
            for word in text.lower().split():
                place = int.from_bytes(hashlib.blake2b(word.encode(), digest_size=4).digest(), "big")
                rows[row, place % self.dimensions] += 1
            rows[row, 0] += 1e-3
        return rows / np.linalg.norm(rows, axis=1, keepdims=True) if len(texts) else rows


@dataclass
class Clock:
    """Goes on by a second at each look."""

    now: datetime = START

    def __call__(self) -> datetime:
        self.now += timedelta(seconds=1)
        return self.now


@dataclass
class Stores:
    """The three stores' twins."""

    state: MemoryStore = field(default_factory=MemoryStore)
    index: MemoryIndex = field(default_factory=MemoryIndex)
    log_positions: MemoryLogPositions = field(default_factory=MemoryLogPositions)


def make_dependencies(stores: Stores, settings: StageSettings, language: LanguageModel | None = None) -> Dependencies:
    return Dependencies(
        store=stores.state,
        index=stores.index,
        embedder=HashEmbedder(),
        compressor=OfflineCompressor(),
        language=language,
        settings=settings,
    )


class House:
    """All stages on a `MemoryLog`, each event handled to its end before the next one."""

    def __init__(
        self,
        settings: StageSettings | None = None,
        language: LanguageModel | None = None,
        runner_settings: RunnerSettings | None = None,
        wrap: Callable[[str, object], object] = lambda name, stage: stage,
        *,
        generation: str = "v1",
        partitions: int = 4,
        epoch: int = 0,
        outcomes: RecordedOutcomes | None = None,
    ) -> None:
        self.log = MemoryLog(partitions, clock=Clock())
        self.stores = Stores()
        self.pump = MemoryConsumer(self.log)
        dependencies = make_dependencies(self.stores, settings or StageSettings(), language)
        sender = Sender(self.stores.state, self.stores.index, self.stores.log_positions, self.log)
        place = LogPlace(epoch, self.log.partitions, generation, is_first=generation == "v1")
        for name, row in STAGES.items():
            stage = wrap(name, row.build(dependencies))
            bounds = runner_settings or RunnerSettings()
            runner = Runner(row, stage, sender, self.stores.state, place, bounds, outcomes=outcomes)
            self.pump.subscribe(name, row.inputs, runner.handle)

    async def say(self, *events: ConversationEvent) -> None:
        """Produce events as a client does, and let everything happen that they bring about."""
        await self.log.publish([as_message(event) for event in events])
        await self.pump.run_until_idle()

    async def produce(self, value: bytes, key: bytes | None, partition: int | None = None) -> None:
        """Produce raw bytes into ``conversations``."""
        await self.log.publish([Message(Topic.CONVERSATIONS, key, value, partition=partition)])
        await self.pump.run_until_idle()

    def events(self, topic: Topic) -> list[ConversationEvent]:
        """What stands in a topic."""
        return [decode(record.value) for record in self.log.records(topic)]  # type: ignore[misc]

    def replies(self) -> list[Reply]:
        return [event for event in self.events(Topic.REPLIES) if isinstance(event, Reply)]


def as_message(event: ConversationEvent) -> Message:
    return Message(topic=Topic.CONVERSATIONS, key=event.key.encode(), value=encode(event))


def utterance(number: int, text: str = "", *, conversation: str = "c", **more: object) -> Utterance:
    """The utterance ``u<number>`` of Ann (odd) or Ben (even)."""
    return Utterance(
        **{
            "conversation_id": conversation,
            "utterance_id": f"u{number}",
            "speaker": "Ann" if number % 2 else "Ben",
            "text": text or f"utterance number {number}",
            "at": START + timedelta(minutes=number),
            **more,
        }
    )


def ended(session_id: str | None = None, *, conversation: str = "c") -> SessionEnded:
    return SessionEnded(conversation_id=conversation, session_id=session_id, at=START)
