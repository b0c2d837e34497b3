"""Reads the vectors of an answer to a request for embeddings."""

import base64
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import orjson
from numpy.typing import NDArray

from eunoe.workers.models.endpoint.completion import ErrorInBody

Vector = NDArray[np.float32]
_MAX_DIGITS: Final = 10
"""Digits of an index from which it is none."""


def read_vectors(content: bytes, wanted: int) -> list[Vector | None] | None:
    """The vectors in the order of the texts; `None` for JSON without vectors, or with more of them than ``wanted``.

    There may be fewer: then nobody knows of which texts they are. In place of a vector that has no numbers, or numbers
    that are none, stands `None`. Raises ``ValueError`` for content that is no JSON, `ErrorInBody` for an error in place
    of an answer.
    """
    parsed = orjson.loads(content)
    data = parsed.get("data") if isinstance(parsed, dict) else None
    if not isinstance(data, list) or not 0 < len(data) <= wanted:
        told = parsed.get("error") if isinstance(parsed, dict) and not data else None
        if told:
            raise ErrorInBody(told if isinstance(told, dict) else {"message": str(told)})
        return None
    return [_vector(entry) for entry in _in_order(data)]


def _in_order(data: Sequence[Any]) -> Sequence[Any]:
    """The entries by their index, which begins at 0 or 1, and may be a text.

    Some proxies count each part of a request anew: then they are in order already.
    """
    placed = {_place(entry): entry for entry in data}
    for first in (0, 1):
        places = range(first, first + len(data))
        if placed.keys() == set(places):
            return [placed[place] for place in places]
    return data


def _place(entry: object) -> object:
    """The index of an entry as a number; `None` where it is none."""
    found = entry.get("index") if isinstance(entry, dict) else None
    if isinstance(found, str) and found.isdecimal() and len(found) < _MAX_DIGITS:
        return int(found)
    return found if isinstance(found, int | float) else None


def _vector(entry: object) -> Vector | None:
    """The vector of an entry, also one in base64; `None` where it has none."""
    given = entry.get("embedding") if isinstance(entry, dict) else None
    try:
        if isinstance(given, str):
            found = np.frombuffer(base64.b64decode(given, validate=True), "<f4").astype(np.float32)
        else:
            found = np.array(given, np.float32)
    except (TypeError, ValueError):
        return None
    return found if found.ndim == 1 and found.size and bool(np.isfinite(found).all()) else None
