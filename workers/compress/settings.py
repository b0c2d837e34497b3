"""How segments are denoised and indexed."""

from typing import Annotated

from pydantic import Field

from eunoe.schemas.base import Tier, Value


class CompressSettings(Value):
    """Defaults from SeCom, section 3."""

    keep: Annotated[float, Tier.TUNE] = Field(default=0.75, gt=0, le=1)
    """The share of a segment's tokens that retrieval sees."""
    average_terms: float = Field(default=60.0, gt=0)
    """The length in terms of a middling segment: BM25's norm. A constant, so that no later session changes a weight."""
