"""Reads the points that a server returns, whoever wrote them: an index is never believed over the state store.

A point that lacks what every point has, or has something else in its place, stops no reader. It counts as older than
any session, so that a repair replaces or removes it, and no search finds it where sessions count.
"""

import sys
from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from eunoe.schemas.decisions import Collection, Point, SparseVector

Json = Mapping[str, Any]
DENSE: Final = "dense"
SPARSE: Final = "bm25"
_NEVER: Final = sys.maxsize


def seq_of(payload: Json) -> int:
    """The session that changed a point last; 0 where it names none."""
    found = payload.get("seq")
    return found if isinstance(found, int) else 0


def born_of(payload: Json) -> int:
    """The session that a point comes from; where it names none, one that never comes."""
    found = payload.get("born")
    return found if isinstance(found, int) else _NEVER


def digest_of(payload: Json) -> str:
    """The digest of a point's text; "" where it names none."""
    found = payload.get("digest")
    return found if isinstance(found, str) else ""


def point_of(collection: Collection, stored: Json) -> Point | None:
    """The point with its vectors; `None` where it lacks what every point has."""
    payload, vectors = stored.get("payload") or {}, stored.get("vector") or {}
    try:
        return Point(
            collection=collection,
            id=str(stored["id"]),
            key=payload["key"],
            born=payload["born"],
            seq=payload["seq"],
            text="",
            dense=np.asarray(vectors[DENSE], "<f4").tobytes(),
            sparse=_sparse(vectors.get(SPARSE)),
            digest=payload["digest"],
        )
    except (LookupError, ValueError, TypeError):
        return None


def _sparse(stored: Json | None) -> SparseVector:
    if stored is None:
        return SparseVector()
    return SparseVector(indices=tuple(stored["indices"]), values=tuple(stored["values"]))
