"""What the stage asks of a summarizer."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from eunoe.schemas.events import Line, Provenance, Span
from eunoe.schemas.memory import MemoryDraft

CODE = "summarize/1"
"""The version of this room's algorithms, as provenance tells it."""


@dataclass(frozen=True, slots=True)
class Summary:
    """What is worth remembering of a session, in its order, and what decided it."""

    drafts: tuple[MemoryDraft, ...]
    made_by: Provenance


class Summarizer(Protocol):
    """Makes memory sentences of a session (THEANINE, section 3.1)."""

    async def summarize(self, lines: Sequence[Line], spans: Sequence[Span]) -> Summary:
        """The memories of a session; ``spans`` tile ``lines``. Raises `Unavailable` when a model endpoint is."""
        ...
