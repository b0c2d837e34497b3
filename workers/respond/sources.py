"""Where a reply looks: one source per strategy, each giving the memory that a prompt shows."""

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
    """What is asked, of which conversation, and how much may be shown."""

    key: str
    text: str
    speakers: tuple[str, ...]
    budget_tokens: int
    asker: str = ""
    """Who asks; empty where nobody says."""
    session: int = 0
    """The number of the open session, or of the one to come; 0: after none."""
    insights: tuple[Insight, ...] = ()
    """What the open session was blended into so far, in the order of turns."""
    vector: NDArray[np.float32] | None = field(default=None, compare=False)
    """The text's vector, names left out, where it is known already."""


class RecallSource(Protocol):
    """A strategy's way to memory."""

    async def recall(self, query: Query) -> Context:
        """What is remembered, at most ``budget_tokens`` of it; empty where nothing is."""
        ...


@dataclass(frozen=True, slots=True)
class HybridSearch:
    """Searches one collection by dense vectors, BM25 or both."""

    index: VectorIndex
    embedder: Embedder
    settings: RespondSettings

    async def find(self, collection: Collection, query: Query, sparse: SparseVector) -> list[Hit]:
        """Hits by the setting's retriever, best first; ``sparse`` is the question with its term weights."""
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
