"""The port of a segmenter."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from eunoe.schemas.events import Line, Provenance, Span

CODE = "segment/1"
"""Version of this stage's algorithms, recorded in provenance."""


@dataclass(frozen=True, slots=True)
class Segmentation:
    """The topic segments of a session, which tile it, and their provenance."""

    spans: tuple[Span, ...]
    made_by: Provenance


class Segmenter(Protocol):
    """Splits a session into topic segments (SeCom, section 2.2)."""

    async def segment(self, lines: Sequence[Line]) -> Segmentation:
        """Segments that tile ``lines``; empty for no lines. Raises `Unavailable` if a model endpoint is unavailable."""
        ...
