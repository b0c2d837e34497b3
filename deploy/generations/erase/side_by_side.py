"""Bounds the conversations that are erased at the same time: an eraser holds each of them whole."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

MAX_SESSIONS: Final = 1_000
"""Sessions that all conversations in work have together: some 0.2 MB for each of ten lines."""


@dataclass(slots=True)
class SideBySide:
    """Lets conversations in while they have at most ``max_sessions`` together, and a longer one alone."""

    max_sessions: int = MAX_SESSIONS
    _sessions: int = 0
    _changed: asyncio.Condition = field(default_factory=asyncio.Condition)

    @asynccontextmanager
    async def entered(self, sessions: int) -> AsyncIterator[None]:
        """Wait until a conversation with so many sessions fits beside the others; the block is its work."""
        async with self._changed:
            await self._changed.wait_for(lambda: self._fits(sessions))
            self._sessions += sessions
        try:
            yield
        finally:
            async with self._changed:
                self._sessions -= sessions
                self._changed.notify_all()

    def _fits(self, sessions: int) -> bool:
        return not self._sessions or self._sessions + sessions <= self.max_sessions
