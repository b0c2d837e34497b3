"""Progress of one stage: handled records against the ends of its partitions."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from time import monotonic

from eunoe.streams.group.handlers import BatchHandler
from eunoe.streams.group.partition import LogicalPartition
from eunoe.streams.record import Lease, Record


@dataclass(slots=True)
class _PartitionSample:
    """The last sample of one assigned partition."""

    handled: int
    end: int
    active_at: float
    """The time at which it last advanced, paused on purpose, or had no lag."""

    @property
    def lag(self) -> int:
        return max(0, self.end - self.handled)


class StageProgress:
    """The progress of a stage by partition, and since when a partition does not advance."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._places: dict[LogicalPartition, _PartitionSample] = {}
        self._pausing: Counter[LogicalPartition] = Counter()
        self._rebalancing_since: float | None = None
        self._given_back = 0

    @property
    def given_back(self) -> int:
        """Records that were given back unacknowledged, for their next owner."""
        return self._given_back

    def watched(self, handle: BatchHandler) -> BatchHandler:
        """The same handler; its pauses (for a server, for another stage) count as progress."""

        async def watch(records: Sequence[Record], lease: Lease) -> None:
            done = False
            try:
                await handle(records, _WatchedLease(lease, self, (records[0].topic, records[0].partition)))
                done = True
            finally:
                self._given_back += 0 if done else len(records)

        return watch

    def sample(
        self, handled: Mapping[LogicalPartition, int], ends: Mapping[LogicalPartition, int], *, rebalancing: bool
    ) -> None:
        """Record the handled positions of the assigned partitions, and the known ends."""
        now = self._clock()
        if not rebalancing:
            self._rebalancing_since = None
        elif self._rebalancing_since is None:
            self._rebalancing_since = now
        self._places = {place: self._next(place, at, ends.get(place, 0), now) for place, at in handled.items()}

    def _next(self, place: LogicalPartition, handled: int, end: int, now: float) -> _PartitionSample:
        before = self._places.get(place)
        end = max(end, handled, before.end if before else 0)
        moved = before is None or before.handled != handled or not before.lag or self._pausing[place]
        return _PartitionSample(handled, end, now if moved or before is None else before.active_at)

    def lag(self) -> dict[LogicalPartition, int]:
        """Unhandled records by partition."""
        return {place: sample.lag for place, sample in self._places.items()}

    def stalled(self, limit_s: float) -> list[str]:
        """Partitions with lag that have not advanced for ``limit_s`` seconds, in words."""
        now = self._clock()
        stuck = [
            f"{topic}/{partition}: {sample.lag} left, none handled for {now - sample.active_at:.0f} s"
            for (topic, partition), sample in sorted(self._places.items())
            if sample.lag and not self._pausing[topic, partition] and now - sample.active_at > limit_s
        ]
        if self._rebalancing_since is not None and now - self._rebalancing_since > limit_s:
            stuck.append(f"no partitions for {now - self._rebalancing_since:.0f} s: the rebalance does not end")
        return stuck

    def begin_pause(self, place: LogicalPartition) -> None:
        """Note that a record of the partition waits on purpose."""
        self._pausing[place] += 1

    def end_pause(self, place: LogicalPartition) -> None:
        """Note that the wait has ended."""
        self._pausing[place] -= 1
        if place in self._places:
            self._places[place].active_at = self._clock()


class _WatchedLease:
    def __init__(self, lease: Lease, progress: StageProgress, place: LogicalPartition) -> None:
        self._lease = lease
        self._progress = progress
        self._place = place

    @property
    def revoked(self) -> bool:
        return self._lease.revoked

    async def pause(self, seconds: float) -> None:
        self._progress.begin_pause(self._place)
        try:
            await self._lease.pause(seconds)
        finally:
            self._progress.end_pause(self._place)
