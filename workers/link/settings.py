"""Settings of stage `link` and of timelines."""

from pydantic import Field

from eunoe.schemas.base import Value


class LinkSettings(Value):
    """Selection and judgement of related memories; THEANINE's j is 3."""

    associative: int = Field(default=3, ge=1, le=10)
    """j: the number of most similar earlier memories that each new memory is judged against."""
    prompt_budget_tokens: int = Field(default=6_000, ge=500)
    """Tokens of memories in one prompt; a session with more is split into several."""
    max_evidence_chars: int = Field(default=500, ge=50)
    """Characters of cited utterances shown to the model for each memory."""
    same_topic_words: int = Field(default=3, ge=1)
    """Content words that two memories must share to be of one topic, offline."""
    same_topic_cosine: float = Field(default=0.5, ge=-1, le=1)
    """Cosine from which one shared word less is enough."""


class TimelineSettings(Value):
    """Retrieval of timelines; THEANINE's k is 3 and n is 1."""

    retrieved: int = Field(default=3, ge=1)
    """k: the number of memories retrieved for a dialogue."""
    timelines: int = Field(default=1, ge=1)
    """n: the number of timelines chosen for each of them."""
    max_paths: int = Field(default=64, ge=1, le=1024)
    """Paths enumerated to choose from; if there are more, as many are sampled instead."""
    max_length: int = Field(default=32, ge=1, le=128)
    """Maximum of memories in one timeline."""
    max_read: int = Field(default=5000, ge=1)
    """Maximum of memories read before a retrieved one, and after it."""
