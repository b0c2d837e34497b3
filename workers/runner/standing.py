"""Conversations that stand still at a stage: parked until an event comes, or held until somebody repairs them."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from time import time
from typing import Protocol

from eunoe.streams.record import Record
from eunoe.workers.runner.inbound import OrderedEvent

BRIEF_S = 10.0
"""Seconds that a conversation may be parked without being counted: parts of a session seldom come at once."""
MAX_RECORDS = 1_000
"""Parked conversations of a process whose last record is remembered."""


class StandingKind(StrEnum):
    """Reasons why a conversation stands still."""

    PARKED = "parked"
    """Events wait for one that has not come."""
    HELD = "held"
    """Acknowledged writes were lost: `eunoe repair` derives the conversation again."""


class StandingStore(Protocol):
    """Counts of all processes of a generation. Every method raises `Unavailable`."""

    async def read(self, stage: str, kind: StandingKind) -> Mapping[str, float]:
        """Conversation → time since which it stands still, in seconds since the epoch; the oldest 10,000."""
        ...

    async def add(self, stage: str, kind: StandingKind, since: Mapping[str, float]) -> None:
        """Record conversations; an earlier time stays."""
        ...

    async def remove(self, stage: str, kind: StandingKind, keys: set[str]) -> None:
        """Forget conversations."""
        ...


@dataclass(slots=True)
class _Standing:
    """Conversations that stand still for one reason."""

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


class StandingConversations:
    """The conversations that stand still at one stage, as this process knows them."""

    def __init__(self, now: Callable[[], float] = time) -> None:
        self._now = now
        self._kinds = {kind: _Standing() for kind in StandingKind}
        self._last: dict[str, tuple[OrderedEvent, Record]] = {}
        self._in_vain: set[str] = set()

    def park(self, ordered: OrderedEvent, record: Record) -> None:
        """Note that events of a conversation wait."""
        key = ordered.scope.key
        self._kinds[StandingKind.PARKED].begin(key, self._now())
        if key in self._last or len(self._last) < MAX_RECORDS:
            self._last[key] = (ordered, record)

    def hold(self, key: str) -> None:
        """Note that a conversation is held: it is counted as that alone, whatever of it waits."""
        self._kinds[StandingKind.PARKED].end(key)
        self._kinds[StandingKind.HELD].begin(key, self._now())

    def wait_in_vain(self, key: str) -> None:
        """Note that state that an event of a conversation needs did not come; of `MAX_RECORDS` conversations."""
        if len(self._in_vain) < MAX_RECORDS:
            self._in_vain.add(key)

    def waited_in_vain(self, key: str) -> bool:
        """Whether this process has waited in vain for a conversation, which has committed nothing since."""
        return key in self._in_vain

    def go_on(self, key: str) -> None:
        """Note that a decision of a conversation was committed."""
        self._last.pop(key, None)
        self._in_vain.discard(key)
        for standing in self._kinds.values():
            standing.end(key)

    def keep(self, partitions: Collection[tuple[str, int]]) -> None:
        """Forget what was parked in other partitions than these (topic and number), and is not stored yet.

        Their next owner may have applied it by now; stored by this process, it would count as parked until the
        conversation's next session.
        """
        for key, (_, record) in list(self._last.items()):
            if (str(record.topic), record.partition) not in partitions:
                del self._last[key]
                self._kinds[StandingKind.PARKED].own.pop(key, None)

    def parked_for(self, seconds: float) -> list[tuple[OrderedEvent, Record]]:
        """The last event of each conversation that this process parked at least ``seconds`` ago and does not hold."""
        parked, held = self._kinds[StandingKind.PARKED].all, self._kinds[StandingKind.HELD].all
        before = self._now() - seconds
        return [last for key, last in self._last.items() if parked.get(key, before + 1) <= before and key not in held]

    def counts(self) -> dict[StandingKind, tuple[int, float]]:
        """Kind → number of conversations, and seconds that the oldest one stands still; 0 where there is none."""
        return {kind: self._count(kind) for kind in StandingKind}

    def _count(self, kind: StandingKind) -> tuple[int, float]:
        now = self._now()
        brief = BRIEF_S if kind is StandingKind.PARKED else 0.0
        ages = [now - since for since in self._kinds[kind].all.values() if now - since >= brief]
        return len(ages), max(ages, default=0.0)

    async def sync(self, stage: str, store: StandingStore) -> None:
        """Store what this process has seen, and read what others have; raises `Unavailable`."""
        now = self._now()
        for kind, standing in self._kinds.items():
            brief = BRIEF_S if kind is StandingKind.PARKED else 0.0
            fresh = {key: since for key, since in standing.own.items() if now - since >= brief}
            over = set(standing.over)
            if over:
                await store.remove(stage, kind, over)
                standing.over -= over
            if fresh:
                await store.add(stage, kind, fresh)
                standing.over |= fresh.keys() - standing.own.keys()  # those that went on while they were stored
            stored = dict(await store.read(stage, kind))
            for key in standing.known.keys() - stored.keys():  # repaired, or applied by another process
                self._last.pop(key, None)
            standing.known = {key: since for key, since in stored.items() if key not in standing.over}
            standing.own = {key: since for key, since in standing.own.items() if key not in stored}
