"""Caches parsed documents: validation costs more than all further work on them."""

from collections.abc import Callable
from dataclasses import dataclass, field
from sys import getsizeof
from typing import Generic, TypeVar

from eunoe.workers.text.caches import CacheBySize

T = TypeVar("T")

SHARE = 0.15
"""Share of memories of the bytes that `RespondSettings` gives to caches."""
SEGMENT_SHARE = 0.05
"""Share of whole segments; the default strategy keeps their features instead."""
VERTEX_SHARE = 0.1
"""Share of vertices of the memory graph, see `eunoe.workers.link.vertex_cache`."""
COPIES = 4
"""Bytes of a document by those of its text: the text, and its values as objects; measured, rounded up."""


@dataclass(slots=True)
class ParseCache(Generic[T]):
    """A least-recently-used cache of a parser: equal texts give the same frozen value."""

    parse: Callable[[str], T]
    max_bytes: int
    """The most that it holds."""
    _kept: CacheBySize[str, T] = field(init=False)

    def __post_init__(self) -> None:
        """Begin empty."""
        self._kept = CacheBySize(self.max_bytes, "documents")

    def __call__(self, text: str) -> T:
        """The parsed text; raises what the parser raises."""
        known = self._kept.get(text)
        if known is not None:
            return known
        value = self.parse(text)
        self._kept.put(text, value, COPIES * getsizeof(text))
        return value
