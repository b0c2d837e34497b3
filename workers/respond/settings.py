"""Settings of stage `respond`."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from eunoe.schemas.base import Tier, Value
from eunoe.schemas.events import Strategy


class Retriever(StrEnum):
    """Ranking of segments."""

    DENSE = "dense"
    """Cosine of embeddings."""
    BM25 = "bm25"
    """Words shared with the question."""
    RRF = "rrf"
    """Reciprocal rank fusion of both."""


class Refine(StrEnum):
    """Refinement of timelines for the current dialogue (THEANINE, section 2.2, phase II-2)."""

    SEPARATE = "separate"
    """In a separate call before the reply, as in the paper."""
    FUSED = "fused"
    """In the call of the reply: notes first, then the reply."""
    OFF = "off"
    """No refinement: the reply sees raw timelines."""


class RespondSettings(Value):
    """Defaults for asks that do not set them."""

    persona: Annotated[str, Tier.SET] = Field(default="", max_length=8000)
    """The product's words about the participant that replies: who it is and its manner. Part of the prompt's
    instructions; only a language model reads it."""
    strategy: Annotated[Strategy, Tier.TUNE] = Strategy.FUSED
    """Strategy of retrieval."""
    retriever: Retriever = Retriever.RRF
    """Ranking of segments: dense, bm25 or rrf."""
    budget_tokens: Annotated[int, Tier.TUNE] = Field(default=1500, ge=1)
    """Tokens of memory in a prompt, days and speaker names included."""
    max_budget_tokens: int = Field(default=50_000, ge=1)
    """The largest budget that an ask may name; a larger one counts as this. The context travels in the reply."""
    dialogue_tokens: Annotated[int, Tier.TUNE] = Field(default=1500, ge=0)
    """Tokens of the current session in a prompt; the latest lines are kept."""
    candidates: int = Field(default=50, ge=1)
    """Hits requested from each search."""
    refine: Refine = Refine.FUSED
    """Refinement of timelines: separate, fused or off."""
    rrf_k: int = Field(default=60, ge=1)
    """Constant k of reciprocal rank fusion."""
    current: int = Field(default=5, ge=1)
    """Maximum of memories that strategy current shows (Keep Me Updated, appendix B.3)."""
    called_up: int = Field(default=10, ge=1)
    """Maximum of memories that strategy insight retrieves (CREEM, section 4.2: five for each of two queries)."""
    activation: float = Field(default=0.0, ge=0, le=10)
    """Weight of how lately and how often a memory was said, beside the searches, in strategies current and insight; 0:
    none."""
    max_lines: int = Field(default=1000, ge=1)
    """Maximum of utterances that strategy fused scores for one question."""
    cache_mb: Annotated[int, Tier.TUNE] = Field(default=40, ge=1)
    """Megabytes of documents, features, vectors and graphs of asked conversations that a process of ``respond`` keeps.
    One ask reads up to about 10 of them; more keeps asks fast where many large conversations are asked at once."""
