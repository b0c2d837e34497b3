"""Caches parsed documents: validation costs more than all further work on them."""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

T = TypeVar("T")

MAX_PARSED = 4096
"""Maximum of cached documents; about 40 MB of segments."""


@dataclass(slots=True)
class ParseCache(Generic[T]):
    """A least-recently-used cache of a parser: equal texts give the same frozen value."""

    parse: Callable[[str], T]
    _kept: OrderedDict[str, T] = field(default_factory=OrderedDict)

    def __call__(self, text: str) -> T:
        """The parsed text; raises what the parser raises."""
        if text in self._kept:
            self._kept.move_to_end(text)
            return self._kept[text]
        value = self._kept[text] = self.parse(text)
        if len(self._kept) > MAX_PARSED:
            self._kept.popitem(last=False)
        return value
