"""Answers that were cut off: the text in which they ended, and what of one is of use that would never have ended."""

import re
from typing import Final, TypeVar

from eunoe.schemas.base import Value
from eunoe.schemas.errors import AnswerFault, AnswerInvalid
from eunoe.workers.models.questions.fitting import MAX_OBJECTS, item_list
from eunoe.workers.models.questions.json_text import DECODER, json_part
from eunoe.workers.models.questions.prompt_lines import prompt_tokens
from eunoe.workers.models.questions.reading import salvaged

FormT = TypeVar("FormT", bound=Value)

_ENDLESS_TOKENS: Final = 700
"""Tokens of an unfinished item that no end was to be seen of: the texts of a form have a quarter of them each."""
_NUMBER: Final = re.compile(r'"n"\s{0,9}:\s{0,9}\W?(\d{1,9})')


def is_endless(error: AnswerInvalid) -> bool:
    """Whether it is the fault of an answer that was cut within an item, or in front of the first, without an end."""
    return error.fault is AnswerFault.CUT and prompt_tokens(unfinished(error.partial)) > _ENDLESS_TOKENS


def unfinished(text: str) -> str:
    """The end of a cut answer, behind its last whole object: the item within which it was cut."""
    bare = json_part(text)
    at = end = 0
    for _ in range(MAX_OBJECTS):
        if (at := bare.find("{", at)) < 0:
            break
        try:
            _, end = DECODER.raw_decode(bare, at)
            at = end
        except (ValueError, RecursionError):
            at += 1
    return bare[end:]


def number_unfinished(text: str) -> int:
    """The number ``n`` that the item within which an answer was cut names; 0 where it names none."""
    found = _NUMBER.search(unfinished(text))
    return 0 if found is None else int(found[1])


def read_endless(text: str, form: type[FormT]) -> FormT | None:
    """The items, each once, of an answer that was cut off while it said one of them again; `None` for any other."""
    part, listed = salvaged(text, form), item_list(form)
    if part is None or listed is None:
        return None
    items: tuple[Value, ...] = getattr(part, listed[0])
    if items[-1] not in items[:-1]:
        return None
    distinct = [item for place, item in enumerate(items) if item not in items[:place]]
    return form.model_validate({listed[0]: distinct})
