"""Decides whether a limit that an endpoint tells is believed, and for how long.

A proxy may send one request to a smaller model, and an answer may be forged. One refusal must not make all later
questions small: it is not believed at once where it contradicts what was taken, and no limit is believed for ever.
"""

from dataclasses import dataclass, replace
from typing import Final

FIRST_PATIENCE: Final = 64
"""Questions that a limit makes smaller before one is asked as if there were none."""
MAX_PATIENCE: Final = 4_096
"""The most of them: the number doubles each time, so that a true limit is seldom asked for."""
MAX_DOUBTS: Final = 3
"""Refusals in a row after which a limit is believed that is smaller than a request that was taken."""


@dataclass(frozen=True, slots=True)
class LimitTrust:
    """The evidence for one limit of an endpoint, in tokens."""

    taken: int = 0
    """The largest request that was taken."""
    doubted: int = 0
    """The largest limit that is told and not yet believed."""
    doubts: int = 0
    """Refusals that told such limits, with no larger request taken since."""
    held_back: int = 0
    """Questions that the limit has made smaller since it was believed."""
    patience: int = FIRST_PATIENCE

    def after_taking(self, tokens: int) -> "LimitTrust":
        """The evidence after a request of so many tokens was taken."""
        if tokens <= self.taken and (not self.doubts or tokens <= self.doubted):
            return self
        told = replace(self, taken=max(self.taken, tokens))
        return replace(told, doubted=0, doubts=0) if tokens > self.doubted else told

    def after_refusal(self, limit: int) -> tuple["LimitTrust", bool]:
        """The evidence after a refusal that told a limit, and whether that is believed."""
        if limit >= self.taken:
            return replace(self, held_back=0), True
        if self.doubts + 1 < MAX_DOUBTS:
            return replace(self, doubts=self.doubts + 1, doubted=max(self.doubted, limit)), False
        return replace(self, taken=limit, doubted=0, doubts=0, held_back=0), True

    def after_holding_back(self) -> tuple["LimitTrust", bool]:
        """The evidence after the limit made a question smaller, and whether it is to be forgotten now."""
        if self.held_back + 1 < self.patience:
            return replace(self, held_back=self.held_back + 1), False
        return replace(self, held_back=0, patience=min(2 * self.patience, MAX_PATIENCE)), True
