"""Settings of stage link and of timelines."""

from pydantic import Field

from eunoe.schemas.base import Value


class LinkSettings(Value):
    """How many earlier memories a new one is compared with, and how; THEANINE's j is 3."""

    associative: int = Field(default=3, ge=1, le=10)
    """j: the most similar memories of earlier sessions that each new memory is judged with."""
    prompt_budget_tokens: int = Field(default=32_000, ge=500)
    """Tokens of memories in one question to the model; a session beyond it is asked about in several."""
    max_evidence_chars: int = Field(default=500, ge=50)
    """Characters of cited utterances that the model sees of each memory."""
    same_topic_words: int = Field(default=3, ge=1)
    """Telling words that two memories must share to be of one topic, offline."""
    same_topic_cosine: float = Field(default=0.5, ge=-1, le=1)
    """From this similarity on, one word less is enough."""


class TimelineSettings(Value):
    """How timelines are retrieved; THEANINE's k is 3 and n is 1."""

    retrieved: int = Field(default=3, ge=1)
    """k: memories that are retrieved for a dialogue."""
    timelines: int = Field(default=1, ge=1)
    """n: timelines that are chosen for each of them."""
    max_paths: int = Field(default=64, ge=1, le=1024)
    """Paths that are laid out to choose from; where there are more, as many are drawn instead."""
    max_length: int = Field(default=32, ge=1, le=128)
    """Memories of one timeline."""
    max_read: int = Field(default=5000, ge=1)
    """Memories that are read before a retrieved one, and after it."""
