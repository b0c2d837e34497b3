"""Fair queues: the records of a key stay in order; urgent keys, new ones and those that have waited alternate."""

from collections import OrderedDict, deque
from typing import Generic, Protocol, TypeVar

from eunoe.streams.group.partition import LogicalPartition

OrderingKey = bytes | LogicalPartition
"""The unit of ordering: a key, or the partition for records without a key."""


class Queued(Protocol):
    """A job that waits."""

    @property
    def urgent(self) -> bool:
        """Whether somebody waits for it: its key, with all that waits before it, goes first."""
        ...

    @property
    def size(self) -> int:
        """The bytes that it holds."""
        ...


Job = TypeVar("Job", bound=Queued)


class FairQueues(Generic[Job]):
    """Waiting jobs by key. After `take`, a key gets no further turn until `done`."""

    def __init__(self) -> None:
        self.waiting = 0
        """Number of waiting jobs, over all keys."""
        self.waiting_bytes = 0
        """Their bytes."""
        self._by_key: dict[OrderingKey, deque[Job]] = {}
        self._urgent_jobs: dict[OrderingKey, int] = {}
        """Key → its waiting urgent jobs."""
        # ordered dictionaries: a key leaves the middle of its line when it becomes urgent
        self._urgent: OrderedDict[OrderingKey, None] = OrderedDict()
        self._new: OrderedDict[OrderingKey, None] = OrderedDict()
        self._waited: OrderedDict[OrderingKey, None] = OrderedDict()
        self._urgent_next = True
        self._new_next = True
        self._halted: set[OrderingKey] = set()

    @property
    def any(self) -> bool:
        """Whether some key may have a turn."""
        return bool(self._urgent or self._new or self._waited)

    @property
    def holds_urgent(self) -> bool:
        """Whether an urgent job waits, also one whose key is in work."""
        return bool(self._urgent_jobs)

    @property
    def any_urgent(self) -> bool:
        """Whether some key with an urgent job may have a turn."""
        return bool(self._urgent)

    def last(self, key: OrderingKey) -> Job | None:
        """The job of a key that was queued last, `None` where none waits."""
        jobs = self._by_key.get(key)
        return jobs[-1] if jobs else None

    def add(self, key: OrderingKey, job: Job) -> bool:
        """Queue ``job`` behind all others of its key; returns False for a halted key."""
        if key in self._halted:
            return False
        jobs = self._by_key.get(key)
        if jobs is None:
            self._by_key[key] = deque((job,))
            self._new[key] = None
        else:
            jobs.append(job)
        self.waiting += 1
        self.waiting_bytes += job.size
        if job.urgent:
            self._urgent_jobs[key] = self._urgent_jobs.get(key, 0) + 1
            self._hurry(key)
        return True

    def _hurry(self, key: OrderingKey) -> None:
        """Let a waiting key go first; one that has its turn does so afterwards."""
        for line in (self._new, self._waited):
            if key in line:
                del line[key]
                self._urgent[key] = None

    def take(self, limit: int) -> tuple[Job, ...]:
        """Up to ``limit`` jobs of the next key; call only while `any`.

        Every other turn is that of an urgent key. New keys and keys that have waited alternate in the others, so that
        a single record does not wait behind an import.
        """
        key = self._next_key()
        jobs = self._by_key[key]
        taken = tuple(jobs.popleft() for _ in range(min(len(jobs), limit)))
        self.waiting -= len(taken)
        self.waiting_bytes -= sum(job.size for job in taken)
        if key in self._urgent_jobs:
            self._count_down(key, sum(job.urgent for job in taken))
        return taken

    def _next_key(self) -> OrderingKey:
        urgent = self._urgent_next or not (self._new or self._waited)
        self._urgent_next = not self._urgent_next
        if urgent and self._urgent:
            return self._urgent.popitem(last=False)[0]
        first, other = (self._new, self._waited) if self._new_next else (self._waited, self._new)
        self._new_next = not self._new_next
        return (first or other).popitem(last=False)[0]

    def _count_down(self, key: OrderingKey, taken: int) -> None:
        self._urgent_jobs[key] -= taken
        if not self._urgent_jobs[key]:
            del self._urgent_jobs[key]

    def done(self, key: OrderingKey) -> None:
        """Give a key its next turn: the jobs taken of it are done."""
        jobs = self._by_key.get(key)
        if jobs:
            line = self._urgent if key in self._urgent_jobs else self._waited
            line[key] = None
        elif jobs is not None:
            del self._by_key[key]

    def halt(self, key: OrderingKey) -> None:
        """Drop the waiting jobs of a key, and refuse more of it until `clear`."""
        self._halted.add(key)
        dropped = self._by_key.pop(key, ())
        self._urgent_jobs.pop(key, None)
        self.waiting -= len(dropped)
        self.waiting_bytes -= sum(job.size for job in dropped)

    def drop(self) -> None:
        """Drop all waiting jobs."""
        self.waiting = self.waiting_bytes = 0
        for held in (self._by_key, self._urgent_jobs, self._urgent, self._new, self._waited):
            held.clear()

    def clear(self) -> None:
        """Drop all waiting jobs, and take halted keys again."""
        self.drop()
        self._halted.clear()
