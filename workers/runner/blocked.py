"""Blocked conversations of a stage: parked until an event comes, or held until somebody repairs them."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from time import time
from typing import Protocol

from eunoe.workers.runner.inbound import OrderedEvent

BRIEF_S = 10.0
"""Seconds that a conversation may be parked without being counted: parts of a session seldom come at once."""
MAX_RECORDS = 1_000
"""Parked conversations of a process whose last event is remembered."""


class BlockReason(StrEnum):
    """Reasons why a conversation is blocked."""

    PARKED = "parked"
    """Events wait for one that has not come."""
    HELD = "held"
    """Acknowledged writes were lost: `eunoe repair` derives the conversation again."""


class BlockedStore(Protocol):
    """Counts of all processes of a generation. Every method raises `Unavailable`."""

    async def read(self, stage: str, reason: BlockReason) -> Mapping[str, float]:
        """Conversation → time since which it is blocked, in seconds since the epoch; the oldest 10,000."""
        ...

    async def add(self, stage: str, reason: BlockReason, since: Mapping[str, float]) -> None:
        """Record conversations; an earlier time stays."""
        ...

    async def remove(self, stage: str, reason: BlockReason, keys: set[str]) -> None:
        """Forget conversations."""
        ...


@dataclass(slots=True)
class _Blocked:
    """Conversations that are blocked for one reason."""

    known: dict[str, float] = field(default_factory=dict)
    """Those that all processes have stored."""
    own: dict[str, float] = field(default_factory=dict)
    """Those that this process has seen and not stored yet."""
    over: set[str] = field(default_factory=set)
    """Those that go on, and are to be removed from the store."""

    @property
    def all(self) -> dict[str, float]:
        return {**self.own, **self.known}

    def begin(self, key: str, since: float) -> None:
        self.over.discard(key)
        if key not in self.known:
            self.own.setdefault(key, since)

    def end(self, key: str) -> None:
        self.own.pop(key, None)
        if self.known.pop(key, None) is not None:
            self.over.add(key)


class BlockedConversations:
    """The conversations that are blocked at one stage, as this process knows them."""

    def __init__(self, now: Callable[[], float] = time) -> None:
        self._now = now
        self._by_reason = {reason: _Blocked() for reason in BlockReason}
        self._last: dict[str, OrderedEvent] = {}
        self._expired_waits: set[str] = set()

    def park(self, ordered: OrderedEvent) -> None:
        """Note that events of a conversation wait; ``ordered`` is the one that came last."""
        key = ordered.scope.key
        self._by_reason[BlockReason.PARKED].begin(key, self._now())
        if key in self._last or len(self._last) < MAX_RECORDS:
            self._last[key] = ordered

    def hold(self, key: str) -> None:
        """Note that a conversation is held: it is counted as that alone, whatever of it waits."""
        self._by_reason[BlockReason.PARKED].end(key)
        self._by_reason[BlockReason.HELD].begin(key, self._now())

    def note_expired_wait(self, key: str) -> None:
        """Note that another stage did not write in time what an event needs; for `MAX_RECORDS` conversations."""
        if len(self._expired_waits) < MAX_RECORDS:
            self._expired_waits.add(key)

    def has_expired_wait(self, key: str) -> bool:
        """Whether a wait of this conversation has expired here, and it has committed nothing since."""
        return key in self._expired_waits

    def note_commit(self, key: str) -> None:
        """Note that a decision of a conversation was committed."""
        self._last.pop(key, None)
        self._expired_waits.discard(key)
        for blocked in self._by_reason.values():
            blocked.end(key)

    def keep(self, partitions: Collection[tuple[str, int]]) -> None:
        """Forget what was parked in other partitions than these (topic and number), and is not stored yet.

        Their next owner may have applied it by now; stored by this process, it would count as parked until the
        conversation's next session.
        """
        for key, last in list(self._last.items()):
            if (str(last.record.topic), last.record.partition) not in partitions:
                del self._last[key]
                self._by_reason[BlockReason.PARKED].own.pop(key, None)

    def parked_for(self, seconds: float) -> list[OrderedEvent]:
        """The last event of each conversation that this process parked at least ``seconds`` ago and does not hold."""
        parked, held = self._by_reason[BlockReason.PARKED].all, self._by_reason[BlockReason.HELD].all
        before = self._now() - seconds
        return [last for key, last in self._last.items() if parked.get(key, before + 1) <= before and key not in held]

    def counts(self) -> dict[BlockReason, tuple[int, float]]:
        """Reason → number of conversations, and seconds for which the oldest one is blocked; 0 where there is none."""
        return {reason: self._count(reason) for reason in BlockReason}

    def _count(self, reason: BlockReason) -> tuple[int, float]:
        now = self._now()
        ages = [now - since for since in self._by_reason[reason].all.values() if now - since >= _uncounted_s(reason)]
        return len(ages), max(ages, default=0.0)

    async def sync(self, stage: str, store: BlockedStore) -> None:
        """Store what this process has seen, and read what others have; raises `Unavailable`."""
        now = self._now()
        for reason, blocked in self._by_reason.items():
            fresh = {key: since for key, since in blocked.own.items() if now - since >= _uncounted_s(reason)}
            over = set(blocked.over)
            if over:
                await store.remove(stage, reason, over)
                blocked.over -= over
            if fresh:
                await store.add(stage, reason, fresh)
            stored = dict(await store.read(stage, reason))
            blocked.over |= fresh.keys() - blocked.own.keys()  # those that went on meanwhile
            for key in blocked.known.keys() - stored.keys():  # repaired, or applied by another process
                self._last.pop(key, None)
            blocked.known = {key: since for key, since in stored.items() if key not in blocked.over}
            blocked.own = {key: since for key, since in blocked.own.items() if key not in stored}


def _uncounted_s(reason: BlockReason) -> float:
    """Seconds that a conversation may be blocked without being counted."""
    return BRIEF_S if reason is BlockReason.PARKED else 0.0
