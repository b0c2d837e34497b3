"""What the stage asks of a segmenter."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from eunoe.schemas.events import Line, Provenance, Span

CODE = "segment/1"
"""The version of this room's algorithms, as provenance tells it."""


@dataclass(frozen=True, slots=True)
class Segmentation:
    """The topic segments of a session, which tile it exactly, and what decided them."""

    spans: tuple[Span, ...]
    made_by: Provenance


class Segmenter(Protocol):
    """Splits a session into topic segments (SeCom, section 2.2)."""

    async def segment(self, lines: Sequence[Line]) -> Segmentation:
        """Segments that tile ``lines``; none for no lines. Raises `Unavailable` when a model endpoint is."""
        ...
