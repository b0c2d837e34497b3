"""Settings of stage `summarize`."""

from typing import Annotated

from pydantic import Field

from eunoe.schemas.base import Tier, Value


class SummarizeSettings(Value):
    """Size of a prompt, and limits of a session's memories."""

    prompt_budget_tokens: int = Field(default=6000, ge=200)
    """Tokens of dialogue in one prompt; a longer session is split into windows."""
    max_line_chars: int = Field(default=2000, ge=100)
    """Characters of one utterance shown to the model; a longer one loses its middle."""
    max_memories: int = Field(default=40, ge=1, le=40)
    """Maximum of memories from the offline summarizer, or from one answer of a model."""
    lines_per_memory: Annotated[int, Tier.TUNE] = Field(default=4, ge=1)
    """Offline: evidence lines per memory (at least three memories); changes of state are added."""
    max_evidence_bytes: int = Field(default=400_000, ge=1024)
    """Maximum of bytes of utterances cited by a session's memories together: they are sent in one record."""
