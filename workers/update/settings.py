"""Settings of stage update."""

from pydantic import Field

from eunoe.schemas.base import Value


class UpdateSettings(Value):
    """How memories are indexed, and which of them a session's sentences are judged against."""

    average_terms: float = Field(default=12.0, gt=0)
    """The length in terms of a middling memory: BM25's norm. A constant, so that no later session changes a weight."""
    prompt_budget_tokens: int = Field(default=16_000, ge=500)
    """Tokens of memories and sentences in the one question to the model."""
    max_pairs: int = Field(default=160, ge=1, le=400)
    """Pairs of the one question: each has its entry in the answer. Up to here all pairs are judged."""
    similar: int = Field(default=5, ge=1, le=50)
    """Beyond it: the most similar memories that each sentence is judged against."""
    linked: bool = True
    """Beyond it: judge also the memories one link away from the similar ones (waits for links of the last session)."""
    reach: bool = True
    """What an insight supersedes takes along the linked memories that only restate it (one link away). A language model
    is asked about them in the session's one question, where there is room; offline only near-identical ones go along.
    """
    restating: float = Field(default=0.9, gt=0, le=1)
    """Share of words, of both texts together, from which on a memory only says the same as another."""
