"""Strict JSON Schema of a pydantic form."""

from functools import lru_cache
from typing import Any

from eunoe.schemas.base import Value

Schema = dict[str, Any]

DEFAULT_MAX_CHARS = 1000
"""The bound of a string whose form has none: it keeps answers within the prompt's tokens."""

_DROPPED = frozenset({"title", "default", "examples", "discriminator"})
_BOUNDS = frozenset(
    {"maxLength", "minLength", "pattern", "format", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"}
    | {"multipleOf", "minItems", "maxItems", "uniqueItems"}
)


@lru_cache(maxsize=256)
def _strict(form: type[Value], bounded: bool) -> Schema:
    schema: Schema = _tighten(form.model_json_schema(mode="validation"), bounded, form.__name__)
    return schema


def strict_schema(form: type[Value], *, bounded: bool = True) -> Schema:
    """The JSON Schema of ``form`` as structured outputs require it.

    Every object is closed and requires all its fields; every free string has a ``maxLength``. With ``bounded``
    false all such bounds are left out, for endpoints that refuse them. Raises ``TypeError`` for a form with free keys.
    """
    return _strict(form, bounded)


def _tighten(node: Any, bounded: bool, where: str) -> Any:  # noqa: ANN401 - any JSON
    if isinstance(node, list):
        return [_tighten(item, bounded, where) for item in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:  # strict mode allows nothing beside a reference
        return {"$ref": node["$ref"]}
    tight = {_keyword(key): _sub(key, value, bounded, where) for key, value in node.items() if key not in _DROPPED}
    if tight.get("type") == "object":
        _close(tight, where)
    if tight.get("type") == "string" and not tight.keys() & {"enum", "const", "format", "maxLength"}:
        tight["maxLength"] = DEFAULT_MAX_CHARS
    return tight if bounded else {key: value for key, value in tight.items() if key not in _BOUNDS}


def _keyword(key: str) -> str:
    return "anyOf" if key == "oneOf" else key


def _sub(key: str, value: Any, bounded: bool, where: str) -> Any:  # noqa: ANN401 - any JSON
    if key in {"properties", "$defs"}:  # names, not keywords: a field may be called "title"
        return {name: _tighten(part, bounded, f"{where}.{name}") for name, part in value.items()}
    if key in {"items", "prefixItems", "anyOf", "oneOf", "allOf"}:
        return _tighten(value, bounded, where)
    return value


def _close(node: Schema, where: str) -> None:
    if node.get("additionalProperties", False) is not False:
        raise TypeError(f"{where} has free keys; structured outputs need named fields")
    node["additionalProperties"] = False
    node["required"] = list(node.get("properties", {}))
