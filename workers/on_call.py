"""Functions that specs name, and that are imported when they are called."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any


@dataclass(frozen=True, slots=True)
class OnCall:
    """A function of a spec that is imported when it is called: every command reads all specs, and few build a stage.

    The spec imports the function itself under ``TYPE_CHECKING``, so that its type is checked.
    """

    place: str
    """``module:function``."""

    def __call__(self, *given: Any) -> Any:  # noqa: ANN401 - what the function takes and returns
        """Call the function."""
        return self.load()(*given)

    def load(self) -> Callable[..., Any]:
        """Import the function; raises ``ImportError`` or ``AttributeError`` where there is none."""
        module, _, name = self.place.partition(":")
        function: Callable[..., Any] = getattr(import_module(module), name)
        return function
