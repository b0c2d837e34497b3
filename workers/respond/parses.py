"""Documents parsed once: parsing and checking what Redis gives costs more than all that is done with it."""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

T = TypeVar("T")

KEPT = 4096
"""Documents that are remembered: about 40 MB of segments."""


@dataclass(slots=True)
class Parses(Generic[T]):
    """A bounded memory of what texts were parsed to: equal texts give the same frozen value, used last stays."""

    parse: Callable[[str], T]
    _kept: OrderedDict[str, T] = field(default_factory=OrderedDict)

    def __call__(self, text: str) -> T:
        """What the text is parsed to; raises what the parser raises."""
        if text in self._kept:
            self._kept.move_to_end(text)
            return self._kept[text]
        value = self._kept[text] = self.parse(text)
        if len(self._kept) > KEPT:
            self._kept.popitem(last=False)
        return value
