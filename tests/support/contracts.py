"""Hypothesis strategies for every contract, made from its own fields: a new contract is covered as it is."""

from collections.abc import Sequence
from datetime import UTC, datetime
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from annotated_types import MinLen
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from pydantic import AfterValidator, AwareDatetime
from pydantic.fields import FieldInfo

from eunoe.schemas.base import Contract, Value
from eunoe.schemas.events import Ask, Wants
from eunoe.schemas.versions import CONTRACTS

calm = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
"""No time is asserted: the machine may be busy."""

SAMPLES = (
    "안녕하세요, 오늘 뭐 했어요?",
    "שלום עולם",
    "مرحبا 123 بالعالم",
    "👩‍👩‍👧‍👦 🇰🇷 ok",
    "e\u0301 \u202eabc\u202c",
    'a"b\\c\n\t\0',
)

unicode = st.text(st.characters(exclude_categories=["Cs"]), max_size=40) | st.sampled_from(SAMPLES)
texts = unicode.filter(str.strip)
_letters = st.text(st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp"]), min_size=1, max_size=20)
names = (_letters | st.sampled_from(["Ann", "지민", "יעל"])).filter(lambda name: name == name.strip())
times = st.datetimes(datetime(1970, 1, 1), datetime(2200, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001

_ATOMS: dict[Any, st.SearchStrategy[Any]] = {
    NoneType: st.none(),
    bool: st.booleans(),
    float: st.floats(allow_nan=False, allow_infinity=False),
    bytes: st.binary(max_size=40),
    AwareDatetime: times,
    datetime: times,
}


def _of(kind: Any, metadata: Sequence[Any]) -> st.SearchStrategy[Any]:
    origin, args = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return _of(args[0], (*metadata, *args[1:]))
    if origin in (Union, UnionType):
        return st.one_of([_of(arg, metadata if arg is not NoneType else ()) for arg in args])
    if origin is Literal:
        return st.sampled_from(args)
    if origin is tuple:
        least = max((item.min_length for item in metadata if isinstance(item, MinLen)), default=0)
        return st.lists(_of(args[0], ()), min_size=least, max_size=3).map(tuple)
    if issubclass(kind, Value):
        return a(kind)
    if issubclass(kind, Enum):
        return st.sampled_from(kind)
    return _plain(kind, metadata)


def _plain(kind: type[Any], metadata: Sequence[Any]) -> st.SearchStrategy[Any]:
    bounds = {name: getattr(part, name) for part in _flat(metadata) for name in ("ge", "le") if hasattr(part, name)}
    if kind is int:
        return st.integers(bounds.get("ge", 0), bounds.get("le", 2**53))
    checks = {part.func.__name__ for part in metadata if isinstance(part, AfterValidator)}
    if kind is str:
        return names if "_no_controls" in checks else texts if "_not_blank" in checks else unicode
    return _ATOMS[kind]


def _flat(metadata: Sequence[Any]) -> list[Any]:
    return [part for entry in metadata for part in (entry.metadata if isinstance(entry, FieldInfo) else (entry,))]


@cache  # or each draw would make it, and check it, anew
def a(model: type[Any]) -> st.SearchStrategy[Any]:
    """Any valid value of a model; its schema version is the latest."""
    fields = {
        name: _of(info.annotation, info.metadata)
        for name, info in model.model_fields.items()
        if name not in {"type", "schema_version"}
    }
    if model is Ask:  # one that wants memory is never recorded
        memory = {"wants": st.just(Wants.MEMORY), "record": st.just(False)}
        reply = {"wants": st.sampled_from([None, Wants.REPLY])}
        return st.builds(model, **(fields | reply)) | st.builds(model, **(fields | memory))
    return st.builds(model, **fields)


contracts: st.SearchStrategy[Contract] = st.sampled_from(sorted(CONTRACTS)).flatmap(lambda tag: a(CONTRACTS[tag]))
