"""Test fixtures for the pipeline in memory: an embedder, a clock, stores, events."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

import numpy as np

from eunoe.schemas.events import SessionClosed, SessionEnded, Utterance
from eunoe.schemas.model_ports import LanguageModel, Vectors
from eunoe.schemas.records import DeadLetterReason
from eunoe.streams.dead_letters import read_dead_letter
from eunoe.streams.memory_log import MemoryLog
from eunoe.streams.record import Message
from eunoe.streams.topics import Topic
from eunoe.workers.derive.in_memory import InMemoryPipeline
from eunoe.workers.models.local.compression import OfflineCompressor
from eunoe.workers.registry import STAGES, Stages, StageSettings
from eunoe.workers.runner.decider import RunnerSettings
from eunoe.workers.runner.inbound import LogPlace
from eunoe.workers.runner.recorded_outcomes import RecordedOutcomes
from eunoe.workers.stage import Dependencies, Stage, StageSpec
from eunoe.workers.stores.state.memory_store import MemoryLogPositions, MemoryStore
from eunoe.workers.stores.vectors.memory_index import MemoryIndex

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
    """The three stores in memory."""

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


def make_pipeline(
    settings: StageSettings | None = None,
    language: LanguageModel | None = None,
    runner_settings: RunnerSettings | None = None,
    wrap: Callable[[str, Stage], Any] = lambda name, stage: stage,
    *,
    generation: str = "v1",
    partitions: int = 4,
    epoch: int = 0,
    outcomes: RecordedOutcomes | None = None,
    stages: Stages = STAGES,
) -> InMemoryPipeline:
    """All stages in memory; ``wrap`` gives the stage to run in place of each."""

    def wrapped(spec: StageSpec) -> StageSpec:
        return replace(spec, build=lambda dependencies: wrap(spec.name, spec.build(dependencies)))

    return InMemoryPipeline(
        HashEmbedder(),
        settings or StageSettings(),
        language,
        stages={name: wrapped(spec) for name, spec in stages.items()},
        runner_settings=runner_settings or RunnerSettings(),
        outcomes=outcomes or RecordedOutcomes(),
        log=MemoryLog(partitions, clock=Clock()),
        place=LogPlace(epoch, partitions, generation, is_first=generation == "v1"),
    )


async def produce_raw(
    pipeline: InMemoryPipeline, value: bytes, key: bytes | None, partition: int | None = None
) -> None:
    """Produce raw bytes into ``conversations``."""
    await pipeline.send(Message(Topic.CONVERSATIONS, key, value, partition=partition))


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


_ends = count()


def ended(session_id: str | None = None, *, conversation: str = "c", at: datetime | None = None) -> SessionEnded:
    """The end of a session; without ``at`` each is at a time of its own, another one in every run."""
    at = at or START + timedelta(seconds=next(_ends))
    return SessionEnded(conversation_id=conversation, session_id=session_id, at=at)


def closed(pipeline: InMemoryPipeline) -> list[SessionClosed]:
    """The sessions that intake closed."""
    return [event for event in pipeline.events(Topic.SESSIONS) if isinstance(event, SessionClosed)]


def letter_reasons(log: MemoryLog) -> list[DeadLetterReason]:
    """The reasons of all dead letters."""
    return [read_dead_letter(record)[0].reason for record in log.records(Topic.DEAD_LETTERS)]
