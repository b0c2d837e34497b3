"""Scores the candidates of all sources on one scale, for strategy `fused`."""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Self

import numpy as np

from eunoe.schemas.events import Strategy
from eunoe.schemas.memory import Memory, MemoryStatus
from eunoe.schemas.replies import LeftOut, LeftOutReason, Source
from eunoe.workers.respond.context import memory_row
from eunoe.workers.respond.fused.layout import timeline_tokens
from eunoe.workers.respond.fused.packing import DIGITS
from eunoe.workers.respond.fused.scoring_input import ScoringInput
from eunoe.workers.respond.fused.units import Order, PackedUnit, ScoredPassage, tokens_of
from eunoe.workers.respond.hints import QuestionHints
from eunoe.workers.respond.histories import history_source, is_model_written, note, outdated
from eunoe.workers.respond.recall.memories import show_insight, show_memory, unique_insights
from eunoe.workers.respond.recall.passages import TOKENS, Floats
from eunoe.workers.respond.recall.sources import Query
from eunoe.workers.respond.recall.timelines import ShownTimeline, timeline_source
from eunoe.workers.respond.recall.trees import ShownNode, node_source

INSIGHT_SCORE = 1e6
"""Score of the open session's insights, above all others."""
HISTORY_BONUS = 3.0
"""Added to a history's score if the question asks for the past."""
CANDIDATE_BUDGETS, CANDIDATE_TOKENS = 3, 8000
"""Passages considered, in multiples of the budget, and at least so many tokens: short ones fill what is left of it."""
BEHIND_UTTERANCE, END_OF_SESSION = 1, 10**6
"""Order of a memory: behind the utterance it rests on, or at the end of its session."""


