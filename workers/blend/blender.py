"""The port of a blender."""

from collections.abc import Sequence
from typing import Protocol

from eunoe.schemas.events import Line
from eunoe.workers.blend.turn import Blend, BlendInput


class Blender(Protocol):
    """Makes a question to memory, and insights from its results and the dialogue (CREEM, sections 3.1 and 3.2).

    Both methods raise `Unavailable` if a model's endpoint is unavailable. ``urgent``: whether a reply waits for the
    result.
    """

    async def question(self, lines: Sequence[Line], *, urgent: bool) -> str:
        """The question to memory for a dialogue; its last line counts most."""
        ...

    async def blend(self, turn: BlendInput, *, urgent: bool) -> Blend:
        """The insights of the last two utterances, without those noted earlier."""
        ...
