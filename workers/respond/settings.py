"""How replies are made."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from eunoe.schemas.base import Tier, Value
from eunoe.schemas.events import Strategy


class Retriever(StrEnum):
    """How segments are ranked."""

    DENSE = "dense"
    """By the cosine of embeddings."""
    BM25 = "bm25"
    """By the words they share with the question."""
    RRF = "rrf"
    """By reciprocal rank fusion of both."""


class Refine(StrEnum):
    """When timelines are fitted to the dialogue at hand (THEANINE, section 2.2, phase II-2)."""

    SEPARATE = "separate"
    """In a call of its own before the reply, as in the paper."""
    FUSED = "fused"
    """In the call of the reply: notes first, then the answer."""
    OFF = "off"
    """Never: the reply sees raw timelines."""


class RespondSettings(Value):
    """Defaults for asks that do not say otherwise."""

    strategy: Annotated[Strategy, Tier.TUNE] = Strategy.FUSED
    """Where the responder looks."""
    retriever: Retriever = Retriever.RRF
    """How segments are ranked: dense, bm25 or rrf."""
    budget_tokens: Annotated[int, Tier.TUNE] = Field(default=1500, ge=1)
    """Tokens of memory in a prompt, dates and speaker tags included."""
    max_budget_tokens: int = Field(default=50_000, ge=1)
    """The largest budget that an ask may name; a larger one counts as this. The context travels in the reply."""
    dialogue_tokens: Annotated[int, Tier.TUNE] = Field(default=1500, ge=0)
    """Tokens of the current session in a prompt; the latest lines stay."""
    candidates: int = Field(default=50, ge=1)
    """Hits taken from each search."""
    refine: Refine = Refine.FUSED
    """When timelines are refined: separate, fused or off."""
    rrf_k: int = Field(default=60, ge=1)
    """The constant of reciprocal rank fusion."""
    current: int = Field(default=5, ge=1)
    """Memories that strategy current shows (Keep Me Updated, appendix B)."""
    called_up: int = Field(default=10, ge=1)
    """Memories that strategy insight calls up (CREEM, section 3.1)."""
    max_lines: int = Field(default=1000, ge=1)
    """Utterances that strategy fused scores for one question."""
