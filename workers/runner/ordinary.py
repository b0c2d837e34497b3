"""Distinguishes ordinary events from odd ones: a stage that fails at ordinary ones is itself at fault."""

import re
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from typing import Any, Final

from eunoe.schemas.base import Contract

MAX_CHARS: Final = 4_000
"""Characters of an ordinary text."""
MAX_AGE: Final = timedelta(days=366 * 5)
"""The most by which an ordinary time differs from the log's."""
_ODD: Final = re.compile(r"\S{65}|[^\w\s]{9}|[\x00-\x08\x0e-\x1f\x7f\u200b-\u200f\u2028-\u202e\U000e0000-\U000effff]")
"""A word of over 64 characters, a long run of signs, a control character."""


def is_ordinary(events: Iterable[Contract], log_time: datetime) -> bool:
    """Whether all texts and times of events are such as people write and clocks show."""
    return all(_is_ordinary(value, log_time) for event in events for value in _values(event.model_dump()))


def _values(value: Any) -> Iterator[Any]:  # noqa: ANN401 - a tree of any values
    if isinstance(value, dict):
        for each in value.values():
            yield from _values(each)
    elif isinstance(value, list | tuple | set | frozenset):
        for each in value:
            yield from _values(each)
    else:
        yield value


def _is_ordinary(value: object, log_time: datetime) -> bool:
    if isinstance(value, str):
        return len(value) <= MAX_CHARS and _ODD.search(value) is None
    return not isinstance(value, datetime) or abs(value - log_time) <= MAX_AGE
