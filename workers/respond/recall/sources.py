"""The port of a recall source, one per strategy, and the search that most of them share."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from eunoe.schemas.decisions import Collection, SparseVector
from eunoe.schemas.events import Insight
from eunoe.schemas.model_ports import Embedder
from eunoe.schemas.ports import Hit, Search, VectorIndex
from eunoe.workers.respond.context import Context
from eunoe.workers.respond.recall.ranking import reciprocal_rank_fusion
from eunoe.workers.respond.settings import RespondSettings, Retriever
from eunoe.workers.text.names import without_names
from eunoe.workers.text.queries import WeightedText, mixed_vector, weighted_terms


@dataclass(frozen=True)
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
    around: tuple[WeightedText, ...] = ()
    """Texts to search by beside it: utterances before it, and the question asked of memory."""
    looked_up: tuple[str, ...] = ()
    """Ids of memories that were found for that question."""
    at: datetime | None = None
    """Event time of the ask: what ended before is shown as past. `None` means that nothing has ended."""
    vector: NDArray[np.float32] | None = field(default=None, compare=False)
    """The vector of the texts without names, if already computed."""

    @property
    def texts(self) -> tuple[str, ...]:
        """The text, and those around it."""
        return self.text, *(text for text, _ in self.around)

    @property
    def weights(self) -> tuple[float, ...]:
        """The weight of each of `texts`."""
        return 1.0, *(weight for _, weight in self.around)

    @cached_property
    def terms(self) -> Mapping[str, float]:
        """Term → weight; names of speakers are none."""
        return weighted_terms(self.text, self.around, drop=self.speakers)


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

    async def find(
        self, collection: Collection, query: Query, sparse: SparseVector, limit: int | None = None
    ) -> list[Hit]:
        """The hits, best first; ``sparse`` is the question with its term weights.

        ``limit``: hits requested from each search, `None` for those of the settings.
        """
        searches: list[Search] = []
        limit = self.settings.candidates if limit is None else limit
        if self.settings.retriever is not Retriever.BM25:
            dense = (await self.vector_of(query)).astype("<f4").tobytes()
            searches.append(Search(collection, query.key, limit, dense=dense))
        if self.settings.retriever is not Retriever.DENSE and sparse.indices:
            searches.append(Search(collection, query.key, limit, sparse=sparse))
        rankings: Sequence[list[Hit]] = await self.index.search(searches) if searches else []
        return reciprocal_rank_fusion(rankings, self.settings.rrf_k)

    async def vector_of(self, query: Query) -> NDArray[np.float32]:
        """The vector of the query's texts without names: its own, or computed. Raises `Unavailable`."""
        if query.vector is not None:
            return query.vector
        vectors = await self.embedder.embed([without_names(text, query.speakers) for text in query.texts])
        return mixed_vector(list(vectors), query.weights)
