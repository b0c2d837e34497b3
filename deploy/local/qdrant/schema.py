"""Vectors, payload indexes and description of a collection."""

from typing import Any

import qdrant_edge as edge
from pydantic import BaseModel

from eunoe.deploy.local.qdrant.errors import only, unsupported, wrong_input
from eunoe.deploy.local.qdrant.models import models

_CREATE = (
    "vectors",
    "sparse_vectors",
    "metadata",
    # storage options, on which no answer depends
    "hnsw_config",
    "optimizers_config",
    "wal_config",
    "on_disk_payload",
    "shard_number",
    "replication_factor",
    "write_consistency_factor",
)
_ONE_NODE = ("shard_number", "replication_factor", "write_consistency_factor")
_DISTANCES = {
    models.Distance.COSINE: edge.Distance.Cosine,
    models.Distance.EUCLID: edge.Distance.Euclid,
    models.Distance.DOT: edge.Distance.Dot,
    models.Distance.MANHATTAN: edge.Distance.Manhattan,
}
_HNSW = {"m": 16, "ef_construct": 100, "full_scan_threshold": 10_000}
_OPTIMIZER = {"default_segment_number": 1, "flush_interval_sec": 30}
_FIELD_TYPES = {
    models.PayloadSchemaType.KEYWORD: edge.PayloadSchemaType.Keyword,
    models.PayloadSchemaType.INTEGER: edge.PayloadSchemaType.Integer,
    models.PayloadSchemaType.FLOAT: edge.PayloadSchemaType.Float,
    models.PayloadSchemaType.BOOL: edge.PayloadSchemaType.Bool,
    models.PayloadSchemaType.UUID: edge.PayloadSchemaType.Uuid,
    models.PayloadSchemaType.DATETIME: edge.PayloadSchemaType.Datetime,
}
_KEYWORD = ("type", "is_tenant", "on_disk", "enable_hnsw")
_INTEGER = ("type", "lookup", "range", "is_principal", "on_disk", "enable_hnsw")

FieldSchema = edge.PayloadSchemaType | edge.KeywordIndexParams | edge.IntegerIndexParams


def dense_of(spec: models.CreateCollection) -> dict[str, models.VectorParams]:
    """The dense vectors by name; the unnamed one is ``""``."""
    if isinstance(spec.vectors, models.VectorParams):
        return {"": spec.vectors}
    return spec.vectors or {}


def engine_config(spec: models.CreateCollection) -> edge.EdgeConfig:
    """The engine's configuration; raises a request's fault for options that this server does not support."""
    only(spec, "create collection", _CREATE)
    for field in _ONE_NODE:
        if getattr(spec, field) not in (None, 1):
            raise unsupported(f"`{field}` other than 1")
    dense = {name: _dense(params) for name, params in dense_of(spec).items()}
    sparse = {name: _sparse(params) for name, params in (spec.sparse_vectors or {}).items()}
    if not dense and not sparse:
        raise wrong_input("a collection needs a vector")
    return edge.EdgeConfig(vectors=dense or None, sparse_vectors=sparse or None)


def _dense(given: models.VectorParams) -> edge.EdgeVectorParams:
    only(given, "vector params", ("size", "distance", "hnsw_config", "on_disk"))
    if not 1 <= given.size <= 65_536:
        raise wrong_input(f"a vector's size must be from 1 to 65536, got {given.size}")
    return edge.EdgeVectorParams(size=given.size, distance=_DISTANCES[given.distance])


def _sparse(given: models.SparseVectorParams) -> edge.EdgeSparseVectorParams:
    only(given, "sparse vector params", ("index", "modifier"))
    if given.index is not None:
        only(given.index, "a sparse index", ("full_scan_threshold", "on_disk"))
    if given.modifier not in (None, models.Modifier.NONE, models.Modifier.IDF):
        raise unsupported(f"the modifier {given.modifier}")
    return edge.EdgeSparseVectorParams(modifier=edge.Modifier.Idf if given.modifier is models.Modifier.IDF else None)


def field_schema(given: models.PayloadFieldSchema | None) -> FieldSchema:
    """The engine's form of a payload index; raises a request's fault for unsupported kinds."""
    match given:
        case models.PayloadSchemaType() if given in _FIELD_TYPES:
            return _FIELD_TYPES[given]
        case models.KeywordIndexParams():
            only(given, "a keyword index", _KEYWORD)
            return edge.KeywordIndexParams(is_tenant=given.is_tenant)
        case models.IntegerIndexParams():
            only(given, "an integer index", _INTEGER)
            return edge.IntegerIndexParams(lookup=given.lookup, range=given.range, is_principal=given.is_principal)
    raise unsupported(f"a payload index of {getattr(given, 'value', type(given).__name__)}")


def describe(spec: models.CreateCollection, info: "edge.ShardInfo") -> dict[str, Any]:
    """The body of ``GET /collections/<name>``."""
    given = _plain(spec)
    params = {name: given[name] for name in ("vectors", "sparse_vectors", "on_disk_payload") if name in given}
    one_node = dict.fromkeys(_ONE_NODE, 1)
    return {
        "status": "green",
        "optimizer_status": "ok",
        "points_count": info.points_count,
        "indexed_vectors_count": info.indexed_vectors_count,
        "segments_count": info.segments_count,
        "config": {
            "params": {**one_node, **params},
            "hnsw_config": {**_HNSW, **given.get("hnsw_config", {})},
            "optimizer_config": {**_OPTIMIZER, **given.get("optimizers_config", {})},
            "metadata": given.get("metadata"),
        },
        "payload_schema": {name: _index(one) for name, one in info.payload_schema.items()},
    }


def _plain(model: BaseModel) -> dict[str, Any]:
    return model.model_dump(mode="json", exclude_none=True)


def _index(info: "edge.PayloadIndexInfo") -> dict[str, Any]:
    kind = next(name.value for name, one in _FIELD_TYPES.items() if one == info.data_type)
    fields = {"keyword": _KEYWORD, "integer": _INTEGER}.get(kind, ())[1:]
    params = {name: value for name in fields if (value := getattr(info.params, name, None)) is not None}
    described = {"data_type": kind, "points": info.points}
    return {**described, "params": {"type": kind, **params}} if params else described
