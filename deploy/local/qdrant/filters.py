"""Translation of Qdrant's filters to the engine's; an unknown condition is refused, never ignored."""

from uuid import UUID

import qdrant_edge as edge

from eunoe.deploy.local.qdrant.errors import only, unsupported, wrong_input
from eunoe.deploy.local.qdrant.models import models

EngineCondition = (
    edge.FieldCondition
    | edge.IsEmptyCondition
    | edge.IsNullCondition
    | edge.HasIdCondition
    | edge.HasVectorCondition
    | edge.NestedCondition
    | edge.Filter
)


def point_id(given: int | str | UUID) -> int | UUID:
    """The engine's id of a point; raises the ``wrong_input`` fault for a text that is no UUID."""
    if isinstance(given, int | UUID):
        return given
    try:
        return UUID(given)
    except ValueError:
        raise wrong_input(f"point id {given!r:.60} is neither an unsigned integer nor a UUID") from None


def engine_filter(given: models.Filter | None) -> edge.Filter | None:
    """The engine's filter; `None` for `None`."""
    if given is None:
        return None
    only(given, "a filter", ("must", "should", "must_not"))
    return edge.Filter(
        must=_conditions(given.must), should=_conditions(given.should), must_not=_conditions(given.must_not)
    )


def _conditions(given: list[models.Condition] | models.Condition | None) -> list[EngineCondition] | None:
    if given is None:
        return None
    return [_condition(one) for one in (given if isinstance(given, list) else [given])]


def _condition(given: models.Condition) -> EngineCondition:
    match given:
        case models.FieldCondition():
            return _field(given)
        case models.Filter():
            return engine_filter(given) or edge.Filter()
        case models.HasIdCondition():
            return edge.HasIdCondition({point_id(one) for one in given.has_id})
        case models.IsEmptyCondition():
            return edge.IsEmptyCondition(given.is_empty.key)
        case models.IsNullCondition():
            return edge.IsNullCondition(given.is_null.key)
    raise unsupported(f"a {type(given).__name__}")


def _field(given: models.FieldCondition) -> edge.FieldCondition:
    only(given, "a field condition", ("key", "match", "range", "is_empty", "is_null"))
    if all(part is None for part in (given.match, given.range, given.is_empty, given.is_null)):
        raise wrong_input(f"the condition on `{given.key:.60}` is empty")
    return edge.FieldCondition(
        key=given.key,
        match=_match(given.match),
        range=_range(given.range),
        is_empty=given.is_empty,
        is_null=given.is_null,
    )


def _match(given: models.Match | None) -> edge.MatchValue | edge.MatchAny | edge.MatchExcept | None:
    match given:
        case None:
            return None
        case models.MatchValue():
            return edge.MatchValue(given.value)
        case models.MatchAny():
            return edge.MatchAny(given.any)
        case models.MatchExcept():
            return edge.MatchExcept(given.except_)
    raise unsupported(f"a {type(given).__name__}")


def _range(given: models.RangeInterface | None) -> edge.RangeFloat | None:
    if given is None:
        return None
    if not isinstance(given, models.Range):
        raise unsupported("a range of times")
    return edge.RangeFloat(gte=given.gte, gt=given.gt, lte=given.lte, lt=given.lt)
