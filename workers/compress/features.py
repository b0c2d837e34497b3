"""Vectors of a segment's passages for retrieval, computed once when the segment is stored."""

import base64
from collections.abc import Sequence
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from eunoe.schemas.base import Value
from eunoe.schemas.events import Line
from eunoe.schemas.model_ports import Vectors
from eunoe.workers.models.local.vectors import levels
from eunoe.workers.text.names import without_names
from eunoe.workers.text.passages import cut_passages


class LineFeatures(Value):
    """The vectors of the passages of a segment's lines, for one embedder and one set of names."""

    embedder: str
    speakers: tuple[str, ...]
    """Speakers, whose names were left out of the embedded texts."""
    passages: int
    vectors: str
    """Base64 of signed bytes, shape (passages, dimensions); their direction counts, not their length."""

    def rows(self) -> NDArray[np.int8]:
        """The vectors as signed bytes, shape (passages, dimensions)."""
        return np.frombuffer(base64.b64decode(self.vectors), dtype=np.int8).reshape(self.passages, -1)


def passage_texts(lines: Sequence[Line], speakers: Sequence[str]) -> list[str]:
    """The texts of the lines' passages in order, as they are embedded: without the speakers' names."""
    cut = ((line.text, cut_passages(line.text)) for line in lines)
    return list(
        chain.from_iterable(
            (without_names(text[span.start : span.end], speakers) for span in spans) for text, spans in cut
        )
    )


def build_features(vectors: Vectors, embedder: str, speakers: tuple[str, ...]) -> LineFeatures:
    """The vectors of a segment; ``vectors`` has a row for each of its passages."""
    return LineFeatures(
        embedder=embedder,
        speakers=speakers,
        passages=len(vectors),
        vectors=base64.b64encode(levels(vectors).tobytes()).decode(),
    )
