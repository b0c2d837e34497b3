"""The profile of an endpoint and model: limits, protocol and token counts, learned once and kept for all processes."""

import hashlib
import re
from typing import Final, Protocol

from pydantic import Field, ValidationError

from eunoe.schemas.base import Value
from eunoe.workers.models.endpoint.dialect import Dialect
from eunoe.workers.text.tokens import count_tokens

_SHIFT: Final = 0.05
"""A ratio that changes by less than this share is not saved."""
_MIN_TOKENS: Final = 50
"""Tokens of a prompt from which its count tells something."""
MAX_RATIO: Final = 8.0
"""The most tokens of an endpoint for one of ours that are believed: one wrong count must not close its context."""
_CJK: Final = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]")
_HANGUL: Final = re.compile(r"[\u1100-\u11ff\u3130-\u318f\uac00-\ud7af]")
_OTHER: Final = re.compile(r"[\u0370-\u1fff]")


class Profile(Value):
    """The limits and habits of a model at an endpoint."""

    cap: int | None = None
    """The most tokens of an answer."""
    context: int | None = None
    """The most tokens of prompt and answer together."""
    thinking_tokens: int = 0
    """Tokens that the model needs for its thoughts before an answer."""
    dialect: Dialect = Field(default_factory=Dialect)
    ratios: dict[str, float] = Field(default_factory=dict)
    """Script → tokens of the endpoint for one of ours; only used to keep prompts inside the context."""

    def tokens(self, text: str) -> int:
        """The tokens of a prompt as this endpoint counts them, estimated from above."""
        return int(count_tokens(text) * max(1.0, self.ratios.get(script_of(text), DEFAULT_RATIO)))

    def with_count(self, text: str, tokens: int) -> "Profile":
        """The profile after the endpoint has counted a text; the same one where that is nothing new."""
        ours = count_tokens(text)
        if ours < _MIN_TOKENS:
            return self
        script, ratio = script_of(text), min(MAX_RATIO, tokens / ours)
        known = self.ratios.get(script)
        if known is not None and abs(ratio - known) <= _SHIFT * known:
            return self
        kept = ratio if known is None else max(ratio, 0.9 * known + 0.1 * ratio)
        return self.model_copy(update={"ratios": {**self.ratios, script: round(kept, 3)}})

    def and_learned(self, learned: "Profile") -> "Profile":
        """The profile with what a process has learned without knowing it; of two limits the lower one."""
        return Profile(
            cap=min(filter(None, (self.cap, learned.cap)), default=None),
            context=min(filter(None, (self.context, learned.context)), default=None),
            thinking_tokens=max(self.thinking_tokens, learned.thinking_tokens),
            dialect=self.dialect if learned.dialect == Dialect() else learned.dialect,
            ratios={**self.ratios, **learned.ratios},
        )


DEFAULT_RATIO: Final = 1.15
"""Tokens of an endpoint for one of ours, before it has counted a prompt."""


def script_of(text: str) -> str:
    """The script of a text: ``cjk``, ``hangul``, ``other`` or ``latin``, the first that a fifth of it is written in."""
    shown = text[-20_000:]
    for name, pattern in (("cjk", _CJK), ("hangul", _HANGUL), ("other", _OTHER)):
        if 5 * len(pattern.findall(shown)) > len(shown):
            return name
    return "latin"


class Profiles(Protocol):
    """A store of profiles; both methods raise `Unavailable` while the store is."""

    async def get(self, endpoint: str, /) -> str | None:
        """The profile (JSON) under an endpoint's name; `None` where there is none."""
        ...

    async def put(self, endpoint: str, text: str, /) -> None:
        """Store a profile in place of the one before."""
        ...


def profile_name(base_url: str, model: str) -> str:
    """The name of an endpoint and model in the store: a hash, since a URL may hold a key."""
    return hashlib.sha256(f"{base_url.rstrip('/')}\n{model}".encode()).hexdigest()[:32]


def read_profile(text: str | None) -> Profile:
    """The profile of a stored text; an empty one where there is none that can be read."""
    if not text:
        return Profile()
    try:
        return Profile.from_json(text)
    except ValidationError:
        return Profile()
