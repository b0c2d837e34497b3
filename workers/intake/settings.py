"""Settings of stage `intake`."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from eunoe.schemas.base import Tier, Value


class BlendMode(StrEnum):
    """Blending of memory for a turn that asks for a reply."""

    BEFORE_REPLY = "before_reply"
    """Before the reply, which uses the insights (CREEM, section 3.3)."""
    AFTER_REPLY = "after_reply"
    """In parallel with the reply, which does not use the insights."""
    OFF = "off"
    """No blending."""


class IntakeSettings(Value):
    """Limits of utterances and sessions, and blending."""

    idle_seconds: Annotated[float, Tier.SET] = Field(default=1800.0, gt=0)
    """Seconds without an utterance after which a session ends."""
    max_text_bytes: Annotated[int, Tier.TUNE] = Field(default=32_768, ge=1)
    """Maximum of UTF-8 bytes of one utterance."""
    max_utterances: Annotated[int, Tier.TUNE] = Field(default=400, ge=1)
    """Maximum of utterances in one session; further ones open the next session."""
    max_session_bytes: int = Field(default=524_288, ge=1024)
    """Maximum of bytes of one session's lines as JSON."""
    max_open_sessions: Annotated[int, Tier.TUNE] = Field(default=8, ge=1, le=64)
    """Sessions of a conversation that may be open at once; one more closes the one that was quiet for the longest time.
    With 1, a new session id closes the open session."""
    remembered_ids: int = Field(default=10_000, ge=1)
    """Utterance ids per conversation that are checked for repetitions."""
    max_dialogue_bytes: int = Field(default=131_072, ge=1024)
    """Maximum of bytes of the open session's lines (JSON) sent along with a turn; the latest lines are kept."""
    sweep_seconds: float = Field(default=1.0, gt=0)
    """Seconds between two searches for idle sessions; at least a hundredth of ``idle_seconds``, or 10."""
    blend: Annotated[BlendMode, Tier.TUNE] = BlendMode.BEFORE_REPLY
    """Insights for turns that ask for a reply: before_reply, after_reply or off."""
    blend_unasked: Annotated[bool, Tier.TUNE] = False
    """Insights also for utterances that ask for nothing, unless ``blend`` is off: up to two more model calls each."""
