"""The port of a recall source, one per strategy, and the search that most of them share."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from eunoe.schemas.decisions import Collection, SparseVector
from eunoe.schemas.events import Insight
from eunoe.schemas.ports import Embedder, Hit, Search, VectorIndex
from eunoe.workers.respond.context import Context
from eunoe.workers.respond.ranking import reciprocal_rank_fusion
from eunoe.workers.respond.settings import RespondSettings, Retriever
from eunoe.workers.text.names import without_names


@dataclass(frozen=True, slots=True)
class Query:
    """A question to memory, with its conversation and token budget."""

    key: str
    text: str
    speakers: tuple[str, ...]
    budget_tokens: int
    asker: str = ""
    """The speaker who asks; empty if unknown."""
    session: int = 0
    """The number of the open session, or of the next one; 0 if there is none."""
    insights: tuple[Insight, ...] = ()
    """Insights of the open session so far, in the order of turns."""
    vector: NDArray[np.float32] | None = field(default=None, compare=False)
    """The vector of the text without names, if already computed."""


class RecallSource(Protocol):
    """Recalls memory for a question, by one strategy."""

    async def recall(self, query: Query) -> Context:
        """The matching memory, at most ``budget_tokens`` of it; empty if there is none."""
        ...


@dataclass(frozen=True, slots=True)
class HybridSearch:
    """Searches one collection by dense vectors, BM25 or both."""

    index: VectorIndex
    embedder: Embedder
    settings: RespondSettings

    async def find(self, collection: Collection, query: Query, sparse: SparseVector) -> list[Hit]:
        """The hits, best first; ``sparse`` is the question with its term weights."""
        searches: list[Search] = []
        if self.settings.retriever is not Retriever.BM25:
            vector = query.vector
            if vector is None:
                (vector,) = await self.embedder.embed([without_names(query.text, query.speakers)])
            dense = vector.astype("<f4").tobytes()
            searches.append(Search(collection, query.key, self.settings.candidates, dense=dense))
        if self.settings.retriever is not Retriever.DENSE and sparse.indices:
            searches.append(Search(collection, query.key, self.settings.candidates, sparse=sparse))
        rankings: Sequence[list[Hit]] = await self.index.search(searches) if searches else []
        return reciprocal_rank_fusion(rankings, self.settings.rrf_k)