@dataclass(frozen=True, slots=True)
class CandidateScores:
    """The scores of passages, from which other candidates get theirs."""

    inputs: ScoringInput
    """The passages in log order."""
    scores: Floats
    """Shape (n,), the passages' lengths subtracted."""
    best: Mapping[str, float]
    """Utterance id → the best score of its passages, without the passage's length."""
    orders: Mapping[str, tuple[int, int, int]]
    """Utterance id → its place."""
    length: float
    """Subtracted for each e-fold of tokens."""
    at: datetime | None = None
    """Event time of the ask."""

    @classmethod
    def of(cls, inputs: ScoringInput, scores: Floats, length: float, at: datetime | None = None) -> Self:
        """From scored passages in log order; ``scores`` has shape (n,)."""
        if not len(scores):
            return cls(inputs, scores, {}, {}, length, at)
        starts = np.cumsum(inputs.pieces) - inputs.pieces
        fits = np.maximum.reduceat(scores + length * np.log(inputs.features[:, TOKENS]), starts).tolist()
        ids = inputs.utterance_ids
        return cls(
            inputs,
            scores,
            dict(zip(ids, fits, strict=True)),
            dict(zip(ids, inputs.orders, strict=True)),
            length,
            at,
        )

    def utterances(self, left_out: Collection[str], past: Mapping[str, str], budget_tokens: int) -> list[ScoredPassage]:
        """The best passages that fit the budget, up to a multiple of it, except those of utterances in ``left_out``.

        ``past``: utterance id → the end of what it says, in words, where that is before the ask.
        """
        inputs, ids, orders = self.inputs, self.inputs.utterance_ids, self.inputs.orders
        ranked = np.argsort(-np.round(self.scores, DIGITS), kind="stable")
        ranked = ranked[inputs.features[ranked, TOKENS] <= budget_tokens]
        if left_out:
            shown = np.asarray([id_ not in left_out for id_ in ids], dtype=bool)
            ranked = ranked[shown[inputs.utterances[ranked]]]
        before = np.cumsum(inputs.tokens[ranked]) - inputs.tokens[ranked]
        ranked = ranked[before <= max(CANDIDATE_BUDGETS * budget_tokens, CANDIDATE_TOKENS)]
        rows = zip(
            self.scores[ranked].tolist(),
            inputs.utterances[ranked].tolist(),
            inputs.tokens[ranked].tolist(),
            ranked.tolist(),
            strict=True,
        )
        return [
            ScoredPassage(score, ids[said], orders[said], tokens, inputs.passages, place, past.get(ids[said], ""))
            for score, said, tokens, place in rows
        ]

    def outdated(self, hidden: Collection[str], known: Iterable[Memory]) -> list[LeftOut]:
        """The utterances in ``hidden``, each with the memories that rested on it."""
        resting: dict[str, list[str]] = {}
        for memory in known:
            for line in memory.evidence:
                resting.setdefault(line.utterance_id, []).append(memory.memory_id)
        return [
            LeftOut(
                reason=LeftOutReason.SUPERSEDED,
                session=self.orders[id_][0],
                utterance_ids=(id_,),
                memory_ids=tuple(resting.get(id_, ())),
                score=round(self.best[id_], 6),
            )
            for id_ in sorted(hidden)
            if id_ in self.best
        ]

    def memories(self, memories: Sequence[Memory], replaced: Collection[str]) -> list[PackedUnit]:
        """Current memories written by a model; an extract repeats only a part of its utterance."""
        return [
            self._memory(memory)
            for memory in memories
            if memory.status is MemoryStatus.CURRENT and is_model_written(memory) and memory.memory_id not in replaced
        ]

    def histories(self, chains: Sequence[Sequence[Memory]], hints: QuestionHints) -> list[PackedUnit]:
        """Histories of supersession, where ended memories are shown."""
        bonus = HISTORY_BONUS if hints.past else 0.0
        return [self._timeline(chain, history_source(chain), bonus) for chain in chains]

    def timelines(self, shown: Sequence[ShownTimeline]) -> list[PackedUnit]:
        """Timelines of memories written by a model, or with an outdated memory."""
        return [
            self._timeline(one.memories, timeline_source(one))
            for one in shown
            if all(map(is_model_written, one.memories)) or any(map(outdated, one.memories))
        ]

    def aggregates(self, nodes: Sequence[ShownNode]) -> list[PackedUnit]:
        """Aggregates of the tree, each as good as the utterances below it are on average.

        An aggregate names the theme of many utterances: it stands beside them and hides none.
        """
        found = []
        for node in nodes:
            tokens = tokens_of((node.row,))
            ids = [id_ for id_ in node.row.cites if id_ in self.best]
            fit = sum(self.best[id_] for id_ in ids) / len(ids) if ids else 0.0
            score = fit - self.length * math.log(tokens)
            source = node_source(node).model_copy(update={"score": round(score, 6)})
            order = (*node.last_place, END_OF_SESSION, BEHIND_UTTERANCE)
            found.append(PackedUnit(score, order, (node.row,), source, tokens, is_extract=True))
        return found

    def insights(self, query: Query) -> list[PackedUnit]:
        """The open session's insights: ranked first, the latest highest; last in time."""
        found = []
        for place, insight in enumerate(unique_insights(query.insights)):
            shown = show_insight(insight, query.session, place)
            found.append(
                PackedUnit(
                    INSIGHT_SCORE + place,
                    (query.session, place, 0, 0),
                    (shown.row,),
                    shown.source,
                    tokens_of([shown.row]),
                )
            )
        return found

    def _memory(self, memory: Memory) -> PackedUnit:
        rows = (memory_row(0, memory, self.at),)
        tokens = tokens_of(rows)
        score = self._score([memory], tokens)
        source = show_memory(memory, round(score, 6), Strategy.CURRENT).source
        return PackedUnit(score, self._order(memory), rows, source, tokens)

    def _timeline(self, memories: Sequence[Memory], source: Source, bonus: float = 0.0) -> PackedUnit:
        rows = tuple(replace(memory_row(0, memory, self.at), past="") for memory in memories)
        notes = tuple(note(memory, self.at) for memory in memories)
        tokens = timeline_tokens(rows, notes, source.relations)
        score = bonus + self._score(memories, tokens)
        scored = source.model_copy(update={"score": round(score, 6)})
        is_extract = not all(map(is_model_written, memories))
        return PackedUnit(score, self._order(memories[-1]), rows, scored, tokens, source.relations, notes, is_extract)

    def _score(self, memories: Sequence[Memory], tokens: int) -> float:
        """The best score of the passages behind it, with its own length subtracted instead of theirs."""
        ids = (line.utterance_id for memory in memories for line in memory.evidence)
        fit = max((self.best[id_] for id_ in ids if id_ in self.best), default=0.0)
        return fit - self.length * math.log(tokens)

    def _order(self, memory: Memory) -> Order:
        """The order directly behind the last utterance it rests on."""
        known = [self.orders[line.utterance_id] for line in memory.evidence if line.utterance_id in self.orders]
        return (
            (*max(known), BEHIND_UTTERANCE)
            if known
            else (memory.session, END_OF_SESSION, memory.index, BEHIND_UTTERANCE)
        )
