"""Settings of stage segment."""

from typing import Annotated, Literal

from pydantic import Field

from eunoe.schemas.base import Tier, Value

Unit = Literal["utterance", "exchange"]


class SegmentSettings(Value):
    """What is numbered, how much of it one question to a model holds, and how readily a topic ends."""

    unit: Unit = "utterance"
    """What a segment is made of: single utterances, or exchanges (somebody's turn and the answers to it)."""
    prompt_budget_tokens: int = Field(default=6000, ge=200)
    """Tokens of dialogue in one question to the model, one unit at least; a longer session is shown in windows."""
    overlap_units: int = Field(default=12, ge=0)
    """Units that a window shares with the one before it, to find a boundary that both see."""
    max_unit_chars: int = Field(default=2000, ge=100)
    """Characters of one unit that the model sees; a longer one loses its middle."""
    threshold: Annotated[float, Tier.TUNE] = Field(default=3.0, allow_inf_nan=False)
    """Evidence that an offline boundary needs (see `eunoe.workers.segment.boundaries`); higher: longer segments."""
