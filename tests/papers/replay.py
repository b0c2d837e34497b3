"""Replays conversations and lists every memory that the offline operations end."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from eunoe.deploy.datasets.locomo import read_sample, samples_in
from eunoe.deploy.evaluate.indexed import MEMORY_UPDATES
from eunoe.deploy.evaluate.models import EvalModels
from eunoe.schemas.errors import Refused
from eunoe.schemas.memory import ChangeKind, MemoriesChanged, Memory
from eunoe.workers.derive.in_memory import InMemoryPipeline, select_stages
from eunoe.workers.registry import StageSettings

_ENDINGS = frozenset({ChangeKind.SUPERSEDED, ChangeKind.RETIRED})


@dataclass(frozen=True, slots=True)
class Fire:
    """An ended memory, and the sentence that ended it."""

    conversation: str
    session: int
    kind: str
    because: str
    memory: str
    by: str
    """Text of the successor, or of the sentence that retired the memory."""


@dataclass(frozen=True, slots=True)
class ReplayScores:
    """Counts over all conversations; memories born superseded or retired are not counted as ended."""

    conversations: int
    memories: int
    ended: int
    share_ended: float
    born_superseded: int
    suspected: int
    dead_letters: int
    fires: list[Fire] = field(default_factory=list)


async def replay_file(path: Path, models: EvalModels) -> ReplayScores:
    """Run every conversation of a LoCoMo file through the stages; raises `Refused` for another format."""
    samples = samples_in(_bytes(path), path)
    if not samples:
        raise Refused(f"{path}: no LoCoMo conversations to replay")
    feeds: dict[str, list[MemoriesChanged]] = {}
    letters = 0
    for place, sample in enumerate(samples, 1):
        name = str(sample.get("sample_id", f"sample-{place}"))
        stages = select_stages(MEMORY_UPDATES)
        pipeline = InMemoryPipeline(models.embedder, StageSettings(), models.language, models.compressor, stages=stages)
        await pipeline.play(read_sample(samples, path, name).events)
        feeds[name] = pipeline.changes()
        letters += pipeline.dead_letters()
    return scores_of(feeds, letters)


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise Refused(f"{path}: cannot be read: {error.strerror}") from None


def scores_of(feeds: dict[str, list[MemoriesChanged]], dead_letters: int = 0) -> ReplayScores:
    """The counts and ended memories of change feeds, given by conversation."""
    fires = [fire for name, feed in feeds.items() for fire in fires_of(name, feed)]
    changes = [change for feed in feeds.values() for event in feed for change in event.changes]
    memories = sum(change.kind is ChangeKind.ADDED for change in changes)
    ended = sum(change.kind in _ENDINGS for change in changes)
    return ReplayScores(
        conversations=len(feeds),
        memories=memories,
        ended=len(fires),
        share_ended=len(fires) / memories if memories else 0.0,
        born_superseded=ended - len(fires),
        suspected=sum(change.kind is ChangeKind.SUSPECTED for change in changes),
        dead_letters=dead_letters,
        fires=fires,
    )


def fires_of(conversation: str, feed: Sequence[MemoriesChanged]) -> Iterator[Fire]:
    """The memories of earlier sessions that a change feed ends."""
    known: dict[str, Memory] = {}
    for event in feed:
        known |= {change.memory.memory_id: change.memory for change in event.changes}
        for change in event.changes:
            ending = change.memory.ending
            if change.kind in _ENDINGS and change.memory.session < event.session and ending is not None:
                by = known[ending.by].text if ending.by else _retiring(event, change.because)
                yield Fire(conversation, event.session, change.kind.value, change.because, change.memory.text, by)


def _retiring(event: MemoriesChanged, because: str) -> str:
    """The sentence of the same session that was retired for the same reason."""
    own = (change for change in event.changes if change.kind is ChangeKind.RETIRED and change.because == because)
    return next((change.memory.text for change in own if change.memory.session == event.session), "")
