"""How segments are denoised and indexed."""

from pydantic import Field

from eunoe.schemas.base import Value


class CompressSettings(Value):
    """Defaults from SeCom, section 3."""

    keep: float = Field(default=0.75, gt=0, le=1)
    """The share of a segment's tokens that retrieval sees."""
    average_terms: float = Field(default=60.0, gt=0)
    """The length in terms of a middling segment: BM25's norm. A constant, so that no later session changes a weight."""
