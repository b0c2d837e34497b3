"""Settings of stage update."""

from pydantic import Field

from eunoe.schemas.base import Value


class UpdateSettings(Value):
    """Indexing of memories, and selection of the memories that sentences are judged against."""

    average_terms: float = Field(default=12.0, gt=0)
    """Average terms of a memory, the length norm of BM25. A constant, so that no later session changes a weight."""
    prompt_budget_tokens: int = Field(default=16_000, ge=500)
    """Tokens of memories and sentences in the one prompt of a session."""
    max_pairs: int = Field(default=160, ge=1, le=400)
    """Pairs in that prompt (a memory and a sentence), each with an entry in the answer. Up to this number all are
    judged."""
    similar: int = Field(default=5, ge=1, le=50)
    """Above ``max_pairs``: the most similar memories that each sentence is judged against."""
    linked: bool = True
    """Above ``max_pairs``: also judge memories one link away from the similar ones (waits for the last session's
    links)."""
    reach: bool = True
    """Whether what ends a memory also ends those that only restate it, and linked ones (one link away) that its
    successor replaces too. A language model judges the latter; offline only near-identical ones end."""
    consolidate_every: int = Field(default=100, ge=0)
    """Memories of a conversation after which the latest of them are compared with all, and near-identical ones are
    fused; 0: never."""
    restating: float = Field(default=0.9, gt=0, le=1)
    """Share of common words in both texts together from which a memory counts as a restatement."""
