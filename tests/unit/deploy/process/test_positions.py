"""Positions of the log: an absent store delays them, and loses none."""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import pytest
from aiokafka import TopicPartition

from eunoe.deploy.exits import HOPELESS, code_of
from eunoe.deploy.process.positions import LogEnds, PartitionStart, log_watch, remember_position
from eunoe.schemas.decisions import Commit, Ledger, Scope
from eunoe.schemas.errors import Refused, Unavailable
from eunoe.schemas.position_ports import Handled, Positions, ReadPartition, Stored
from eunoe.streams.position import position
from eunoe.streams.record import Revoked
from eunoe.streams.settings import KafkaSettings, partition_of
from eunoe.streams.topics import TopicNames
from eunoe.workers.registry import STAGES
from eunoe.workers.runner.backoff import Outages
from eunoe.workers.runner.loss_detector import LossDetector, WritesLost, seen_ledgers
from eunoe.workers.runner.metrics import StageMeter
from eunoe.workers.stores.state.memory_store import MemoryStore
from eunoe.workers.text.caches import cache_sizes
from tests.support.memory.handled_positions import MemoryHandledPositions


@dataclass
class Shaky(MemoryHandledPositions):
    """Away for the first ``away`` requests."""

    away: int

    def __post_init__(self) -> None:
        super().__init__(MemoryStore())

    def _answer(self) -> None:
        if self.away > 0:
            self.away -= 1
            raise Unavailable("Redis at nowhere does not answer")

    async def stored(self, reader: ReadPartition) -> Positions:
        self._answer()
        return await super().stored(reader)

    async def store(self, *args: Any, **more: Any) -> Stored:
        self._answer()
        return await super().store(*args, **more)

    async def now(self) -> int:
        (found,) = (await MemoryHandledPositions.stored(self, READER)).values()
        return found.position


READER = ReadPartition("intake", "conversations", 2)
HERE = ("conversations", 2)


def detector_of(positions: MemoryHandledPositions, meter: StageMeter | None = None) -> LossDetector:
    return LossDetector(STAGES["intake"], positions, 12, meter or StageMeter())


@dataclass
class Brief:
    """A lease whose pauses take no time; revoked after ``pauses`` of them."""

    pauses: int
    revoked: bool = field(default=False, init=False)

    async def pause(self, seconds: float) -> None:
        self.pauses -= 1
        await asyncio.sleep(0)
        if self.pauses < 0:
            self.revoked = True
            raise Revoked


async def test_a_position_is_remembered_once_the_store_is_back() -> None:
    positions = Shaky(away=3)
    await remember_position(detector_of(positions), 1, Outages(), 600)(*HERE, 7, Brief(10))
    assert await positions.now() == position(1, 7)


async def test_nothing_is_remembered_when_a_rebalance_comes_first() -> None:
    positions = Shaky(away=5)
    with pytest.raises(Revoked):
        await remember_position(detector_of(positions), 1, Outages(), 600)(*HERE, 7, Brief(1))
    assert await positions.now() == 0


async def test_a_store_that_stays_away_ends_the_wait() -> None:
    with pytest.raises(Unavailable):
        await remember_position(detector_of(Shaky(away=10**6)), 1, Outages(), 0.0)(*HERE, 7, Brief(10**6))


async def test_a_partition_starts_where_it_was_handled_even_if_the_store_was_away() -> None:
    positions = Shaky(away=0)
    await positions.store(READER, "", position(1, 7), {})
    positions.away = 1
    start = PartitionStart(detector_of(positions), 1).start
    assert await start(*HERE, 20) == 8
    assert await start(*HERE, 8) is None


async def test_one_server_of_several_that_went_back_has_the_partition_read_again() -> None:
    class Several(Shaky):
        async def stored(self, reader: ReadPartition) -> Positions:
            return {"0": Handled(position(1, 19)), "3": Handled(position(1, 7)), "4": Handled(position(1, 19))}

    assert await PartitionStart(detector_of(Several(0)), 1).start(*HERE, 20) == 8


async def test_a_partition_whose_positions_went_back_is_not_acknowledged_but_read_again() -> None:
    positions, meter = Shaky(away=0), StageMeter()
    loss_detector = detector_of(positions, meter)
    hook, start = remember_position(loss_detector, 1, Outages(), 600), PartitionStart(loss_detector, 1).start
    assert await start(*HERE, 0) is None
    for offset in (3, 7):
        await hook(*HERE, offset, Brief(0))
    positions._positions[READER] = Handled(position(1, 3), 9)
    assert not await loss_detector.is_intact([HERE]), "it is noticed without a record, too"
    with pytest.raises(WritesLost, match="server log shows position"):
        await hook(*HERE, 9, Brief(0))
    assert await positions.now() == position(1, 3), "what is lost is not covered"
    assert await start(*HERE, 10) == 4
    await hook(*HERE, 4, Brief(0))
    assert await loss_detector.is_intact([HERE])
    assert meter.went_back == 1


