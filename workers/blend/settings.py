"""Settings of stage blend."""

from typing import Annotated

from pydantic import Field

from eunoe.schemas.base import Tier, Value


class BlendSettings(Value):
    """How long a turn waits for memory, what it looks up, and how much it proposes."""

    wait_s: Annotated[float | None, Tier.TUNE] = Field(default=2.0, ge=0)
    """Seconds that an asker waits for memory of the session before; 0 or unset: as long as it takes."""
    wait_unasked_s: float | None = Field(default=600.0, ge=0)
    """Seconds without progress of memory, after which turns that nobody waits for go on without it; 0 or unset: never.
    """
    retrieved: int = Field(default=5, ge=1, le=50)
    """Memories by the question, and as many by the last two utterances; CREEM's are 5."""
    searched: int = Field(default=50, ge=1, le=500)
    """Memories that a search looks through for those that still hold."""
    max_insights: int = Field(default=2, ge=1, le=5)
    """Insights of one turn; CREEM's are 2."""
    prompt_budget_tokens: int = Field(default=3000, ge=200)
    """Tokens of the open session in one question to the model; the latest lines are shown."""
    max_line_chars: int = Field(default=2000, ge=100)
    """Characters of one utterance that the model sees; a longer one loses its middle."""
    max_insight_bytes: int = Field(default=200_000, ge=1024)
    """Bytes of insights, with what they cite, that one record carries; the latest go first."""
