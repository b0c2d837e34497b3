"""Caches parsed documents: validation costs more than all further work on them."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from eunoe.workers.text.caches import CacheBySize

T = TypeVar("T")

MAX_BYTES = 64 << 20
"""Bytes of cached documents, each counted as `COPIES` times its text."""
COPIES = 4
"""The text, and its values as objects: measured, rounded up."""


@dataclass(slots=True)
class ParseCache(Generic[T]):
    """A least-recently-used cache of a parser: equal texts give the same frozen value."""

    parse: Callable[[str], T]
    _kept: CacheBySize[str, T] = field(default_factory=lambda: CacheBySize(MAX_BYTES, "documents"))

    def __call__(self, text: str) -> T:
        """The parsed text; raises what the parser raises."""
        known = self._kept.get(text)
        if known is not None:
            return known
        value = self.parse(text)
        self._kept.put(text, value, COPIES * len(text))
        return value
