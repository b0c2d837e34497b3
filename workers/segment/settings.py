"""Settings of stage `segment`."""

from typing import Annotated, Literal

from pydantic import Field

from eunoe.schemas.base import Tier, Value

Unit = Literal["utterance", "exchange"]


class SegmentSettings(Value):
    """Unit of segments, size of a prompt, and threshold of a boundary."""

    unit: Unit = "utterance"
    """Unit of segments: utterances, or exchanges (one speaker's turn and the answers to it)."""
    prompt_budget_tokens: int = Field(default=6000, ge=200)
    """Tokens of dialogue in one prompt, at least one unit; a longer session is split into windows."""
    overlap_units: int = Field(default=12, ge=0)
    """Units that a window shares with the one before it, to find a common boundary."""
    max_unit_chars: int = Field(default=2000, ge=100)
    """Characters of one unit shown to the model; a longer one loses its middle."""
    threshold: Annotated[float, Tier.TUNE] = Field(default=3.0, allow_inf_nan=False)
    """Evidence needed for an offline boundary (see `eunoe.workers.segment.boundaries`); higher gives longer segments.
    """
