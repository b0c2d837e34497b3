"""Bounds of intake, and the way of an ask."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from eunoe.schemas.base import Tier, Value


class BlendMode(StrEnum):
    """When memory is blended for a turn that asks for a reply."""

    BEFORE_REPLY = "before_reply"
    """First insights, then a reply that is infused with them (CREEM, section 3.3)."""
    AFTER_REPLY = "after_reply"
    """Beside the reply, which does not wait and does not see them."""
    OFF = "off"
    """Not at all."""


class IntakeSettings(Value):
    """When sessions close, and what an utterance may be."""

    idle_seconds: Annotated[float, Tier.SET] = Field(default=1800.0, gt=0)
    """A session in which nobody speaks for this long is over."""
    max_text_bytes: Annotated[int, Tier.TUNE] = Field(default=32_768, ge=1)
    """Bytes of UTF-8 of one utterance."""
    max_utterances: Annotated[int, Tier.TUNE] = Field(default=400, ge=1)
    """Utterances of one session; what follows is the next session."""
    max_session_bytes: int = Field(default=524_288, ge=1024)
    """Bytes of one session's lines as JSON."""
    remembered_ids: int = Field(default=10_000, ge=1)
    """Utterance ids per conversation that are known again when they come twice."""
    max_dialogue_bytes: int = Field(default=131_072, ge=1024)
    """Bytes of the open session's lines as JSON that go along with a turn; the latest lines stay."""
    sweep_seconds: float = Field(default=1.0, gt=0)
    """How often idle sessions are looked for."""
    blend: Annotated[BlendMode, Tier.TUNE] = BlendMode.BEFORE_REPLY
    """Insights of asked turns: before_reply, after_reply or off."""
    blend_unasked: Annotated[bool, Tier.TUNE] = False
    """Insights also of utterances that ask for nothing, where ``blend`` is not off: up to two more model calls each."""
