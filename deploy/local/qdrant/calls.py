"""The calls on one collection: from the body of a request to the ``result`` of its answer, on the shard's thread."""

from collections.abc import Callable, Mapping
from typing import TypeVar
from uuid import UUID

import orjson
import qdrant_edge as edge
from pydantic import BaseModel, TypeAdapter

from eunoe.deploy.local.qdrant.collection import LocalCollection
from eunoe.deploy.local.qdrant.errors import only
from eunoe.deploy.local.qdrant.filters import engine_filter, point_id
from eunoe.deploy.local.qdrant.models import models
from eunoe.deploy.local.qdrant.points import (
    engine_point,
    engine_query,
    engine_scroll,
    rest_page,
    rest_record,
    rest_scored,
    selector,
)
from eunoe.deploy.local.qdrant.schema import describe, field_schema

Call = Callable[[LocalCollection, bytes], object]
T = TypeVar("T", bound=BaseModel)

_SELECTOR: TypeAdapter[models.PointIdsList | models.FilterSelector] = TypeAdapter(
    models.PointIdsList | models.FilterSelector
)


def _read(form: type[T], body: bytes) -> T:
    """The request in a body; raises ``ValidationError`` and ``JSONDecodeError``.

    Where a vector may be of several types, pydantic's own parser takes three times as long.
    """
    return form.model_validate(orjson.loads(body))


def _done(collection: LocalCollection) -> object:
    return {"operation_id": collection.writes, "status": "completed"}


def info(collection: LocalCollection, _: bytes) -> object:
    """Configuration and counts of the collection."""
    return describe(collection.spec, collection.shard.info())


def create_index(collection: LocalCollection, body: bytes) -> object:
    """Index a payload field; a repeated call changes nothing."""
    request = _read(models.CreateFieldIndex, body)
    collection.update(edge.UpdateOperation.create_field_index(request.field_name, field_schema(request.field_schema)))
    return _done(collection)


def upsert(collection: LocalCollection, body: bytes) -> object:
    """Write points; with ``update_filter`` an existing point is replaced only if it matches."""
    request = _read(models.PointsList, body)
    only(request, "an upsert", ("points", "update_filter"))
    points = [engine_point(point, collection.spec) for point in request.points]
    condition = engine_filter(request.update_filter)
    collection.update(edge.UpdateOperation.upsert_points(points, condition=condition))
    return _done(collection)


def delete(collection: LocalCollection, body: bytes) -> object:
    """Remove points by id or by filter."""
    request = _SELECTOR.validate_python(orjson.loads(body))
    if isinstance(request, models.PointIdsList):
        only(request, "a delete", ("points",))
        operation = edge.UpdateOperation.delete_points([point_id(one) for one in request.points])
    else:
        only(request, "a delete", ("filter",))
        chosen = engine_filter(request.filter) or edge.Filter()
        operation = edge.UpdateOperation.delete_points_by_filter(chosen)
    collection.update(operation)
    return _done(collection)


def query(collection: LocalCollection, body: bytes) -> object:
    """The nearest points to a vector."""
    request = engine_query(_read(models.QueryRequest, body), collection.spec)
    return rest_scored(collection.shard.query(request))


def query_batch(collection: LocalCollection, body: bytes) -> object:
    """The answers to several queries, in their order."""
    given = _read(models.QueryRequestBatch, body).searches
    batch = edge.QueryBatchRequest([engine_query(one, collection.spec) for one in given])
    return [rest_scored(found) for found in collection.shard.query_batch(batch)] if given else []


def retrieve(collection: LocalCollection, body: bytes) -> object:
    """The existing points among some ids."""
    request = _read(models.PointRequest, body)
    only(request, "a retrieve", ("ids", "with_payload", "with_vector"))
    ids: list[int | UUID | str] = [point_id(one) for one in request.ids]
    payload = selector(request.with_payload, default=True)
    return [rest_record(one) for one in collection.shard.retrieve(ids, payload, request.with_vector or False)]


def scroll(collection: LocalCollection, body: bytes) -> object:
    """A page of points, ordered by id."""
    return rest_page(*collection.shard.scroll(engine_scroll(_read(models.ScrollRequest, body))))


def count(collection: LocalCollection, body: bytes) -> object:
    """Exact number of points that match."""
    request = _read(models.CountRequest, body)
    only(request, "a count", ("filter", "exact"))
    return {"count": collection.shard.count(edge.CountRequest(exact=True, filter=engine_filter(request.filter)))}


CALLS: Mapping[tuple[str, str], Call] = {
    ("GET", ""): info,
    ("PUT", "/index"): create_index,
    ("PUT", "/points"): upsert,
    ("POST", "/points"): retrieve,
    ("POST", "/points/delete"): delete,
    ("POST", "/points/query"): query,
    ("POST", "/points/query/batch"): query_batch,
    ("POST", "/points/scroll"): scroll,
    ("POST", "/points/count"): count,
}
"""(method, path below the collection) → call."""
