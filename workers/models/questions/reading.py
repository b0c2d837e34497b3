"""Lenient reading of answers: JSON out of prose, fences and thoughts, without fields that the form does not know."""

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import lru_cache
from typing import Any, TypeVar, get_args, get_origin

from pydantic import ValidationError

from eunoe.schemas.base import Value
from eunoe.schemas.errors import AnswerFault, AnswerInvalid
from eunoe.workers.models.questions import answer_forms
from eunoe.workers.models.questions.answer_forms import is_nothing, spec_of
from eunoe.workers.models.questions.json_text import DECODER, OPENING, json_part, without_thoughts

FormT = TypeVar("FormT", bound=Value)

MAX_OBJECTS = 200
_BETWEEN = " \n\r\t,;"
"""Characters between objects that belong together."""


def read_answer(text: str, form: type[FormT]) -> FormT:
    """Read an answer's text: the first JSON object in it that fits the form and is not the prompt's example.

    Thoughts, fences, prose and unknown fields are dropped; so are numbered items that do not fit, which their callers
    miss, and notes. Other items are missed by nobody: one that does not fit is a fault of the answer. Raises
    `AnswerInvalid`, which names the fault and the field and never quotes the answer.
    """
    first: ValidationError | None = None
    repeated: FormT | None = None
    other = "the answer is not valid JSON"
    objects = _placed_objects(json_part(text))
    for before, found in objects:
        if _is_item(found, form, before):
            continue
        try:
            answer = _fitted(found, form, dropping=False)
        except ValidationError as error:
            first = first or error
        except ValueError:
            other = _fault_of_other(found, form, before) or other
        else:
            if found != _example(form):
                return _with_further(answer, objects)
            repeated = repeated or answer
    if repeated is not None:
        return repeated
    raise AnswerInvalid(other if first is None else name_faults(first), AnswerFault.UNREADABLE, text)


def _with_further(answer: FormT, objects: Iterator[tuple[str, Any]]) -> FormT:
    """The answer with the items of the objects behind it, where each has one: some models write one for each item."""
    form = type(answer)
    listed = item_list(form)
    items: list[Value] = [] if listed is None else [*getattr(answer, listed[0])]
    if listed is None or len(items) != 1:
        return answer
    for before, found in objects:
        if before.strip(_BETWEEN):
            break
        try:
            more = getattr(_fitted(found, form, dropping=False), listed[0])
        except ValueError:
            break
        if len(more) != 1:
            break
        items += [item for item in more if item not in items]
    return form.model_validate({listed[0]: items})


def _fault_of_other(found: object, form: type[Value], before: str) -> str:
    """The fault of an object with other fields; empty for what is a part of something that is not whole."""
    if not isinstance(found, dict) or not found or OPENING.search(before):
        return ""
    return f"the answer has none of the fields {', '.join(form.model_fields)}"


def is_whole(text: str) -> bool:
    """Whether a text ends with a whole JSON object. A grammar allows white space after it, as much as tokens may be."""
    bare = without_thoughts(text)
    if (opening := OPENING.search(bare)) is None:
        return False
    try:
        _, end = DECODER.raw_decode(bare, opening.start())
    except (ValueError, RecursionError):
        return False
    return not bare[end:].strip()


@lru_cache(maxsize=64)
def _example(form: type[Value]) -> object:
    """The example of a fixed form in the prompts; `None` for another form."""
    spec = spec_of(form)
    return None if spec is None else json.loads(spec.example)


def _is_item(found: object, form: type[Value], before: str) -> bool:
    """Whether an object is an item of an answer that is damaged, and only looks like an answer: a reply's note.

    ``before``: the text before it that is part of no whole object; the name of the list that it stands in is there.
    """
    return isinstance(found, dict) and any(
        item is not None
        and name not in found
        and found.keys() <= item.model_fields.keys()
        and before.rpartition(f'"{name}"')[2].lstrip(" :\n\t").startswith("[")
        for name, field in form.model_fields.items()
        for item in (_item_of(field.annotation),)
    )


def readable_part(text: str, form: type[FormT]) -> FormT | None:
    """The first answer in a text that fits the form without the items that do not; `None` without any good item."""
    listed = item_list(form)
    for found in _objects(json_part(text)) if listed is not None else ():
        with suppress(ValueError):
            part = _fitted(found, form, dropping=True)
            return part if listed is not None and getattr(part, listed[0]) else None
    return None


def partly_read(text: str, form: type[FormT]) -> FormT | None:
    """The good items of an answer that is not of the form; `None` without any."""
    return readable_part(text, form) or salvaged(text, form)


def bare_json(text: str) -> str:
    """The text of the first JSON object or list in an answer; the text itself where there is none."""
    bare = without_thoughts(text)
    for opening in OPENING.finditer(bare):
        with suppress(ValueError, RecursionError):
            _, end = DECODER.raw_decode(bare, opening.start())
            return bare[opening.start() : end]
    return bare


def salvaged(text: str, form: type[FormT]) -> FormT | None:
    """The whole items of an answer that was cut off; `None` where there is none, or the form has no list of items."""
    listed = item_list(form)
    if listed is None:
        return None
    name, item = listed
    items = [made for found in _objects(json_part(text)) if (made := _made(found, item)) is not None]
    return form.model_validate({name: items}) if items else None


def _objects(text: str) -> Iterator[Any]:
    """The objects of `_placed_objects` alone."""
    return (found for _, found in _placed_objects(text))


def _placed_objects(text: str) -> Iterator[tuple[str, Any]]:
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


def _fitted(found: object, form: type[FormT], *, dropping: bool) -> FormT:
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
        item = _item_of(form.model_fields[name].annotation)
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
    made = [_made(part, item) for part in value]
    if whole and None in made:
        return value
    if not dropping:
        return [part if one is None else one for part, one in zip(value, made, strict=True)]
    return [one for one in made if one is not None]


def _numbered(found: Mapping[str, Any]) -> list[Any]:
    """``{"1": {…}, "pair_2": {…}}`` as a list, each item with its key as its number."""
    return [{"n": key, **part} if isinstance(part, dict) else part for key, part in found.items()]


def _made(found: object, item: type[Value]) -> Value | None:
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
    item = _item_of(field.annotation)
    return None if item is None else (name, item)


def _item_of(annotation: object) -> type[Value] | None:
    """The class of the items of ``tuple[Item, ...]``; `None` for any other annotation."""
    if get_origin(annotation) not in (tuple, list):
        return None
    item = get_args(annotation)[0]
    return item if isinstance(item, type) and issubclass(item, Value) else None


def name_faults(error: ValidationError) -> str:
    """Name the first faults by field in one line, without values or keys that the model invented."""
    return "; ".join(_name_fault(fault) for fault in error.errors(include_url=False, include_input=False)[:5])[:500]


def _name_fault(fault: Mapping[str, Any]) -> str:
    return f"{'.'.join(map(str, fault['loc'])) or 'the answer'}: {fault['msg']}"
