"""What the stage asks of a blender."""

from collections.abc import Sequence
from typing import Protocol

from eunoe.schemas.events import Line
from eunoe.workers.blend.scene import Blend, Scene


class Blender(Protocol):
    """Asks memory a question, and blends what it answers with the dialogue (CREEM, sections 3.1 and 3.2).

    Both methods raise `Unavailable` when a model's endpoint is. ``urgent``: somebody waits for the reply.
    """

    async def question(self, lines: Sequence[Line], *, urgent: bool) -> str:
        """What to look up in memory for a dialogue whose last line asks."""
        ...

    async def blend(self, scene: Scene, *, urgent: bool) -> Blend:
        """The insights of the last two utterances; nothing of them is told already."""
        ...
