"""Settings of stage tree."""

from enum import StrEnum

from pydantic import Field

from eunoe.schemas.base import Value


class TreeUnit(StrEnum):
    """What a leaf holds."""

    MEMORIES = "memories"
    SEGMENTS = "segments"


class TreeSettings(Value):
    """How a tree grows, how much its aggregates say, and how it is searched."""

    unit: TreeUnit = TreeUnit.MEMORIES
    """What the leaves are: memories or segments."""
    early_threshold: float = Field(default=0.3, gt=0, le=1)
    """The base threshold until the conversation has pairs enough to take its own from; 0.4 suits MiniLM."""
    sample: int = Field(default=100, ge=2, le=1000)
    """After so many leaves the base threshold is taken from their pairs, once."""
    quantile: float = Field(default=0.9, gt=0, lt=1)
    """The quantile of the pairs' similarities that becomes the base threshold."""
    lowest_threshold: float = Field(default=0.2, gt=0, le=1)
    """The conversation's own threshold is not taken below this: the tree would grow too deep."""
    highest_threshold: float = Field(default=0.55, gt=0, le=1)
    """Nor above this: the tree would grow too broad."""
    rate: float = Field(default=0.5, ge=0)
    """How fast the threshold rises with depth (MemTree, A.1.3)."""
    d_max: int = Field(default=4, ge=1)
    """The depth at which the threshold has risen by the factor exp(rate); no bound of the depth."""
    fan_out: int = Field(default=32, ge=2)
    """Children of one node at most, the root's too."""
    extract_tokens: int = Field(default=60, ge=8)
    """Tokens of an offline aggregate."""
    aggregate_tokens: int = Field(default=90, ge=8)
    """Tokens that a model's aggregate may have."""
    prompt_budget_tokens: int = Field(default=16_000, ge=1000)
    """Tokens of one question to the model and of its answer; more touched nodes make more questions."""
    average_terms: float = Field(default=9.0, gt=0)
    """The terms of a usual leaf: what BM25 weighs a leaf's length against."""


class TreeRecallSettings(Value):
    """How a tree is searched."""

    candidates: int = Field(default=100, ge=1)
    """Hits taken from each search."""
    limit: int = Field(default=30, ge=1)
    """What one question gives at most."""
    floor: float = Field(default=0.0, ge=-1, le=1)
    """The cosine below which a node has nothing to do with the question: about the lower quartile of all pairs of a
    question and a memory, for static embeddings; a higher floor begins to lose what is asked for."""
    ancestor_weight: float = Field(default=0.3, ge=0)
    """The weight of the z-score of a leaf's ancestors' mean cosine."""
    aggregates_stand: bool = False
    """True: a model's aggregates may stand for the leaves below them and pay tokens of their own."""
    least_news: float = Field(default=0.5, ge=0, le=1)
    """The share of its leaves that a standing aggregate must add to what is kept below it."""
