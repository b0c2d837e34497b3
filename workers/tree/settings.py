"""Settings of stage `tree`."""

from pydantic import Field

from eunoe.schemas.base import Value


class TreeSettings(Value):
    """Growth of the tree, and the length of its aggregates."""

    early_threshold: float = Field(default=0.3, gt=0, le=1)
    """Base threshold until the conversation has enough pairs to compute its own; 0.4 suits MiniLM."""
    sample: int = Field(default=100, ge=2, le=1000)
    """Number of leaves after which the base threshold is computed from their pairs, once."""
    quantile: float = Field(default=0.9, gt=0, lt=1)
    """Quantile of the pairs' similarities that becomes the base threshold."""
    lowest_threshold: float = Field(default=0.2, gt=0, le=1)
    """Lower bound of the computed threshold; below it the tree would grow too deep."""
    highest_threshold: float = Field(default=0.55, gt=0, le=1)
    """Upper bound of the computed threshold; above it the tree would grow too broad."""
    rate: float = Field(default=0.5, ge=0)
    """Rate at which the threshold rises with depth (MemTree, A.1.3)."""
    d_max: int = Field(default=4, ge=1)
    """Depth at which the threshold has risen by the factor exp(rate); not a bound on the depth."""
    fan_out: int = Field(default=32, ge=2)
    """Maximum of children of one node, the root included."""
    extract_tokens: int = Field(default=60, ge=8)
    """Maximum of tokens of an offline aggregate."""
    ask_model: bool = False
    """Whether a language model writes the aggregates, which is one more question a session. They then stand in
    strategies `tree` and `fused`. Without it they are extracts, which only help to rank the leaves below them."""
    aggregate_tokens: int = Field(default=160, ge=8)
    """Maximum of tokens of a model's aggregate."""
    prompt_budget_tokens: int = Field(default=16_000, ge=1000)
    """Tokens of one prompt and its answer; more nodes are split into several."""
    average_terms: float = Field(default=9.0, gt=0)
    """Average terms of a leaf, the length norm of BM25."""


class TreeRecallSettings(Value):
    """Search of the tree."""

    candidates: int = Field(default=100, ge=1)
    """Hits requested from each search."""
    limit: int = Field(default=30, ge=1)
    """Maximum of results for one question."""
    floor: float = Field(default=0.0, ge=-1, le=1)
    """Cosine below which a node is unrelated to the question: about the lower quartile of all pairs of a question and a
    memory with static embeddings. A higher floor begins to lose relevant nodes."""
    ancestor_weight: float = Field(default=0.3, ge=0)
    """Weight of the z-score of the ancestors' mean cosine."""
    aggregates_stand: bool = True
    """Whether a model's aggregates, where there are any, may be results beside the leaves below them."""
    least_news: float = Field(default=0.5, ge=0, le=1)
    """Share of its leaves that such an aggregate must add to the results below it."""
