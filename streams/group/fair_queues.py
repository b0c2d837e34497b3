"""Whose turn it is: records of one key in their order, keys that come anew and keys that have waited by turns."""

from collections import deque
from typing import Generic, TypeVar

from eunoe.streams.group.partition import Place

OrderingKey = bytes | Place
"""What is kept in order: a key, or for records without a key their partition."""

Job = TypeVar("Job")


class FairQueues(Generic[Job]):
    """What waits, by chain. A chain from which something was taken has no turn until that is said to be done."""

    def __init__(self) -> None:
        self.waiting = 0
        """How many wait, of all chains."""
        self._by_key: dict[OrderingKey, deque[Job]] = {}
        self._fresh: deque[OrderingKey] = deque()
        self._waited: deque[OrderingKey] = deque()
        self._fresh_next = True
        self._halted: set[OrderingKey] = set()

    @property
    def any(self) -> bool:
        """True: it is somebody's turn."""
        return bool(self._fresh or self._waited)

    def add(self, key: OrderingKey, job: Job) -> bool:
        """Let ``job`` wait behind all others of its chain; False when the chain was halted."""
        if key in self._halted:
            return False
        row = self._by_key.get(key)
        if row is None:
            self._by_key[key] = deque((job,))
            self._fresh.append(key)
        else:
            row.append(job)
        self.waiting += 1
        return True

    def take(self, limit: int) -> tuple[Job, ...]:
        """Up to ``most`` of the chain whose turn it is.

        A chain that comes anew and one that has waited by turns: who says one thing need not wait for who imports.
        """
        first, other = (self._fresh, self._waited) if self._fresh_next else (self._waited, self._fresh)
        self._fresh_next = not self._fresh_next
        row = self._by_key[(first or other).popleft()]
        taken = tuple(row.popleft() for _ in range(min(len(row), limit)))
        self.waiting -= len(taken)
        return taken

    def done(self, key: OrderingKey) -> None:
        """What was taken of the chain is done: its next ones have a turn again."""
        row = self._by_key.get(key)
        if row:
            self._waited.append(key)
        elif row is not None:
            del self._by_key[key]

    def halt(self, key: OrderingKey) -> None:
        """Drop what waits of the chain, and take nothing more of it before `clear`."""
        self._halted.add(key)
        self.waiting -= len(self._by_key.pop(key, ()))

    def drop(self) -> None:
        """Drop all that waits."""
        self.waiting = 0
        self._by_key.clear()
        self._fresh.clear()
        self._waited.clear()

    def clear(self) -> None:
        """Drop all that waits, and forget what was halted."""
        self.drop()
        self._halted.clear()
