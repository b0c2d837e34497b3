"""What a rebuild tells of itself."""

from collections.abc import Callable
from dataclasses import dataclass, field

from eunoe.schemas.base import Value


class ProgressLine(Value):
    """A line of the process: what it did since the last one."""

    conversations: int = 0
    events: int = 0
    sessions: int = 0
    memories: int = 0
    failed: int = 0
    kept: int = 0
    """Conversations that an earlier run of the same rebuild had finished."""
    calls: int = 0
    """Of models, corrections and retries included; counted since the process began."""
    tokens: int = 0
    """Likewise."""
    cost: float = 0.0
    """Likewise, in dollars; 0 where no price is set."""


@dataclass(frozen=True, slots=True)
class RebuildProgress:
    """How far a rebuild is."""

    phase: str
    """``answers``, ``log`` or ``memory``; of a partial rebuild ``copy`` and ``topics`` too."""
    done: int
    """Events; of answers, of what is copied, and of memory in a partial rebuild: answers, conversations."""
    total: int
    """0: not known yet."""
    made: ProgressLine = field(default_factory=ProgressLine)
    """Sums over all processes."""
    seconds: float = 0.0
    """Since this phase began."""


ReportRebuild = Callable[[RebuildProgress], None]
"""Called after each step with the state of the rebuild."""
