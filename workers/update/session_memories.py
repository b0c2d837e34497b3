"""The input of a session as memories, beside the state before it."""

from dataclasses import dataclass
from datetime import datetime

from eunoe.schemas.decisions import Work
from eunoe.schemas.memory import ChangeKind, Memory
from eunoe.schemas.ports import StateStore
from eunoe.workers.update.applying import Proposal
from eunoe.workers.update.gathering import Gathered, SessionInput
from eunoe.workers.update.late import without_claims
from eunoe.workers.update.memories import (
    MemoryStats,
    SessionSteps,
    insights_of,
    names_left_out,
    speakers_of,
    summary_memories,
)
from eunoe.workers.update.reads import read_memory_stats, read_steps


@dataclass(frozen=True, slots=True)
class SessionMemories:
    """A session's input as memories, and the state before it."""

    proposals: tuple[Proposal, ...]
    sentences: tuple[Memory, ...]
    known_from: datetime
    before: MemoryStats
    steps: SessionSteps | None
    """Changes that a late session has made already."""
    speakers: tuple[str, ...]
    left_out: int
    """Number of these speakers, from the first, whose names are left out of the vectors of the session's memories."""


async def read_session_memories(store: StateStore, work: Work[Gathered], arranged: SessionInput) -> SessionMemories:
    """A session's input as memories, and the state before it. Raises `Unavailable`."""
    before = await read_memory_stats(store, work.key)
    steps = await read_steps(store, work.key, [work.number]) if work.late else {}
    known_from = _known_from(arranged, before, work.log_time)
    insights = insights_of(arranged.proposals, known_from)
    proposed = [insight for event in arranged.proposals for insight in event.insights]
    if work.late:
        proposed = [without_claims(insight) for insight in proposed]
    there = sum(step.kind is ChangeKind.ADDED for row in steps.values() for step in row.steps)
    sentences = [] if arranged.formed is None else summary_memories(arranged.formed, there + len(insights))
    own = [*(memory for memory, _ in insights), *sentences]
    speakers = speakers_of(before.speakers, own)
    return SessionMemories(
        proposals=tuple(Proposal(memory, insight) for (memory, _), insight in zip(insights, proposed, strict=True)),
        sentences=tuple(sentences),
        known_from=known_from,
        before=before,
        steps=steps.get(work.number),
        speakers=speakers,
        left_out=names_left_out(steps.get(work.number), speakers, own),
    )


def _known_from(arranged: SessionInput, before: MemoryStats, log_time: datetime) -> datetime:
    """Log time of the session's closing; for a skipped session the latest time known for certain."""
    if arranged.formed is not None:
        return arranged.formed.known_from
    times = [line.at for event in arranged.proposals for insight in event.insights for line in insight.evidence]
    certain = [*times, *([before.known_from] if before.known_from else [])]
    return max(certain, default=log_time)
