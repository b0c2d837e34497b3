"""What retrieval asks of the lines of a segment, read once when they come in: no first question waits for it. Pure."""

import base64
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from eunoe.schemas.base import Value
from eunoe.schemas.events import Line
from eunoe.schemas.ports import Vectors
from eunoe.workers.text.language import is_english
from eunoe.workers.text.statements import line_salience

DIGITS = 2
"""Digits of a worth that are kept."""


class LineFeatures(Value):
    """A segment's lines as retrieval sees them; it holds for one embedder and one set of names."""

    embedder: str
    speakers: tuple[str, ...]
    """Whose names were left out of what was embedded."""
    worth: tuple[float, ...]
    """How much each line tells (`line_salience`); 0 for the responder's own words."""
    vectors: str
    """Base64 of little-endian 16-bit floats, shape (lines, dimensions); zeros for the responder's own words."""

    def unpacked(self) -> NDArray[np.float32]:
        """Shape (lines, dimensions)."""
        flat = np.frombuffer(base64.b64decode(self.vectors), dtype="<f2").astype(np.float32)
        return flat.reshape(len(self.worth), -1)


def line_saliences(lines: Sequence[Line], speakers: Sequence[str]) -> list[float]:
    """How much each line of a segment tells; 0 for the responder's own words."""
    english = is_english([line.text for line in lines if line.is_evidence])
    return [round(line_salience(line, speakers, english), DIGITS) if line.is_evidence else 0.0 for line in lines]


def quantized(vectors: Vectors) -> NDArray[np.float32]:
    """The vectors with the digits that a `LineFeatures` keeps, so that all ways to a line give the same."""
    return vectors.astype("<f2").astype(np.float32)


def build_features(
    lines: Sequence[Line], vectors: Vectors, worth: Sequence[float], embedder: str, speakers: tuple[str, ...]
) -> LineFeatures:
    """The reading of a segment; ``vectors`` has a row for each of its evidence lines."""
    wide = np.zeros((len(lines), vectors.shape[1]), dtype="<f2")
    wide[[place for place, line in enumerate(lines) if line.is_evidence]] = vectors.astype("<f2")
    return LineFeatures(
        embedder=embedder,
        speakers=speakers,
        worth=tuple(worth),
        vectors=base64.b64encode(wide.tobytes()).decode(),
    )
