"""Fair queues: the records of a key stay in order; new and waiting keys alternate."""

from collections import deque
from typing import Generic, TypeVar

from eunoe.streams.group.partition import LogicalPartition

OrderingKey = bytes | LogicalPartition
"""The unit of ordering: a key, or the partition for records without a key."""

Job = TypeVar("Job")


class FairQueues(Generic[Job]):
    """Waiting jobs by key. After `take`, a key gets no further turn until `done`."""

    def __init__(self) -> None:
        self.waiting = 0
        """Number of waiting jobs, over all keys."""
        self._by_key: dict[OrderingKey, deque[Job]] = {}
        self._new: deque[OrderingKey] = deque()
        self._waited: deque[OrderingKey] = deque()
        self._new_next = True
        self._halted: set[OrderingKey] = set()

    @property
    def any(self) -> bool:
        """Whether some key may have a turn."""
        return bool(self._new or self._waited)

    def add(self, key: OrderingKey, job: Job) -> bool:
        """Queue ``job`` behind all others of its key; returns False for a halted key."""
        if key in self._halted:
            return False
        jobs = self._by_key.get(key)
        if jobs is None:
            self._by_key[key] = deque((job,))
            self._new.append(key)
        else:
            jobs.append(job)
        self.waiting += 1
        return True

    def take(self, limit: int) -> tuple[Job, ...]:
        """Up to ``limit`` jobs of the next key; call only while `any`.

        New keys and keys that have waited alternate, so that a single record does not wait behind an import.
        """
        first, other = (self._new, self._waited) if self._new_next else (self._waited, self._new)
        self._new_next = not self._new_next
        jobs = self._by_key[(first or other).popleft()]
        taken = tuple(jobs.popleft() for _ in range(min(len(jobs), limit)))
        self.waiting -= len(taken)
        return taken

    def done(self, key: OrderingKey) -> None:
        """Give a key its next turn: the jobs taken of it are done."""
        jobs = self._by_key.get(key)
        if jobs:
            self._waited.append(key)
        elif jobs is not None:
            del self._by_key[key]

    def halt(self, key: OrderingKey) -> None:
        """Drop the waiting jobs of a key, and refuse more of it until `clear`."""
        self._halted.add(key)
        self.waiting -= len(self._by_key.pop(key, ()))

    def drop(self) -> None:
        """Drop all waiting jobs."""
        self.waiting = 0
        self._by_key.clear()
        self._new.clear()
        self._waited.clear()

    def clear(self) -> None:
        """Drop all waiting jobs, and take halted keys again."""
        self.drop()
        self._halted.clear()
