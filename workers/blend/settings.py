"""Settings of stage `blend`."""

from typing import Annotated

from pydantic import Field

from eunoe.schemas.base import Tier, Value


class BlendSettings(Value):
    """Waiting for memory, retrieval, and limits of insights."""

    wait_s: Annotated[float | None, Tier.TUNE] = Field(default=2.0, ge=0)
    """Seconds that a turn asking for a reply waits for memory of the previous session; 0: without limit."""
    wait_unasked_s: float | None = Field(default=600.0, ge=0)
    """Seconds without progress of memory after which other turns go on without it; 0: never."""
    retrieved: int = Field(default=5, ge=1, le=50)
    """Memories retrieved by the question, and as many by the last two utterances; CREEM uses 5."""
    searched: int = Field(default=50, ge=1, le=500)
    """Hits of a search among which current memories are sought first; where too few are, it goes deeper."""
    max_insights: int = Field(default=2, ge=1, le=5)
    """Maximum of insights of one turn; CREEM uses 2."""
    prompt_budget_tokens: int = Field(default=3000, ge=200)
    """Tokens of the open session in one prompt; the latest lines are shown."""
    max_line_chars: int = Field(default=2000, ge=100)
    """Characters of one utterance shown to the model; a longer one loses its middle."""
    max_insight_bytes: int = Field(default=200_000, ge=1024)
    """Maximum of bytes of insights, citations included, in one record; the latest take precedence."""
