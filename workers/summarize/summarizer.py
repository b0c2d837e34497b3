"""The port of a summarizer."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from eunoe.schemas.events import Line, Provenance, Span
from eunoe.schemas.memory import MemoryDraft

CODE = "summarize/2"
"""Version of this stage's algorithms, recorded in provenance."""


@dataclass(frozen=True, slots=True)
class Summary:
    """The memories of a session, in order, and their provenance."""

    drafts: tuple[MemoryDraft, ...]
    made_by: Provenance


class Summarizer(Protocol):
    """Makes memory sentences of a session (THEANINE, section 2.1; Keep Me Updated, section 4.2)."""

    async def summarize(self, lines: Sequence[Line], spans: Sequence[Span]) -> Summary:
        """The memories of a session; ``spans`` tile ``lines``. Raises `Unavailable` if a model endpoint is down."""
        ...
