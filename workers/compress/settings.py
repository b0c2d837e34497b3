"""Settings of stage `compress`."""

from typing import Annotated

from pydantic import Field

from eunoe.schemas.base import Tier, Value


class CompressSettings(Value):
    """Defaults from SeCom, section 3."""

    keep: Annotated[float, Tier.TUNE] = Field(default=0.75, gt=0, le=1)
    """Share of the tokens of each utterance that is kept for search; a short one keeps more."""
    average_terms: float = Field(default=60.0, gt=0)
    """Average terms of a segment, the length norm of BM25. A constant, so that no later session changes a weight."""
