"""Lenient reading of answers: JSON out of prose, fences and thoughts, without fields that the form does not know."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from itertools import islice
from typing import Any, TypeVar

from pydantic import ValidationError

from eunoe.schemas.base import Value
from eunoe.schemas.errors import AnswerFault, AnswerInvalid
from eunoe.workers.models.questions.answer_forms import spec_of
from eunoe.workers.models.questions.fitting import MAX_OBJECTS, fitted, item_list, item_of, made_item, placed_objects
from eunoe.workers.models.questions.json_text import DECODER, OPENING, json_part, without_thoughts

FormT = TypeVar("FormT", bound=Value)

_LEAST_FIELDS = 2
"""Fields by which an object on its own is known as an item."""
_CORRECTED = re.compile(
    r"(?i)\b(?:wait|actually|correct(?:ed|ion|ing)?|revis(?:ed|ion|ing)|mistake|fixed|final answer)\b"
)
"""Words with which a model takes back the answer before."""
_NEXT_TURN = re.compile(r"(?im)^\W{0,9}(?:user|human|assistant|system|question|example)\b|<\|")
"""The beginning of another turn, which a model makes up that does not stop, or of an example."""
_BETWEEN = " \n\r\t,;"
"""Characters between objects that belong together."""


def read_answer(text: str, form: type[FormT]) -> FormT:
    """Read an answer's text: the first JSON object in it that fits the form and is not the prompt's example.

    One behind it by which the model corrects it counts; objects that are items of the form's list make an answer, too.
    Thoughts, fences, prose and unknown fields are dropped; so are numbered items that do not fit, which their callers
    miss, and notes. Other items are missed by nobody: one that does not fit is a fault of the answer. Raises
    `AnswerInvalid`, which names the fault and the field and never quotes the answer.
    """
    first: ValidationError | None = None
    repeated: FormT | None = None
    other = "the answer is not valid JSON"
    objects = placed_objects(json_part(text))
    for before, found in objects:
        if _is_item(found, form, before):
            continue
        try:
            answer = fitted(found, form, dropping=False)
        except ValidationError as error:
            first = first or error
        except ValueError:
            other = _fault_of_other(found, form, before) or other
        else:
            if found != _example(form):
                return _with_further(answer, objects)
            repeated = repeated or answer
    repeated = repeated or (_listed_alone(text, form) if first is None else None)
    if repeated is not None:
        return repeated
    raise AnswerInvalid(other if first is None else name_faults(first), AnswerFault.UNREADABLE, text)


def _with_further(answer: FormT, objects: Iterator[tuple[str, Any]]) -> FormT:
    """The answer that those behind it correct, or else with their items, where each has one, as some models write."""
    behind = [*objects]
    for before, found in behind:
        if _CORRECTED.search(before) and not _NEXT_TURN.search(before):
            with suppress(ValueError):
                answer, behind = _corrected_by(answer, fitted(found, type(answer), dropping=False)), []
    return _with_items(answer, behind)


def _corrected_by(answer: FormT, later: FormT) -> FormT:
    """The later answer; where items have numbers, with those of the first that it does not name."""
    listed = item_list(type(answer))
    if listed is None or "n" not in listed[1].model_fields:
        return later
    items = {item.n: item for one in (answer, later) for item in getattr(one, listed[0])}
    return type(answer).model_validate({listed[0]: [*items.values()]})


def _with_items(answer: FormT, behind: Sequence[tuple[str, Any]]) -> FormT:
    """The answer of one item with the items of the objects behind it, where each has one."""
    listed = item_list(type(answer))
    items: list[Value] = [] if listed is None else [*getattr(answer, listed[0])]
    if listed is None or len(items) != 1:
        return answer
    for before, found in behind:
        if before.strip(_BETWEEN):
            break
        try:
            more = getattr(fitted(found, type(answer), dropping=False), listed[0])
        except ValueError:
            break
        if len(more) != 1:
            break
        items += [item for item in more if item not in items]
    return type(answer).model_validate({listed[0]: items})


def _listed_alone(text: str, form: type[FormT]) -> FormT | None:
    """The form with all objects of a text as its items, each whole and on its own; `None` where one is no item."""
    listed, part = item_list(form), json_part(text)
    if listed is None:
        return None
    items, at = [], 0
    while (opening := OPENING.search(part, at)) is not None:
        try:
            found, at = DECODER.raw_decode(part, opening.start())
        except (ValueError, RecursionError):
            return None
        item = made_item(found, listed[1])
        if item is None or len(found.keys() & listed[1].model_fields.keys()) < _LEAST_FIELDS:
            return None
        items.append(item)
    return form.model_validate({listed[0]: items}) if items else None


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
        for item in (item_of(field.annotation),)
    )


def readable_part(text: str, form: type[FormT]) -> FormT | None:
    """The first answer in a text that fits the form without the items that do not; `None` without any good item."""
    listed = item_list(form)
    for found in _objects(json_part(text)) if listed is not None else ():
        with suppress(ValueError):
            part = fitted(found, form, dropping=True)
            return part if listed is not None and getattr(part, listed[0]) else None
    return None


def partly_read(text: str, form: type[FormT]) -> FormT | None:
    """The good items of an answer that is not of the form; `None` without any."""
    return readable_part(text, form) or salvaged(text, form)


def bare_json(text: str) -> str:
    """The text of the first JSON object or list in an answer; the text itself where there is none."""
    bare = without_thoughts(text)
    for opening in islice(OPENING.finditer(bare), MAX_OBJECTS):
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
    items = [made for found in _objects(json_part(text)) if (made := made_item(found, item)) is not None]
    return form.model_validate({name: items}) if items else None


def _objects(text: str) -> Iterator[Any]:
    """The objects of `placed_objects` alone."""
    return (found for _, found in placed_objects(text))


def name_faults(error: ValidationError) -> str:
    """Name the first faults by field in one line, without values or keys that the model invented."""
    return "; ".join(_name_fault(fault) for fault in error.errors(include_url=False, include_input=False)[:5])[:500]


def _name_fault(fault: Mapping[str, Any]) -> str:
    return f"{'.'.join(map(str, fault['loc'])) or 'the answer'}: {fault['msg']}"
