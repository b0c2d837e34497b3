"""Translation of points, vectors, queries and answers between Qdrant's REST API and the engine."""

from collections.abc import Sequence
from uuid import UUID

import qdrant_edge as edge

from eunoe.deploy.local.qdrant.errors import only, unsupported, wrong_input
from eunoe.deploy.local.qdrant.filters import engine_filter, point_id
from eunoe.deploy.local.qdrant.models import models
from eunoe.deploy.local.qdrant.schema import dense_of

MAX_LIMIT = 100_000
Selector = bool | list[str] | edge.PayloadSelector


def engine_point(given: models.PointStruct, spec: models.CreateCollection) -> edge.Point:
    """The engine's point; its vectors are checked against those of the collection."""
    named = given.vector if isinstance(given.vector, dict) else {"": given.vector}
    vectors: dict[str, list[float] | edge.SparseVector | list[list[float]]] = {
        name: engine_vector(name, vector, spec) for name, vector in named.items()
    }
    return edge.Point(id=point_id(given.id), vector=vectors, payload=given.payload or {})


def engine_vector(name: str, given: object, spec: models.CreateCollection) -> list[float] | edge.SparseVector:
    """A dense or sparse vector for the collection's vector ``name``; raises the ``wrong_input`` fault if it misfits."""
    if isinstance(given, models.SparseVector):
        return _sparse(name, given, spec)
    if not isinstance(given, list) or (given and isinstance(given[0], list)):
        raise unsupported(f"a vector given as {type(given).__name__} for `{name:.60}`")
    params = dense_of(spec).get(name)
    if params is None:
        raise wrong_input(f"Not existing vector name error: {name:.60}")
    if len(given) != params.size:
        raise wrong_input(f"Vector dimension error: expected dim: {params.size}, got {len(given)}")
    return given


def _sparse(name: str, given: models.SparseVector, spec: models.CreateCollection) -> edge.SparseVector:
    if name not in (spec.sparse_vectors or {}):
        raise wrong_input(f"Not existing vector name error: {name:.60}")
    if len(given.indices) != len(given.values):
        raise wrong_input(f"sparse vector `{name:.60}` has {len(given.indices)} indices and {len(given.values)} values")
    if len(set(given.indices)) != len(given.indices) or any(not 0 <= one < 2**32 for one in given.indices):
        raise wrong_input(f"the indices of sparse vector `{name:.60}` must be unique and of 32 bits")
    return edge.SparseVector(given.indices, given.values)


def engine_query(given: models.QueryRequest, spec: models.CreateCollection) -> edge.QueryRequest:
    """The engine's query: the points nearest to a dense or sparse vector, under a filter."""
    only(
        given,
        "a query",
        ("query", "using", "filter", "params", "score_threshold", "limit", "offset", "with_vector", "with_payload"),
    )
    name = given.using or ""
    return edge.QueryRequest(
        limit=_limit(given.limit),
        offset=_count("offset", given.offset or 0),
        query=edge.Query.Nearest(engine_vector(name, _nearest(given.query), spec), using=name),
        filter=engine_filter(given.filter),
        params=_search_params(given.params),
        score_threshold=given.score_threshold,
        with_vector=given.with_vector or False,
        with_payload=selector(given.with_payload, default=False),
    )


def _nearest(given: object) -> object:
    if isinstance(given, models.NearestQuery):
        only(given, "a nearest query", ("nearest",))
        return given.nearest
    if isinstance(given, list | models.SparseVector):
        return given
    raise unsupported(f"a query by {type(given).__name__}")


def _search_params(given: models.SearchParams | None) -> edge.SearchParams | None:
    if given is None:
        return None
    only(given, "search params", ("hnsw_ef", "exact", "indexed_only"))
    return edge.SearchParams(
        hnsw_ef=given.hnsw_ef, exact=given.exact or False, indexed_only=given.indexed_only or False
    )


def engine_scroll(given: models.ScrollRequest) -> edge.ScrollRequest:
    """The engine's page of points, ordered by id."""
    only(given, "a scroll", ("offset", "limit", "filter", "with_payload", "with_vector"))
    return edge.ScrollRequest(
        offset=None if given.offset is None else point_id(given.offset),
        limit=_limit(given.limit),
        filter=engine_filter(given.filter),
        with_payload=selector(given.with_payload, default=True),
        with_vector=given.with_vector or False,
    )


def _limit(given: int | None) -> int:
    limit = 10 if given is None else given
    if not 1 <= limit <= MAX_LIMIT:
        raise wrong_input(f"limit must be from 1 to {MAX_LIMIT}, got {limit}")
    return limit


def _count(name: str, given: int) -> int:
    if given < 0:
        raise wrong_input(f"{name} must not be negative, got {given}")
    return given


def selector(given: models.WithPayloadInterface | None, *, default: bool) -> Selector:
    """The payload fields of an answer, for the engine."""
    match given:
        case None:
            return default
        case models.PayloadSelectorInclude():
            return edge.PayloadSelector.Include(given.include)
        case models.PayloadSelectorExclude():
            return edge.PayloadSelector.Exclude(given.exclude)
    return given


def rest_vector(given: object) -> object:
    """A vector of an answer; an unnamed one without its name."""
    if isinstance(given, edge.SparseVector):
        return {"indices": given.indices, "values": given.values}
    if isinstance(given, dict):
        named = {name: rest_vector(one) for name, one in given.items()}
        return named[""] if list(named) == [""] else named
    return given


def rest_record(given: edge.Record | edge.ScoredPoint) -> dict[str, object]:
    """A point of an answer."""
    record: dict[str, object] = {"id": given.id, "payload": given.payload}
    if isinstance(given, edge.ScoredPoint):
        record |= {"version": given.version, "score": given.score}
    if given.vector is not None:
        record["vector"] = rest_vector(given.vector)
    return record


def rest_scored(found: Sequence[edge.ScoredPoint]) -> dict[str, object]:
    """The answer to one query."""
    return {"points": [rest_record(one) for one in found]}


def rest_page(found: Sequence[edge.Record], offset: int | str | UUID | None) -> dict[str, object]:
    """The answer to a scroll."""
    return {"points": [rest_record(one) for one in found], "next_page_offset": offset}
