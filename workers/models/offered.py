"""Answer forms with one required property per item of the question.

An endpoint that enforces such a schema cannot leave out an item, repeat one, or invent one.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, TypeVar

from pydantic import ConfigDict, model_validator

from eunoe.schemas.base import Value

FormT = TypeVar("FormT", bound=Value)
Schema = dict[str, Any]


@lru_cache(maxsize=1024)
def one_each(form: type[FormT], field: str, number: str, count: int) -> type[FormT]:
    """Turn the list ``field`` of ``form``, whose items have a ``number`` from 1 to ``count``, into one property each.

    With field ``pairs`` and number ``pair`` an answer is ``{"pair_1": {…}, "pair_2": {…}}``, each without its number.
    The plain list parses too: answers are recorded as the list, and an endpoint without schemas may return it.
    """
    names = {f"{number}_{place}": place for place in range(1, count + 1)}

    class Form(form):  # type: ignore[misc, valid-type]
        # reading docstrings from source files is slow, and this class has none
        model_config = ConfigDict(use_attribute_docstrings=False)

        @classmethod
        def model_json_schema(cls, *args: Any, **options: Any) -> Schema:  # noqa: ANN401 - pydantic's own
            return _one_property_each(form.model_json_schema(*args, **options), field, number, list(names))

        @model_validator(mode="before")
        @classmethod
        def _listed(cls, answer: Any) -> Any:  # noqa: ANN401 - any JSON
            return answer if not isinstance(answer, dict) or field in answer else _as_list(answer, names, field, number)

    Form.__name__ = Form.__qualname__ = form.__name__
    return Form


def _one_property_each(schema: Schema, field: str, number: str, names: Sequence[str]) -> Schema:
    """The schema with a property for each name in place of the list, its items without their number."""
    reference = schema["properties"].pop(field)["items"]
    item = schema["$defs"][reference["$ref"].rsplit("/", 1)[-1]]
    del item["properties"][number]
    item["required"] = list(item["properties"])
    schema["properties"] |= dict.fromkeys(names, reference)
    schema["required"] = list(schema["properties"])
    return schema


def _as_list(answer: Mapping[str, Any], names: Mapping[str, int], field: str, number: str) -> dict[str, Any]:
    """Collect the properties into a list of numbered items; the form refuses any other key, which stays."""
    items = [
        {number: place, **answer[name]} if isinstance(answer[name], Mapping) else answer[name]
        for name, place in names.items()
        if name in answer
    ]
    return {field: items, **{name: part for name, part in answer.items() if name not in names}}