async def test_the_watch_notices_the_loss_of_what_waits_for_its_acknowledgement() -> None:
    store = MemoryStore()
    loss_detector = detector_of(MemoryHandledPositions(store))
    assert await PartitionStart(loss_detector, 1).start(*HERE, 0) is None
    key = next(key for key in map("default/{}".format, range(1000)) if partition_of(key.encode(), 12) == HERE[1])
    scope = Scope("intake", key)
    assert await store.commit(scope, Commit(expect=0, applied=5))
    loss_detector.note(scope, 5, 0, sent=True)
    for _ in range(3):
        assert await loss_detector.is_intact([HERE])
    store._ledgers.clear()
    assert not await loss_detector.is_intact([HERE])
    await PartitionStart(loss_detector, 1).start(*HERE, 0)
    loss_detector.note(scope, 5, 0, sent=True)
    assert await loss_detector.is_intact([HERE]), "its acknowledgement may be under way"
    assert not await loss_detector.is_intact([HERE])


async def test_a_process_that_dies_at_an_acknowledgement_leaves_no_position_above_what_is_there() -> None:
    class Dies(BaseException):
        pass

    class Apart(Shaky):
        """Positions and ledgers lie on several servers; the process dies between them."""

        verifies_separately = True

        async def store(
            self, reader: ReadPartition, owner: str, position: int, expected: Any, witnesses: Any
        ) -> Stored:
            found = await super().store(reader, owner, position, expected)
            if witnesses:
                raise Dies
            return found

    positions = Apart(away=0)
    loss_detector = detector_of(positions)
    await PartitionStart(loss_detector, 1).start(*HERE, 0)
    key = next(key for key in (f"acme/{number}" for number in range(100)) if partition_of(key.encode(), 12) == HERE[1])
    loss_detector.note(Scope("intake", key), 1, 0, sent=True)  # and the server of this ledger lost it
    with pytest.raises(Dies):
        await loss_detector.advance(*HERE, position(1, 7))
    assert await positions.now() == 0


async def test_a_lost_write_of_an_unchanged_position_is_noticed() -> None:
    positions = Shaky(away=0)
    loss_detector = detector_of(positions)
    hook = remember_position(loss_detector, 1, Outages(), 600)
    assert await PartitionStart(loss_detector, 1).start(*HERE, 0) is None
    await hook(*HERE, 3, Brief(0))
    before = positions._positions[READER]
    await hook(*HERE, 3, Brief(0))
    positions._positions[READER] = before
    with pytest.raises(WritesLost, match=r"after 2 writes, and had .* after 3"):
        await hook(*HERE, 4, Brief(0))
    assert await positions.now() == position(1, 3)


async def test_a_position_that_another_process_lowered_is_not_taken_for_a_loss() -> None:
    positions, meter, begun = Shaky(away=0), StageMeter(), position(1, 2)
    paused, other = detector_of(positions, meter), detector_of(positions)
    await paused.begin(*HERE, await paused.stored(*HERE), begun)
    await paused.advance(*HERE, position(1, 7))
    await other.begin(*HERE, await other.stored(*HERE), begun)  # the group had committed no more
    with pytest.raises(Revoked) as told:
        await paused.advance(*HERE, position(1, 8))
    assert not isinstance(told.value, WritesLost)
    assert await paused.is_intact([HERE])
    assert meter.went_back == 0
    await other.advance(*HERE, position(1, 3))
    assert await positions.now() == position(1, 3)


async def test_a_partition_that_lost_what_was_not_handled_is_refused() -> None:
    async def begin_of(topic: str, partition: int) -> int:
        assert (topic, partition) == HERE
        return 8

    positions = Shaky(away=0)
    with pytest.raises(Refused, match=r"begins at offset 8, .* handled up to 0 only: .* `eunoe rebuild") as found:
        await PartitionStart(detector_of(positions), 1, begin_of=begin_of).start(*HERE, 8)
    assert code_of(found.value) in HOPELESS
    await positions.store(READER, "", position(1, 7), {})
    assert await PartitionStart(detector_of(positions), 1, begin_of=begin_of).start(*HERE, 8) is None
    assert await PartitionStart(detector_of(positions), 2, begin_of=begin_of).start(*HERE, 8) == 0


