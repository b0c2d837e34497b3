"""The vectors that a collection of Qdrant holds, and the embedder that it was made for."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from eunoe.schemas.errors import Misconfigured, Refused
from eunoe.workers.stores.vectors.payloads import DENSE, SPARSE, Json

DISTANCE: Final = "Cosine"


class Layout(NamedTuple):
    """The vectors of a collection's points."""

    dimensions: int | None
    """Components of a dense vector; `None` where there is none of our name."""
    distance: str | None
    sparse: bool
    """Whether there are sparse vectors of our name."""


@dataclass(frozen=True, slots=True)
class StoredCollection:
    """A collection as the server describes it."""

    metadata: Mapping[str, Any]
    """The notes of its maker; empty for one that was not made by eunoe."""
    layout: Layout


def layout_of(params: Json) -> Layout:
    """The layout in the parameters of a collection."""
    dense = (params.get("vectors") or {}).get(DENSE)
    dense = dense if isinstance(dense, Mapping) else {}
    return Layout(dense.get("size"), dense.get("distance"), SPARSE in (params.get("sparse_vectors") or {}))


def check_layout(name: str, found: StoredCollection, server: str) -> None:
    """Raise `Misconfigured` where the vectors of a collection are not as its metadata says: it was made by hand."""
    if "dimensions" not in found.metadata:
        return
    wanted = Layout(found.metadata["dimensions"], DISTANCE, sparse=True)
    if found.layout == wanted:
        return
    has, noted = map(_described, (found.layout, wanted))
    raise Misconfigured(
        f"the Qdrant collection {name} has {has}, though its metadata says {noted}: it was not made by eunoe."
        f" Delete it (DELETE /collections/{name} at EUNOE_QDRANT_URL), then run `eunoe reindex`",
        server,
    )


def _described(layout: Layout) -> str:
    dense = "no dense vectors" if layout.dimensions is None else f"vectors of {layout.dimensions} numbers"
    return f"{dense} ({layout.distance}) and {'' if layout.sparse else 'no '}sparse ones"


def check_embedder(name: str, metadata: Mapping[str, Any], embedder: str, dimensions: int) -> None:
    """Raise `Refused` where a collection was made for another embedder, or not by eunoe."""
    made_by, length = metadata.get("embedder"), metadata.get("dimensions")
    if made_by is None:
        raise Refused(
            f"the Qdrant collection {name} does not name its embedder: it was not made by eunoe,"
            " or the server is older than 1.16; use another prefix, or a newer server"
        )
    if (made_by, length) != (embedder, dimensions):
        raise Refused(
            f"the Qdrant collection {name} was made with the embedder {made_by} ({length} dimensions),"
            f" not with {embedder} ({dimensions}): set the former again, or rebuild memory with the latter by"
            " `eunoe rebuild --into v2 --set embedding=…` (any new name for v2), then `eunoe promote v2`"
        )
