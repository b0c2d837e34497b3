"""Aggregates without a language model: extracts of the sentences nearest to the centroid. Deterministic."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from eunoe.schemas.events import Provenance
from eunoe.schemas.model_ports import Embedder, Vectors
from eunoe.workers.text.names import without_names
from eunoe.workers.text.tokens import clip_tokens, count_tokens
from eunoe.workers.tree.aggregates import ALSO, ELSEWHERE, FORMERLY, Aggregate, AggregateTask
from eunoe.workers.tree.nodes import CODE
from eunoe.workers.tree.settings import TreeSettings
from eunoe.workers.tree.tree import DIGITS, Vector

_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=\S)")


@dataclass(frozen=True, slots=True)
class OfflineAggregator:
    """Writes extracts: one sentence a line, within the token bound, chosen to match the centroid."""

    embedder: Embedder
    settings: TreeSettings

    async def aggregate(self, tasks: Sequence[AggregateTask], names: Sequence[str]) -> list[Aggregate]:
        """One extract per task, naming every speaker below the node; raises `Unavailable` as the embedder does."""
        limit = self.settings.extract_tokens
        found = [candidates(task, limit) for task in tasks]
        distinct = list(dict.fromkeys(text for texts in found for text in texts))
        vectors = await self.embedder.embed([without_names(text, names) for text in distinct])
        rows = dict(zip(distinct, vectors, strict=True))
        made_by = Provenance(code=CODE, model=f"extract + {self.embedder.name}")
        return [
            Aggregate(extract(task, texts, [rows[text] for text in texts], limit), made_by)
            for task, texts in zip(tasks, found, strict=True)
        ]


def candidates(task: AggregateTask, limit: int) -> list[str]:
    """The sentences to choose from: those of the previous text without the ended ones, then the new ones.

    Where none is left, those of other current entries; none at all where all entries have ended. What a current entry
    says stays, though another one that said it has ended.
    """
    if task.current == 0:
        return []
    ended = (*task.drop, *task.said_anew, *task.left)
    news, others = ([_folded(text, limit) for text in texts] for texts in (task.news, task.others))
    gone = {_folded(text, limit) for text in ended}.difference(news, others)
    lines = [line for line in task.before.splitlines() if not line.startswith(ALSO)]
    present = [part for line in lines for part in _parts(line, limit)]
    found = [text for text in dict.fromkeys((*present, *news)) if text.strip() and text not in gone]
    return found or [text for text in dict.fromkeys(others) if text.strip()]


def _parts(line: str, limit: int) -> list[str]:
    """The line, or its sentences if it exceeds ``limit`` tokens (a model's aggregate)."""
    if count_tokens(line) <= limit:
        return [line]
    return [clip_tokens(part, limit) for part in _SENTENCE.split(line)]


def _folded(text: str, limit: int) -> str:
    return clip_tokens(" ".join(text.split()), limit)


def extract(task: AggregateTask, texts: Sequence[str], rows: Sequence[Vector], limit: int) -> str:
    """The sentences whose sum is nearest to the centroid, in their order, and the speakers they do not name.

    ``rows[i]`` is the unit vector of ``texts[i]``. Without sentences the text states what has ended; it is never empty.
    """
    if not texts:
        return clip_tokens(_ended_text(task), limit)
    kept = around_centroid([count_tokens(text) for text in texts], np.stack(rows), task.centroid, limit)
    text = "\n".join(texts[place] for place in sorted(kept))
    missing = [name for name in task.speakers if name.casefold() not in text.casefold()]
    return f"{text}\n{ALSO}{', '.join(missing)}." if missing else text


def _ended_text(task: AggregateTask) -> str:
    prefix, texts = (FORMERLY, task.drop) if task.drop else (ELSEWHERE, (*task.left, *task.said_anew))
    return prefix + " ".join(" ".join(texts).split())


def around_centroid(costs: Sequence[int], rows: Vectors, centroid: Vector, limit: int) -> list[int]:
    """Choose sentences greedily: each step maximizes the cosine of the sum to the centroid.

    ``rows`` has shape (n, dimensions); ``costs`` are tokens. The first is taken at any cost.
    """
    wide = rows.astype(np.float64)
    total = np.zeros(wide.shape[1])
    kept: list[int] = []
    left = limit
    while open_ := [place for place in range(len(costs)) if place not in kept and (costs[place] <= left or not kept)]:
        sums = total + wide[open_]
        cosines = np.round(sums @ centroid / np.maximum(np.linalg.norm(sums, axis=1), 1e-9), DIGITS)
        best = open_[int(np.argmax(cosines))]
        kept.append(best)
        total += wide[best]
        left -= costs[best]
    return kept
