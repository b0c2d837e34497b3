"""Settings of stage summarize."""

from typing import Annotated

from pydantic import Field

from eunoe.schemas.base import Tier, Value


class SummarizeSettings(Value):
    """How much of a session one question to a model holds, and how much memory a session may give."""

    prompt_budget_tokens: int = Field(default=6000, ge=200)
    """Tokens of dialogue in one question to the model; a longer session is asked about in windows."""
    max_line_chars: int = Field(default=2000, ge=100)
    """Characters of one utterance that the model sees; a longer one loses its middle."""
    max_memories: int = Field(default=40, ge=1, le=40)
    """Memories that the offline summarizer, or one answer of a model, may give."""
    lines_per_memory: Annotated[int, Tier.TUNE] = Field(default=4, ge=1)
    """Offline: one memory for so many lines of evidence (three at least); changes of state come on top."""
    max_evidence_bytes: int = Field(default=400_000, ge=1024)
    """Bytes of cited utterances that a session's memories carry together: they travel in one record."""
