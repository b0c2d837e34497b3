"""All candidates of strategy `fused` on one scale. Pure."""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from eunoe.schemas.events import Source, Strategy
from eunoe.schemas.memory import Memory, MemoryStatus
from eunoe.workers.respond.asked import QuestionHints
from eunoe.workers.respond.context import Row, memory_row
from eunoe.workers.respond.fused.packing import DIGITS, Order, PackedUnit, timeline_tokens, tokens_of
from eunoe.workers.respond.histories import history_source, note, outdated, stands
from eunoe.workers.respond.memories import show_insight, show_memory, standing
from eunoe.workers.respond.sources import Query
from eunoe.workers.respond.timelines import ShownTimeline, timeline_source
from eunoe.workers.respond.turns import CandidateTurn, Floats

FIRST = 1e6
"""The score of what comes before all else: the insights of the open session."""
PAST = 3.0
"""What a history gains where the question asks for what was before."""
ENOUGH = 2
"""How many budgets full of utterances are looked at: what is further down is not shown."""
AFTER, LONE = 1, 10**6
"""Places behind the utterance that a memory rests on, and behind all of its session."""


@dataclass(frozen=True, slots=True)
class CandidateScores:
    """The scores of utterances, and what other rows score by the utterances that they rest on."""

    turns: Mapping[str, CandidateTurn]
    """Utterance id → the utterance."""
    scores: Mapping[str, float]
    """Utterance id → its score, its length taken off."""
    ranked: Sequence[str]
    """The ids by score, best first, equal ones in the order of the log."""
    length: float
    """What is taken off for each e-fold of tokens."""

    @classmethod
    def of(cls, turns: Sequence[CandidateTurn], scores: Floats, length: float) -> Self:
        """The board of scored utterances in log order; ``scores`` has shape (n,)."""
        ids = [turn.line.utterance_id for turn in turns]
        ranked = [ids[place] for place in np.argsort(-np.round(scores, DIGITS), kind="stable")]
        return cls(dict(zip(ids, turns, strict=True)), dict(zip(ids, scores.tolist(), strict=True)), ranked, length)

    def utterances(self, left_out: Collection[str], budget_tokens: int) -> list[PackedUnit]:
        """The best evidence utterances, a few times the budget, but those that tell only what holds no more."""
        found: list[PackedUnit] = []
        spent = 0
        for id_ in self.ranked:
            turn = self.turns[id_]
            if spent > ENOUGH * budget_tokens:
                break
            if turn.line.is_evidence and id_ not in left_out:
                found.append(PackedUnit(self.scores[id_], (*turn.order, 0), (turn.row,), turn.source, turn.tokens))
                spent += turn.tokens
        return found

    def memories(self, memories: Sequence[Memory], replaced: Collection[str]) -> list[PackedUnit]:
        """Memories that hold and that a model wrote: an extract says a part of what its utterance says."""
        return [
            self._memory(memory)
            for memory in memories
            if memory.status is MemoryStatus.CURRENT and stands(memory) and memory.memory_id not in replaced
        ]

    def histories(self, chains: Sequence[Sequence[Memory]], asked: QuestionHints) -> list[PackedUnit]:
        """Timelines of supersession; the only place where what holds no more is shown."""
        bonus = PAST if asked.past else 0.0
        return [self._timeline(chain, history_source(chain), bonus) for chain in chains]

    def timelines(self, shown: Sequence[ShownTimeline]) -> list[PackedUnit]:
        """Linked memories that a model wrote, or that tell of a change."""
        return [
            self._timeline(one.memories, timeline_source(one))
            for one in shown
            if all(map(stands, one.memories)) or any(map(outdated, one.memories))
        ]

    def insights(self, query: Query) -> list[PackedUnit]:
        """The open session's insights: first in rank, the latest of them before all; last in time."""
        found = []
        for place, insight in enumerate(standing(query.insights)):
            shown = show_insight(insight, query.session, place)
            found.append(
                PackedUnit(
                    FIRST + place, (query.session, place, 0, 0), (shown.row,), shown.source, tokens_of([shown.row])
                )
            )
        return found

    def _memory(self, memory: Memory) -> PackedUnit:
        rows = memory_rows([memory])
        tokens = tokens_of(rows)
        score = self._score([memory], tokens)
        source = show_memory(memory, round(score, 6), Strategy.CURRENT).source
        return PackedUnit(score, self._order(memory), rows, source, tokens)

    def _timeline(self, memories: Sequence[Memory], source: Source, bonus: float = 0.0) -> PackedUnit:
        rows, notes = memory_rows(memories), tuple(map(note, memories))
        tokens = timeline_tokens(rows, notes, source.relations)
        score = bonus + self._score(memories, tokens)
        scored = source.model_copy(update={"score": round(score, 6)})
        is_extract = not all(map(stands, memories))
        return PackedUnit(score, self._order(memories[-1]), rows, scored, tokens, source.relations, notes, is_extract)

    def _score(self, memories: Sequence[Memory], tokens: int) -> float:
        """What the best of the utterances behind it says, less what its own rows cost."""
        ids = [line.utterance_id for memory in memories for line in memory.evidence if line.utterance_id in self.turns]
        fits = (self.scores[id_] + self.length * math.log(max(self.turns[id_].tokens, 1)) for id_ in ids)
        return max(fits, default=0.0) - self.length * math.log(tokens)

    def _order(self, memory: Memory) -> Order:
        """Right behind the last utterance that it rests on."""
        known = [self.turns[line.utterance_id].order for line in memory.evidence if line.utterance_id in self.turns]
        return (*max(known), AFTER) if known else (memory.session, LONE, memory.index, AFTER)


def memory_rows(memories: Sequence[Memory]) -> tuple[Row, ...]:
    """Memories as rows yet without numbers."""
    return tuple(memory_row(0, memory) for memory in memories)
