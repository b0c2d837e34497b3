"""Measures the upkeep of the memory: contradictions among current memories, shares of operations and insights."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import combinations

from eunoe.deploy.datasets.loaded import LoadedConversation
from eunoe.deploy.evaluate.indexed import MEMORY_UPDATES, asking
from eunoe.deploy.evaluate.models import EvalModels
from eunoe.deploy.evaluate.report import BarChart
from eunoe.deploy.progress import Advance
from eunoe.schemas.memory import InsightsProposed, MemoriesChanged, Memory, MemoryStatus
from eunoe.streams.topics import Topic
from eunoe.workers.derive.in_memory import InMemoryPipeline, select_stages
from eunoe.workers.registry import StageSettings
from eunoe.workers.update.english.contradiction import SUSPICION_THRESHOLD, find_contradiction

SHOWN = 20
"""Contradictions printed for each conversation."""


@dataclass(frozen=True, slots=True)
class UpkeepRow:
    """One conversation after its last session."""

    conversation: str
    memories: int
    current: int
    pairs: int
    """Pairs of current memories of one speaker."""
    contradictions: int
    """Pairs that look like a contradiction by the offline threshold for suspicion."""
    added: float
    reinforced: float
    superseded: float
    retired: float
    suspected: float
    """Shares of all changes."""
    turns: int
    """Turns that were blended."""
    new: float
    redundant: float
    updated: float
    """Shares of their insights."""
    left: list[dict[str, str]] = field(default_factory=list)
    """The first `SHOWN` contradictions: older, newer, reason."""


async def evaluate_upkeep(
    conversations: Sequence[LoadedConversation],
    models: EvalModels,
    settings: StageSettings,
    ask_every: int,
    advance: Advance = lambda: None,
) -> list[UpkeepRow]:
    """Run every conversation through the stages; every ``ask_every``-th turn (0: none) is blended."""
    rows = []
    for loaded in conversations:
        stages = select_stages((*MEMORY_UPDATES, "blend"))
        pipeline = InMemoryPipeline(models.embedder, settings, models.language, models.compressor, stages=stages)
        await pipeline.play(asking(loaded, ask_every))
        rows.append(row_of(loaded.conversation_id, pipeline.changes(), proposals(pipeline)))
        advance()
    return rows


def proposals(pipeline: InMemoryPipeline) -> list[InsightsProposed]:
    """The insights that blend proposed."""
    return [event for event in pipeline.events(Topic.MEMORIES) if isinstance(event, InsightsProposed)]


def row_of(name: str, feed: Sequence[MemoriesChanged], proposed: Sequence[InsightsProposed]) -> UpkeepRow:
    """The counts of a change feed and of proposals."""
    changes = [change for event in feed for change in event.changes]
    memories = {change.memory.memory_id: change.memory for change in changes}
    kinds = Counter(change.kind.value for change in changes)
    insights = Counter(insight.kind.value for event in proposed for insight in event.insights)
    current = sorted((m for m in memories.values() if m.status is MemoryStatus.CURRENT), key=lambda one: one.order)
    pairs, left = contradictions(current)
    return UpkeepRow(
        conversation=name,
        memories=len(memories),
        current=len(current),
        pairs=pairs,
        contradictions=len(left),
        turns=len(proposed),
        left=left[:SHOWN],
        **{kind: _share(kinds, kind) for kind in ("added", "reinforced", "superseded", "retired", "suspected")},
        **{kind: _share(insights, kind) for kind in ("new", "redundant", "updated")},
    )


def contradictions(current: Sequence[Memory]) -> tuple[int, list[dict[str, str]]]:
    """(pairs of one speaker that were compared, those that look like a contradiction)."""
    by_speaker: defaultdict[str, list[Memory]] = defaultdict(list)
    for memory in current:
        by_speaker[memory.speaker].append(memory)
    pairs, found = 0, []
    for speaker, mine in by_speaker.items():
        for old, new in combinations(mine, 2):
            pairs += 1
            score, why = find_contradiction(old.text, new.text, speaker)
            if score >= SUSPICION_THRESHOLD:
                found.append({"older": old.text, "newer": new.text, "because": why})
    return pairs, found


def _share(counts: Counter[str], name: str) -> float:
    total = counts.total()
    return round(counts[name] / total, 3) if total else 0.0


def describe_contradictions(rows: Sequence[UpkeepRow]) -> tuple[str, ...]:
    """Paragraphs for the report with the pairs that look like contradictions."""
    pairs = [
        f"- {row.conversation}: *{one['older']}* – *{one['newer']}* ({one['because']})"
        for row in rows
        for one in row.left
    ]
    return (f"Look like contradictions (the first {SHOWN} of each conversation):", "\n".join(pairs)) if pairs else ()


def upkeep_bars(rows: Sequence[UpkeepRow]) -> BarChart:
    """Operations by conversation."""
    kinds = ("added", "reinforced", "superseded", "retired", "suspected")
    series = {kind: [float(getattr(row, kind)) for row in rows] for kind in kinds}
    return BarChart("Operations on memories", "share", tuple(row.conversation for row in rows), series)
