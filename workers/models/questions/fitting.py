"""The JSON objects of a text, and the forms that they fit: fields that a form does not know are dropped."""

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, TypeVar, get_args, get_origin

from pydantic import ValidationError

from eunoe.schemas.base import Value
from eunoe.workers.models.questions import answer_forms
from eunoe.workers.models.questions.answer_forms import is_nothing, spec_of
from eunoe.workers.models.questions.json_text import DECODER, OPENING

FormT = TypeVar("FormT", bound=Value)

MAX_OBJECTS = 200


def placed_objects(text: str) -> Iterator[tuple[str, Any]]:
    """The balanced JSON objects and lists in a text: the outermost first, then those in what is not whole.

    Each comes with the text before it, from the first object on that is not whole.
    """
    at = tried = last = 0
    broken = False
    while tried < MAX_OBJECTS and (opening := OPENING.search(text, at)) is not None:
        tried += 1
        try:
            found, end = DECODER.raw_decode(text, opening.start())
        except (ValueError, RecursionError):
            at, broken = opening.end(), True
            continue
        before = text[last : opening.start()]
        at, last = end, last if broken else end
        if not _encodable(text[opening.start() : end], found):
            continue
        yield before, found
        yield from ((before, part) for part in _inner(found))


def _encodable(written: str, found: object) -> bool:
    """Whether a JSON value has no lone surrogates, which are no text."""
    if "\\u" not in written:
        return True
    try:
        json.dumps(found, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


def _inner(found: object) -> Iterator[Any]:
    """Objects one level down: ``{"answer": {…}}``."""
    if isinstance(found, dict):
        yield from (part for part in found.values() if isinstance(part, dict))


def fitted(found: object, form: type[FormT], *, dropping: bool) -> FormT:
    """The form with the fields of ``found``; raises ``ValueError`` where it has none of the form's.

    ``dropping``: without any item that does not fit, also where nobody would miss it.
    """
    if spec_of(form) is None:
        with suppress(ValidationError):
            return form.model_validate(found)
    listed = item_list(form)
    if isinstance(found, list):
        if listed is None or not any(isinstance(part, dict) for part in found):
            raise ValueError("a list is no answer")  # nor are the numbers in what is no JSON
        found = {listed[0]: found}
    if not isinstance(found, dict) or not found.keys() & form.model_fields.keys():
        raise ValueError("none of the form's fields")
    return form.model_validate(_pruned(found, form, dropping=dropping))


def _pruned(found: Mapping[str, Any], form: type[Value], *, dropping: bool = True) -> dict[str, Any]:
    """The known fields; of a list of items of a fixed form those that fit."""
    whole = spec_of(form) is None and form.__module__ != answer_forms.__name__
    kept = {name: found[name] for name in form.model_fields if name in found}
    for name, value in kept.items():
        item = item_of(form.model_fields[name].annotation)
        if item is not None:
            missed = dropping or "n" in item.model_fields or len(form.model_fields) > 1
            kept[name] = _items(value, item, whole=whole, dropping=missed)
    return kept


def _items(value: object, item: type[Value], *, whole: bool, dropping: bool) -> object:
    if isinstance(value, dict):  # {"1": {…}, "2": {…}}, or a single item
        value = [value] if value.keys() & item.model_fields.keys() else _numbered(value)
    if value is None or (isinstance(value, str) and is_nothing(value)):
        return []
    if not isinstance(value, list):
        return value
    made = [made_item(part, item) for part in value]
    if whole and None in made:
        return value
    if not dropping:
        return [part if one is None else one for part, one in zip(value, made, strict=True)]
    return [one for one in made if one is not None]


def _numbered(found: Mapping[str, Any]) -> list[Any]:
    """``{"1": {…}, "pair_2": {…}}`` as a list, each item with its key as its number."""
    return [{"n": key, **part} if isinstance(part, dict) else part for key, part in found.items()]


def made_item(found: object, item: type[Value]) -> Value | None:
    """The item that an object makes, without unknown fields; `None` where it does not fit."""
    if not isinstance(found, dict):
        return None
    try:
        return item.model_validate(_pruned(found, item))
    except ValidationError:
        return None


def item_list(form: type[Value]) -> tuple[str, type[Value]] | None:
    """The name and the items of the form's only field, where that is a list of objects."""
    if len(form.model_fields) != 1:
        return None
    (name, field) = next(iter(form.model_fields.items()))
    item = item_of(field.annotation)
    return None if item is None else (name, item)


def item_of(annotation: object) -> type[Value] | None:
    """The class of the items of ``tuple[Item, ...]``; `None` for any other annotation."""
    if get_origin(annotation) not in (tuple, list):
        return None
    item = get_args(annotation)[0]
    return item if isinstance(item, type) and issubclass(item, Value) else None
