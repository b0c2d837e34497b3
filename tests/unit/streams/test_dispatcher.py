"""Keyed dispatch: order, bounds, acks and rebalances, over random interleavings."""

import asyncio
import itertools
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import SecretStr, ValidationError

from eunoe.deploy.process.stages import ASKED_BYTES
from eunoe.schemas.errors import Unavailable
from eunoe.streams.group.dispatcher import Dispatcher
from eunoe.streams.group.handlers import one_by_one
from eunoe.streams.group.limits import DispatchLimits
from eunoe.streams.group.offset_tracker import OffsetTracker
from eunoe.streams.record import Lease, Record, Revoked
from eunoe.streams.settings import KafkaSettings, Security, client_options, partition_of

TOPIC = "conversations"


def record(offset: int, key: bytes | None = b"k", partition: int = 0) -> Record:
    return Record(TOPIC, partition, offset, key, b"", 0)


async def settle(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not condition():  # noqa: ASYNC110 - it gives the loop one turn at a time
            await asyncio.sleep(0)


@dataclass
class World:
    """Records what handlers did, and checks what is acked meanwhile.

    ``turns`` is the duration of each record, in loop turns.
    """

    turns: dict[tuple[int, int], int] = field(default_factory=dict)
    started: list[Record] = field(default_factory=list)
    finished: set[tuple[int, int]] = field(default_factory=set)
    dispatcher: Dispatcher | None = None
    acks: dict[int, int] = field(default_factory=dict)
    """Partition → the newest acked offset that was seen."""
    faults: list[str] = field(default_factory=list)
    working: dict[bytes | int | None, int] = field(default_factory=lambda: defaultdict(int))
    most: int = 0
    most_of_a_key: int = 0

    async def handle(self, taken: Record, lease: Lease) -> None:
        key = taken.key if taken.key is not None else taken.partition
        self.started.append(taken)
        self.working[key] += 1
        self.most = max(self.most, sum(self.working.values()))
        self.most_of_a_key = max(self.most_of_a_key, self.working[key])
        try:
            for _ in range(self.turns.get((taken.partition, taken.offset), 0)):
                await asyncio.sleep(0)
                self.note_acks()
        finally:
            self.working[key] -= 1
        self.finished.add((taken.partition, taken.offset))

    def note_acks(self) -> None:
        """Acks cover finished records only, and their offsets rise."""
        for (_, partition), offset in (self.dispatcher.acked() if self.dispatcher else {}).items():
            if offset < self.acks.get(partition, -1):
                self.faults.append(f"{partition}: acked {offset} after {self.acks[partition]}")
            self.acks[partition] = offset
            begun = {(one.partition, one.offset) for one in self.started}
            unfinished = [place for place in begun - self.finished if place[0] == partition and place[1] <= offset]
            if unfinished:
                self.faults.append(f"{partition}: acked {offset} before {unfinished}")

    def check_acks(self, taken: list[Record]) -> None:
        self.note_acks()
        assert self.faults == []
        for one in taken:
            if one.offset <= self.acks.get(one.partition, -1):
                assert (one.partition, one.offset) in self.finished


keys = st.one_of(st.none(), st.sampled_from([b"a", b"b", b"c", b"d"]))
records_of_keys = st.lists(st.tuples(keys, st.integers(0, 2), st.integers(0, 6)), max_size=60)


def make(world: World, drawn: list[tuple[bytes | None, int, int]]) -> list[Record]:
    offsets: dict[int, int] = defaultdict(int)
    made = []
    for key, partition, turns in drawn:
        # log compaction and markers leave holes
        offsets[partition] += 1 + turns % 2
        made.append(record(offsets[partition], key, partition))
        world.turns[partition, offsets[partition]] = turns
    return made


@given(drawn=records_of_keys, concurrency=st.integers(1, 5), queued=st.integers(1, 5), batch=st.integers(1, 4))
@settings(max_examples=150, deadline=None)
def test_order_bounds_and_acks(
    drawn: list[tuple[bytes | None, int, int]], concurrency: int, queued: int, batch: int
) -> None:
    async def run() -> None:
        world = World()
        taken = make(world, drawn)
        limits = DispatchLimits(concurrency, batch, queued, window=8)
        dispatcher = world.dispatcher = Dispatcher(one_by_one(world.handle), limits=limits)
        for one in taken:
            assert await dispatcher.submit(one)
            assert dispatcher.in_work <= concurrency * batch
            assert dispatcher.queued <= queued
            assert dispatcher.in_work + dispatcher.queued <= concurrency + queued
            assert dispatcher.outstanding(TOPIC, one.partition) <= 8
        await settle(lambda: len(world.finished) == len(taken))
        await dispatcher.revoke(1)
        world.check_acks(taken)
        assert world.most <= concurrency
        assert world.most_of_a_key <= 1
        ends = {(one.topic, one.partition): one.offset for one in taken}
        assert dispatcher.acked() == ends
        for key in {one.key if one.key is not None else one.partition for one in taken}:
            of_key = [o for o in world.started if (o.key if o.key is not None else o.partition) == key]
            assert of_key == [o for o in taken if (o.key if o.key is not None else o.partition) == key]

    asyncio.run(run())


@given(
    drawn=records_of_keys,
    cut=st.integers(0, 60),
    spin=st.integers(0, 10),
    grace=st.sampled_from([0.0, 1.0]),
    hooked=st.booleans(),
    batch=st.integers(1, 3),
    interval=st.sampled_from([0.0, 0.02]),
)
@settings(max_examples=150, deadline=None)
def test_a_rebalance_at_any_moment(
    drawn: list[tuple[bytes | None, int, int]],
    cut: int,
    spin: int,
    grace: float,
    hooked: bool,
    batch: int,
    interval: float,
) -> None:
    async def run() -> None:
        world = World()
        taken = make(world, drawn)
        before: list[tuple[int, int]] = []

        async def before_ack(topic: str, partition: int, offset: int, lease: Lease) -> None:
            await asyncio.sleep(0)
            before.append((partition, offset))

        limits = DispatchLimits(concurrency=3, batch=batch, queued=4, ack_interval_s=interval)
        dispatcher = world.dispatcher = Dispatcher(
            one_by_one(world.handle), before_ack=before_ack if hooked else None, limits=limits
        )
        feeding = asyncio.create_task(_feed(dispatcher, taken[:cut]))
        for _ in range(spin):
            await asyncio.sleep(0)
        await dispatcher.revoke(grace)
        await feeding
        assert dispatcher.in_work == 0
        begun = len(world.started)
        world.check_acks(taken)
        acked = dispatcher.acked()
        if grace:
            assert len(world.started) == len(world.finished), "what was started is finished"
        assert not await dispatcher.submit(record(10_000))
        # the next owner, here the same dispatcher, begins after what was acked
        dispatcher.resume()
        again = [one for one in taken if one.offset > acked.get((one.topic, one.partition), -1)]
        await _feed(dispatcher, again)
        ends = {(one.topic, one.partition): one.offset for one in again}
        await settle(lambda: dispatcher.acked() == ends)
        assert world.started[begun:] and len(world.started) - begun == len(again) if again else True
        assert {(one.partition, one.offset) for one in taken} <= world.finished
        world.check_acks(again)
        if hooked:
            assert {(partition, offset) for (_, partition), offset in dispatcher.acked().items()} <= set(before)
        await dispatcher.revoke(0)

    asyncio.run(run())


@given(drawn=records_of_keys, steps=st.lists(st.integers(0, 3), max_size=60), spin=st.integers(0, 10))
@settings(max_examples=150, deadline=None)
def test_offsets_without_a_record_are_acked_once_all_before_them_are_done(
    drawn: list[tuple[bytes | None, int, int]], steps: list[int], spin: int
) -> None:
    async def run() -> None:
        world = World()
        taken = make(world, drawn)
        dispatcher = world.dispatcher = Dispatcher(one_by_one(world.handle), limits=DispatchLimits(concurrency=3))
        for one, step in itertools.zip_longest(taken, steps[: len(taken)], fillvalue=0):
            dispatcher.pass_over(one.topic, one.partition, one.offset)
            assert await dispatcher.submit(one)
            for _ in range(step):
                await asyncio.sleep(0)
            world.note_acks()
        ends = {(one.topic, one.partition): one.offset + 2 for one in taken}
        for _ in range(spin):
            await asyncio.sleep(0)
        for (topic, partition), end in ends.items():
            dispatcher.pass_over(topic, partition, end + 1)
        world.check_acks(taken)
        await settle(lambda: len(world.finished) == len(taken))
        await settle(lambda: dispatcher.acked() == ends)
        await dispatcher.revoke(0)
        for topic, partition in ends:
            dispatcher.pass_over(topic, partition, 10_000)
        assert dispatcher.acked() == ends

    asyncio.run(run())


async def _feed(dispatcher: Dispatcher, records: list[Record]) -> None:
    for one in records:
        if not await dispatcher.submit(one):
            return


async def test_waiting_records_of_a_key_are_handled_as_one_batch() -> None:
    runs: list[list[int]] = []
    go = asyncio.Event()

    async def handle(records: Sequence[Record], lease: Lease) -> None:
        runs.append([taken.offset for taken in records])
        await go.wait()

    dispatcher = Dispatcher(handle, limits=DispatchLimits(batch=3))
    for offset, key in enumerate([b"a", b"b", b"a", b"a", b"b", b"a", b"a"]):
        await dispatcher.submit(record(offset, key))
    assert (dispatcher.in_work, dispatcher.queued) == (2, 5)
    await settle(lambda: len(runs) == 2)
    go.set()
    await settle(lambda: dispatcher.acked() == {(TOPIC, 0): 6})
    assert runs == [[0], [1], [2, 3, 5], [4], [6]]


async def test_new_keys_alternate_with_keys_that_have_records_waiting() -> None:
    world = World()
    dispatcher = Dispatcher(one_by_one(world.handle), limits=DispatchLimits(concurrency=1, queued=16))
    for offset in range(6):
        await dispatcher.submit(record(offset, b"imports"))
    for offset, key in enumerate([b"x", b"y"], 6):
        await dispatcher.submit(record(offset, key))
    await settle(lambda: len(world.finished) == 8)
    keys_ = [taken.key for taken in world.started]
    assert keys_.index(b"x") <= 2
    assert keys_.index(b"y") <= 4


async def test_under_overload_few_keys_are_in_work_and_they_make_progress() -> None:
    world = World(turns={(0, offset): 5 for offset in range(12)})
    overload = True
    limits = DispatchLimits(concurrency=8)
    dispatcher = Dispatcher(one_by_one(world.handle), backpressure=lambda: 2 if overload else None, limits=limits)
    for offset in range(12):
        await dispatcher.submit(record(offset, bytes([offset])))
        assert dispatcher.in_work <= 2
    await settle(lambda: len(world.finished) >= 4)
    assert world.most == 2
    overload = False
    await settle(lambda: len(world.finished) == 12)
    assert world.most > 2


def _is_ask(taken: Record) -> bool:
    return taken.value == b"ask"


async def test_an_ask_goes_before_an_import_that_stands_before_it_and_its_offset_is_not_acked() -> None:
    world = World(turns={(0, offset): 3 for offset in range(1_000)})
    limits = DispatchLimits(concurrency=2, queued=4, window=8, ahead_bytes=1_000_000)
    dispatcher = Dispatcher(one_by_one(world.handle), urgent=_is_ask, limits=limits)
    for offset in range(600):
        assert await dispatcher.submit(record(offset, bytes([offset % 200])))
    await dispatcher.submit(record(600, b"asks"))
    await dispatcher.submit(replace(record(601, b"asks"), value=b"ask"))
    assert dispatcher.queued > 590
    await settle(lambda: (0, 601) in world.finished)
    assert len(world.started) < 20
    assert [taken.offset for taken in world.started if taken.key == b"asks"] == [600, 601]
    assert dispatcher.acked()[TOPIC, 0] < 20
    await settle(lambda: dispatcher.acked() == {(TOPIC, 0): 601})
    assert dispatcher.held_bytes == 0


@given(drawn=records_of_keys, ahead=st.integers(0, 5_000))
@settings(max_examples=50, deadline=None)
def test_what_is_read_ahead_is_bounded_in_bytes(drawn: list[tuple[bytes | None, int, int]], ahead: int) -> None:
    async def run() -> None:
        world = World()
        taken = [replace(one, value=b"x" * 100) for one in make(world, drawn)]
        limits = DispatchLimits(concurrency=1, queued=1, window=1, ahead_bytes=ahead)
        dispatcher = world.dispatcher = Dispatcher(one_by_one(world.handle), urgent=_is_ask, limits=limits)
        most = 100 + 390 + 1_000  # value, what is noted of a record, its key
        for one in taken:
            assert await dispatcher.submit(one)
            assert dispatcher.held_bytes <= max(ahead + most, 2 * most)
        await settle(lambda: len(world.finished) == len(taken))
        world.check_acks(taken)
        assert dispatcher.held_bytes == 0

    asyncio.run(run())


@given(sizes=st.lists(st.integers(0, 5_000), min_size=1, max_size=40), queued=st.integers(1, 9_000))
@settings(max_examples=50, deadline=None)
def test_few_large_records_wait_or_are_in_work_and_one_of_any_size_is_taken(sizes: list[int], queued: int) -> None:
    async def run() -> None:
        world = World()
        taken = [replace(record(offset, bytes([offset])), value=bytes(size)) for offset, size in enumerate(sizes)]
        limits = DispatchLimits(concurrency=64, queued=64, queued_bytes=queued)
        dispatcher = world.dispatcher = Dispatcher(one_by_one(world.handle), limits=limits)
        largest, tracked = max(sizes) + 256 + 1_000, 70 * len(sizes)
        for one in taken:
            assert await dispatcher.submit(one)
            assert dispatcher.in_work + dispatcher.queued == 1 or dispatcher.held_bytes < queued + largest + tracked
        await settle(lambda: len(world.finished) == len(taken))
        assert dispatcher.held_bytes == 0

    asyncio.run(run())


async def test_asks_of_others_are_read_behind_400_of_the_largest_in_one_conversation() -> None:
    handled, go = list[bytes | None](), asyncio.Event()

    async def handle(given: Record, _: Lease) -> None:
        if given.key == b"greedy":
            await go.wait()
        handled.append(given.key)

    dispatcher = Dispatcher(one_by_one(handle), limits=DispatchLimits(queued_bytes=ASKED_BYTES))
    async with asyncio.timeout(10):
        for offset in range(400):
            await dispatcher.submit(replace(record(offset, b"greedy"), value=bytes(32_000)))
        await dispatcher.submit(record(400, b"anna"))
    await settle(lambda: handled == [b"anna"])
    go.set()
    await settle(lambda: len(handled) == 401)


async def test_the_stored_form_of_a_sealed_record_counts_too() -> None:
    dispatcher = Dispatcher(one_by_one(World(turns={(0, 0): 9}).handle))
    sealed = record(0, b"anna")
    await dispatcher.submit(replace(sealed, stored=replace(sealed, value=b"x" * 700)))
    assert dispatcher.held_bytes > 2_000


async def test_waiting_records_of_a_key_share_its_bytes() -> None:
    keys: list[bytes | None] = []
    go = asyncio.Event()

    async def handle(taken: Record, lease: Lease) -> None:
        await go.wait()
        keys.append(taken.key)

    dispatcher = Dispatcher(one_by_one(handle), limits=DispatchLimits(concurrency=1, queued=8))
    for offset in range(4):
        await dispatcher.submit(record(offset, bytes(bytearray(b"anna"))))
    go.set()
    await settle(lambda: len(keys) == 4)
    assert keys == [b"anna"] * 4
    assert len({id(key) for key in keys}) < 4


async def test_under_overload_an_ask_does_not_wait_for_the_keys_in_work() -> None:
    go = asyncio.Event()
    started: list[bytes | None] = []

    async def handle(taken: Record, lease: Lease) -> None:
        started.append(taken.key)
        await go.wait()

    limits = DispatchLimits(concurrency=8)
    dispatcher = Dispatcher(one_by_one(handle), backpressure=lambda: 1, urgent=_is_ask, limits=limits)
    for offset in range(4):
        await dispatcher.submit(record(offset, bytes([offset])))
    await dispatcher.submit(replace(record(4, b"asks"), value=b"ask"))
    await settle(lambda: b"asks" in started)
    assert len(started) <= 3
    go.set()


async def test_large_batches_in_work_leave_less_room_to_wait() -> None:
    gates: dict[bytes, asyncio.Event] = defaultdict(asyncio.Event)
    runs: list[int] = []

    async def handle(records: Sequence[Record], lease: Lease) -> None:
        assert records[0].key is not None
        runs.append(len(records))
        await gates[records[0].key].wait()
        gates[records[0].key].clear()

    dispatcher = Dispatcher(handle, limits=DispatchLimits(concurrency=2, batch=4, queued=4))
    taken = [record(offset, b"ab"[offset % 2 :][:1]) for offset in range(20)]
    feeding = asyncio.create_task(_feed(dispatcher, taken))
    await settle(lambda: dispatcher.queued == 4)
    gates[b"a"].set()
    gates[b"b"].set()
    await settle(lambda: len(runs) == 4)
    for _ in range(20):
        await asyncio.sleep(0)
    assert dispatcher.in_work + dispatcher.queued == 6
    while not feeding.done() or dispatcher.in_work:
        for gate in tuple(gates.values()):
            gate.set()
        await asyncio.sleep(0)
    assert dispatcher.acked() == {(TOPIC, 0): 19}
    assert sum(runs) == 20


async def test_after_an_overload_no_record_waits_for_those_in_work() -> None:
    started: list[int] = []
    overload, go = True, asyncio.Event()

    async def handle(taken: Record, lease: Lease) -> None:
        started.append(taken.offset)
        await go.wait()

    limits = DispatchLimits(concurrency=4)
    dispatcher = Dispatcher(one_by_one(handle), backpressure=lambda: 1 if overload else None, limits=limits)
    for offset in range(6):
        await dispatcher.submit(record(offset, bytes([offset])))
    await settle(lambda: started == [0])
    overload = False
    async with asyncio.timeout(5):
        while len(started) < 4:  # noqa: ASYNC110 - it waits for a timer of the dispatcher
            await asyncio.sleep(0.01)
    go.set()
    await settle(lambda: len(started) == 6)
    await dispatcher.revoke(1)


async def test_a_batch_that_raises_revoked_stays_unacked() -> None:
    async def handle(records: Sequence[Record], lease: Lease) -> None:
        if len(records) > 1:
            raise Revoked

    stuck: list[tuple[str, int]] = []
    dispatcher = Dispatcher(handle, on_revoked=lambda *place: stuck.append(place), limits=DispatchLimits(batch=8))
    for offset in range(4):
        await dispatcher.submit(record(offset))
    await settle(lambda: bool(stuck) and not dispatcher.in_work)
    assert stuck == [(TOPIC, 0)]
    assert dispatcher.acked() == {(TOPIC, 0): 0}


async def test_a_stale_completion_acks_nothing_in_the_next_assignment() -> None:
    go = asyncio.Event()

    async def stubborn(taken: Record, lease: Lease) -> None:
        while not go.is_set():
            try:
                await go.wait()
            except asyncio.CancelledError:
                continue

    dispatcher = Dispatcher(one_by_one(stubborn))
    await dispatcher.submit(record(0))
    await asyncio.sleep(0)
    await dispatcher.revoke(0)
    dispatcher.resume()
    await dispatcher.submit(record(1, b"other"))
    assert dispatcher.in_work == 2
    go.set()
    await settle(lambda: dispatcher.in_work == 0)
    assert dispatcher.acked() == {(TOPIC, 0): 1}


async def test_acks_of_an_earlier_assignment_are_not_reported_again() -> None:
    world = World()
    dispatcher = Dispatcher(one_by_one(world.handle))
    for offset in range(3):
        await dispatcher.submit(record(offset))
    await settle(lambda: dispatcher.acked() == {(TOPIC, 0): 2})
    await dispatcher.revoke(1)
    dispatcher.resume()
    assert dispatcher.acked() == {}
    await dispatcher.submit(record(1))
    await settle(lambda: dispatcher.acked() == {(TOPIC, 0): 1})


async def test_submit_waits_for_room_and_returns_at_a_rebalance() -> None:
    async def forever(taken: Record, lease: Lease) -> None:
        await lease.pause(1000)

    dispatcher = Dispatcher(one_by_one(forever), limits=DispatchLimits(concurrency=1, queued=1))
    assert await dispatcher.submit(record(0))
    assert await dispatcher.submit(record(1))
    third = asyncio.create_task(dispatcher.submit(record(2)))
    await asyncio.sleep(0.01)
    assert not third.done()
    await dispatcher.revoke(5)
    assert await third is False
    assert dispatcher.acked() == {}


async def test_a_pause_ends_at_once_when_the_lease_is_revoked() -> None:
    seen: list[str] = []

    async def handle(taken: Record, lease: Lease) -> None:
        await lease.pause(0)
        seen.append("slept")
        try:
            await lease.pause(1000)
        except Revoked:
            assert lease.revoked
            seen.append("gave way")
            raise

    dispatcher = Dispatcher(one_by_one(handle))
    await dispatcher.submit(record(0))
    await settle(lambda: bool(seen))
    await dispatcher.revoke(5)
    assert seen == ["slept", "gave way"]
    assert dispatcher.acked() == {}


async def test_a_returned_record_holds_back_its_key_and_the_acks_of_its_partition() -> None:
    handled: list[int] = []
    stuck: list[tuple[str, int]] = []

    async def handle(taken: Record, lease: Lease) -> None:
        if taken.offset == 1:
            raise Revoked
        handled.append(taken.offset)

    dispatcher = Dispatcher(one_by_one(handle), on_revoked=lambda *place: stuck.append(place))
    for offset, key in enumerate((b"a", b"a", b"a", b"b")):
        await dispatcher.submit(record(offset, key))
    await settle(lambda: bool(stuck))
    await dispatcher.submit(record(4, b"a"))
    await dispatcher.submit(record(5, b"b"))
    await settle(lambda: 5 in handled)
    assert sorted(handled) == [0, 3, 5]
    assert dispatcher.acked() == {(TOPIC, 0): 0}
    assert stuck == [(TOPIC, 0)]


@pytest.mark.parametrize(("error", "is_traced"), [(RuntimeError("broken"), True), (Unavailable("away"), False)])
async def test_only_a_bug_is_logged_with_its_place_in_the_code(
    error: Exception, is_traced: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async def handle(taken: Record, lease: Lease) -> None:
        raise error

    dispatcher = Dispatcher(one_by_one(handle))
    await dispatcher.submit(record(1))
    assert await dispatcher.failed() is error
    (logged,) = caplog.records
    assert repr(error) in logged.getMessage()
    assert bool(logged.exc_info) is is_traced


@pytest.mark.parametrize("error", [RuntimeError("broken"), asyncio.CancelledError()])
async def test_any_other_error_ends_the_dispatcher(error: BaseException) -> None:
    async def handle(taken: Record, lease: Lease) -> None:
        if taken.offset == 1:
            raise error

    dispatcher = Dispatcher(one_by_one(handle))
    for offset in range(3):
        await dispatcher.submit(record(offset))
    assert await dispatcher.failed() is error
    assert not dispatcher.taking
    assert not await dispatcher.submit(record(3))
    await dispatcher.revoke(1)
    assert dispatcher.acked() == {(TOPIC, 0): 0}


async def test_a_failing_before_ack_ends_the_dispatcher_and_nothing_is_acked() -> None:
    async def handle(taken: Record, lease: Lease) -> None: ...

    async def before_ack(topic: str, partition: int, offset: int, lease: Lease) -> None:
        raise OSError("store is down")

    dispatcher = Dispatcher(one_by_one(handle), before_ack=before_ack)
    await dispatcher.submit(record(0))
    assert str(await dispatcher.failed()) == "store is down"
    assert dispatcher.acked() == {}


async def test_a_before_ack_that_waits_is_revoked_and_nothing_is_acked() -> None:
    waits = asyncio.Event()

    async def handle(taken: Record, lease: Lease) -> None: ...

    async def before_ack(topic: str, partition: int, offset: int, lease: Lease) -> None:
        waits.set()
        await lease.pause(3600)

    dispatcher = Dispatcher(one_by_one(handle), before_ack=before_ack)
    await dispatcher.submit(record(0))
    await waits.wait()
    await dispatcher.revoke(grace_s=30)
    assert dispatcher.acked() == {}
    dispatcher.resume()
    await dispatcher.submit(record(0))
    await settle(lambda: dispatcher.in_work == 0)


async def test_acks_due_during_before_ack_are_merged() -> None:
    calls: list[int] = []
    gate = asyncio.Event()

    async def handle(taken: Record, lease: Lease) -> None: ...

    async def before_ack(topic: str, partition: int, offset: int, lease: Lease) -> None:
        calls.append(offset)
        await gate.wait()

    dispatcher = Dispatcher(one_by_one(handle), before_ack=before_ack)
    await dispatcher.submit(record(0))
    await settle(lambda: calls == [0])
    for offset in range(1, 20):
        await dispatcher.submit(record(offset, b"%d" % offset))
    await settle(lambda: dispatcher.in_work == 0 and not dispatcher.outstanding(TOPIC, 0))
    assert dispatcher.acked() == {}
    gate.set()
    await settle(lambda: dispatcher.acked() == {(TOPIC, 0): 19})
    assert calls == [0, 19]


async def test_acks_between_two_rounds_are_merged_and_those_of_a_round_begin_together() -> None:
    calls: list[tuple[int, int]] = []

    async def handle(taken: Record, lease: Lease) -> None: ...

    async def before_ack(topic: str, partition: int, offset: int, lease: Lease) -> None:
        calls.append((partition, offset))

    limits = DispatchLimits(ack_interval_s=3600)
    dispatcher = Dispatcher(one_by_one(handle), before_ack=before_ack, limits=limits)
    await dispatcher.submit(record(0))
    await settle(lambda: dispatcher.acked() == {(TOPIC, 0): 0})
    for offset in range(1, 20):
        await dispatcher.submit(record(offset, b"%d" % offset, partition=offset % 2))
    await settle(lambda: not any(dispatcher.outstanding(TOPIC, number) for number in (0, 1)))
    assert calls == [(0, 0)], "the first waits for nothing, all others for the next round"
    await dispatcher.revoke(grace_s=30)
    assert dispatcher.acked() == {(TOPIC, 0): 18, (TOPIC, 1): 19}
    assert sorted(calls[1:]) == [(0, 18), (1, 19)]


async def test_records_that_finish_during_a_revocation_are_acked_without_a_round() -> None:
    begun, gate = asyncio.Event(), asyncio.Event()

    async def handle(taken: Record, lease: Lease) -> None:
        if taken.offset:
            begun.set()
            await gate.wait()

    async def before_ack(topic: str, partition: int, offset: int, lease: Lease) -> None:
        await asyncio.sleep(0)

    limits = DispatchLimits(ack_interval_s=3600)
    dispatcher = Dispatcher(one_by_one(handle), before_ack=before_ack, limits=limits)
    await dispatcher.submit(record(0))
    await settle(lambda: dispatcher.acked() == {(TOPIC, 0): 0})
    await dispatcher.submit(record(1))
    await begun.wait()
    revoking = asyncio.create_task(dispatcher.revoke(grace_s=30))
    await asyncio.sleep(0)
    gate.set()
    await revoking
    assert dispatcher.acked() == {(TOPIC, 0): 1}


async def test_a_barrier_sees_everything_before_it_and_nothing_after_it() -> None:
    finished: list[int] = []

    async def handle(taken: Record, lease: Lease) -> None:
        for _ in range(20 - taken.offset):
            await asyncio.sleep(0)
        finished.append(taken.offset)

    dispatcher = Dispatcher(one_by_one(handle))
    for offset in range(10):
        await dispatcher.submit(record(offset, b"%d" % offset), barrier=offset == 5)
    await settle(lambda: len(finished) == 10)
    assert set(finished[:5]) == {0, 1, 2, 3, 4}
    assert finished[5] == 5


async def test_a_redelivered_record_is_not_taken_twice() -> None:
    world = World()
    dispatcher = Dispatcher(one_by_one(world.handle))
    assert await dispatcher.submit(record(3))
    assert not await dispatcher.submit(record(3))
    assert not await dispatcher.submit(record(2))
    await settle(lambda: dispatcher.acked() == {(TOPIC, 0): 3})
    assert len(world.started) == 1


@given(st.permutations(range(12)))
def test_the_offset_tracker_releases_in_order(order: list[int]) -> None:
    gate = OffsetTracker()
    for offset in range(12):
        assert gate.enter(offset)
    done: set[int] = set()
    passed = -1
    for offset in order:
        done.add(offset)
        newest = gate.leave(offset)
        passed = passed if newest is None else newest
        assert set(range(passed + 1)) <= done
        assert passed + 1 not in done
        assert gate.outstanding == 11 - passed
    assert passed == 11


def test_the_oldest_record_in_work_is_known_by_its_time():
    tracker = OffsetTracker()
    assert tracker.oldest_ms is None
    for offset, at_ms in ((3, 100), (4, 200), (5, 300)):
        tracker.enter(offset, at_ms)
    tracker.leave(4)
    assert tracker.oldest_ms == 100
    tracker.leave(3)
    assert tracker.oldest_ms == 300


# ---- the Java client's own vectors (org.apache.kafka.common.utils.UtilsTest, murmur2)
@pytest.mark.parametrize(
    ("key", "expected"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_partitions_are_those_of_the_java_client(key: bytes, expected: int) -> None:
    for partitions in (1, 7, 12, 1 << 31):
        assert partition_of(key, partitions) == (expected & 0x7FFFFFFF) % partitions


def test_a_password_is_in_the_client_options_and_nowhere_else() -> None:
    kafka = KafkaSettings(
        bootstrap="one:9092, two:9093",
        security_protocol=Security.SASL_SSL,
        sasl_username="ann",
        sasl_password=SecretStr("hunter2"),
    )
    options = client_options(kafka)
    assert options["sasl_plain_password"] == "hunter2"
    assert options["bootstrap_servers"] == ["one:9092", "two:9093"]
    assert options["ssl_context"].check_hostname
    assert "hunter2" not in repr(kafka) + str(kafka) + kafka.model_dump_json()
    assert "ssl_context" not in client_options(KafkaSettings())


@pytest.mark.parametrize(
    "wrong",
    [
        {"bootstrap": "nowhere"},
        {"bootstrap": ""},
        {"security_protocol": "SASL_SSL"},
        {"session_timeout_ms": 6000, "heartbeat_interval_ms": 5000},
        {"fetch_wait_ms": 40_000},
        {"max_request_bytes": 1_048_576},
        {"surprise": 1},
    ],
)
def test_settings_that_cannot_work_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        KafkaSettings.model_validate(wrong)


async def test_a_before_ack_that_returns_its_records_has_the_partition_read_again() -> None:
    stuck: list[tuple[str, int]] = []

    async def handle(taken: Record, lease: Lease) -> None: ...

    async def before_ack(topic: str, partition: int, offset: int, lease: Lease) -> None:
        raise Revoked

    dispatcher = Dispatcher(one_by_one(handle), before_ack=before_ack, on_revoked=lambda *place: stuck.append(place))
    await dispatcher.submit(record(0))
    await settle(lambda: bool(stuck))
    assert stuck == [(TOPIC, 0)]
    assert dispatcher.acked() == {}
    assert dispatcher.failure is None
