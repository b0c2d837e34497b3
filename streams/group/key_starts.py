"""Rations how many keys a dispatcher begins at once: all else in the process waits for a turn of the event loop."""

import asyncio
from collections.abc import Callable
from typing import Final

_IN_A_TURN: Final = 4
"""Keys that begin in one turn of the event loop; one under backpressure."""
_POLL_S: Final = 0.05


class KeyStarts:
    """The keys begun in this turn of the event loop; ``again`` is called when others may begin."""

    def __init__(self, again: Callable[[], None]) -> None:
        self._again = again
        self._begun = 0
        self._timer: asyncio.TimerHandle | None = None

    def any_left(self, *, under_backpressure: bool) -> bool:
        """Whether another key may begin in this turn."""
        return self._begun < (1 if under_backpressure else _IN_A_TURN)

    def count(self) -> None:
        """Note that a key begins; in the next turn of the event loop others may."""
        if not self._begun:
            asyncio.get_running_loop().call_soon(self._next_turn)
        self._begun += 1

    def look_again(self) -> None:
        """Call ``again`` soon: backpressure may end long before a handler in work does, which may wait for a model."""
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_POLL_S, self._timed_out)

    def _next_turn(self) -> None:
        self._begun = 0
        self._again()

    def _timed_out(self) -> None:
        self._timer = None
        self._again()