async def test_a_log_that_ends_before_what_was_handled_is_refused_with_the_setting_that_resolves_it() -> None:
    ends: list[int] = []

    async def end_at_least(topic: str, partition: int, least: int) -> int:
        assert (topic, partition, least) == (*HERE, 8)
        return ends.pop()

    positions = Shaky(away=0)
    await positions.store(READER, "", position(1, 7), {})
    start = PartitionStart(detector_of(positions), 1, end_at_least).start
    ends.append(8)
    assert await start(*HERE, 8) is None
    ends.append(5)
    with pytest.raises(
        Refused, match=r"conversations/2 ends at offset 5, .* handled up to 8 .* EUNOE_EPOCH=2"
    ) as found:
        await start(*HERE, 5)
    assert code_of(found.value) in HOPELESS, "it is not started again before somebody acts"
    assert await PartitionStart(detector_of(positions), 2, end_at_least).start(*HERE, 5) == 0, "as the setting says"


class Log(LogEnds):
    """A log of two partitions; ``told`` is what a busy broker says of their ends, ``exact`` what their leaders say."""

    def __init__(self, told: dict[tuple[str, int], int], exact: dict[tuple[str, int], list[int]]) -> None:
        super().__init__(KafkaSettings(bootstrap="nowhere:1"), TopicNames())
        self._watch = self
        self.told, self.exact = told, exact

    async def ends(self, partitions: Iterable[tuple[str, int]]) -> dict[tuple[str, int], int]:
        return {partition: self.told[partition] for partition in partitions}

    async def exact_end(self, at: TopicPartition) -> int:
        left = self.exact["conversations", at.partition]
        return left.pop(0) if len(left) > 1 else left[0]


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("eunoe.deploy.process.positions.SETTLE_S", (0.0, 0.0))


async def test_a_log_that_loses_its_end_under_a_living_worker_ends_it() -> None:
    """As after an unclean election, or a broker over an older copy of its disk: the group notices nothing."""
    other = ("conversations", 5)
    log = Log({HERE: 6, other: 20}, {HERE: [8], other: [20]})
    watch = log_watch(log.shorter, lambda: {HERE: 8, other: 17}, 1)
    await watch.run()
    log.told[HERE], log.exact[HERE] = 7, [7]
    with pytest.raises(Refused, match=r"conversations/2 ends at offset 7, .* up to 8 .* EUNOE_EPOCH=2") as found:
        await watch.run()
    assert code_of(found.value) in HOPELESS


@pytest.mark.parametrize(("told", "end"), [([6, 8], 8), ([6, 7, 8], 8), ([6, 7, 7], 7)])
async def test_an_end_that_a_new_leader_does_not_know_yet_is_waited_for(told: list[int], end: int) -> None:
    log = Log({HERE: 5}, {HERE: told})
    assert await log.end_at_least(*HERE, 8) == end


async def test_ledgers_that_were_seen_are_bounded_in_bytes_whatever_the_number_of_partitions_and_stages() -> None:
    seen = seen_ledgers()
    positions = MemoryHandledPositions(MemoryStore())
    stages = [LossDetector(STAGES[name], positions, 48, StageMeter(), seen) for name in ("segment", "update", "tree")]
    entries = 3 * 20_000
    for number in range(entries // 3):
        for detector, name in zip(stages, ("segment", "update", "tree"), strict=True):
            detector.note(Scope(name, f"default/user-{number:08d}-of-the-shop"), 5, 0, sent=True)
    held, most = cache_sizes()["ledgers seen"]
    assert most // 2 < held <= most
    assert seen.get(Scope("segment", "default/user-00000000-of-the-shop")) is None
    assert seen.get(Scope("tree", f"default/user-{entries // 3 - 1:08d}-of-the-shop")) is not None


async def test_what_was_seen_of_a_partition_before_it_was_assigned_anew_counts_no_more() -> None:
    positions = MemoryHandledPositions(MemoryStore())
    detector = LossDetector(STAGES["segment"], positions, 1, StageMeter())
    scope = Scope("segment", "default/c")
    await detector.begin("sessions", 0, {}, 0)
    detector.note(scope, 5, 0, sent=True)
    with pytest.raises(WritesLost):
        await detector.check(scope, Ledger(applied=4))
    await detector.begin("sessions", 0, {}, 0)
    await detector.check(scope, Ledger(applied=4))
