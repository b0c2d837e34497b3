"""Features of a segment's lines for retrieval, computed once when the segment is stored."""

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
"""Digits to which a salience is rounded."""


class LineFeatures(Value):
    """The features of a segment's lines, for one embedder and one set of names."""

    embedder: str
    speakers: tuple[str, ...]
    """Speakers, whose names were left out of the embedded texts."""
    worth: tuple[float, ...]
    """The salience of each line (`line_salience`); 0 for the responder's own lines."""
    vectors: str
    """Base64 of little-endian 16-bit floats, shape (lines, dimensions)."""

    def unpacked(self) -> NDArray[np.float32]:
        """The vectors, shape (lines, dimensions)."""
        flat = np.frombuffer(base64.b64decode(self.vectors), dtype="<f2").astype(np.float32)
        return flat.reshape(len(self.worth), -1)


def line_saliences(lines: Sequence[Line], speakers: Sequence[str]) -> list[float]:
    """The salience of each line of a segment; 0 for the responder's own lines."""
    english = is_english([line.text for line in lines if line.is_evidence])
    return [round(line_salience(line, speakers, english), DIGITS) if line.is_evidence else 0.0 for line in lines]


def quantized(vectors: Vectors) -> NDArray[np.float32]:
    """The vectors in the precision of `LineFeatures`, so that stored and fresh features are equal."""
    return vectors.astype("<f2").astype(np.float32)


def build_features(
    vectors: Vectors, saliences: Sequence[float], embedder: str, speakers: tuple[str, ...]
) -> LineFeatures:
    """The features of a segment; ``vectors`` has a row for each of its lines."""
    return LineFeatures(
        embedder=embedder,
        speakers=speakers,
        worth=tuple(saliences),
        vectors=base64.b64encode(vectors.astype("<f2").tobytes()).decode(),
    )
