"""Stage apps, publisher and admin on a real broker."""

import asyncio
import contextlib
import os
import signal
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.errors import IllegalStateError, KafkaConnectionError

from eunoe.deploy.local.ports import free_port
from eunoe.schemas.errors import Refused, Unavailable
from eunoe.streams.admin import check_partitions, create_topics, list_topics
from eunoe.streams.group.handlers import one_by_one
from eunoe.streams.group.limits import DispatchLimits
from eunoe.streams.group.stage_consumer import StageConsumer, stop_all
from eunoe.streams.group.stage_options import StageOptions
from eunoe.streams.lag import lag
from eunoe.streams.publisher import KafkaPublisher, MessageTooLarge
from eunoe.streams.reader import read_all
from eunoe.streams.record import Lease, Message, Record, Revoked
from eunoe.streams.settings import KafkaSettings, client_options, partition_of
from eunoe.streams.topics import Topic, TopicNames
from tests.support import given
from tests.support.session import SessionServers
from tests.support.tansu import settings

pytestmark = [pytest.mark.broker, pytest.mark.timeout(90)]

ROOT = Path(__file__).parents[2]
PARTITIONS = 4


@pytest.fixture(scope="module")
def bootstrap(servers: SessionServers) -> str:
    return servers.kafka


@pytest.fixture
def kafka(bootstrap: str) -> KafkaSettings:
    return settings(bootstrap)


@pytest.fixture
async def names(kafka: KafkaSettings) -> TopicNames:
    made = TopicNames(prefix=given.own_prefix())
    await create_topics(kafka, made, PARTITIONS)
    return made


@pytest.fixture
async def publisher(kafka: KafkaSettings, names: TopicNames) -> AsyncIterator[KafkaPublisher]:
    made = KafkaPublisher(kafka, names)
    await made.start()
    yield made
    await made.stop()


def talk(keys: int, each: int, first: int = 0) -> list[Message]:
    return [
        Message("conversations", f"k{key}".encode(), str(number).encode())
        for number in range(first, first + each)
        for key in range(keys)
    ]


async def eventually(condition: Callable[[], bool | Awaitable[bool]], seconds: float = 30.0) -> None:
    async with asyncio.timeout(seconds):
        while True:
            met = condition()
            if not isinstance(met, bool):
                met = await met
            if met:
                return
            await asyncio.sleep(0.02)


class Heard:
    """A handler that remembers."""

    def __init__(self) -> None:
        self.records: list[Record] = []

    async def __call__(self, record: Record, lease: Lease) -> None:
        await asyncio.sleep(0)
        self.records.append(record)

    def values(self) -> dict[bytes, list[int]]:
        by_key: dict[bytes, list[int]] = defaultdict(list)
        for record in self.records:
            by_key[record.key or b""].append(int(record.value))
        return by_key


async def test_topics_are_made_once_and_never_with_another_count(kafka: KafkaSettings, names: TopicNames) -> None:
    assert await create_topics(kafka, names, PARTITIONS) == []
    assert await check_partitions(kafka, names) == PARTITIONS
    assert {status.partitions for status in await list_topics(kafka, names)} == {PARTITIONS}
    with pytest.raises(Refused, match=r"asked for 8 partitions.*has 4"):
        await create_topics(kafka, names, 8)
    with pytest.raises(Refused, match="eunoe topics create"):
        await check_partitions(kafka, TopicNames(prefix="nobody"))
    assert {status.partitions for status in await list_topics(kafka, TopicNames(prefix="nobody"))} == {0}


@pytest.mark.needs("transactions")
async def test_ends_of_transactions_and_what_they_abort_are_no_lag(kafka: KafkaSettings, names: TopicNames) -> None:
    stages, heard = {"one": ["conversations"]}, Heard()
    topic = names.name("conversations")
    begin, positions = list[int](), list[int]()

    async def start_position(_topic: str, _partition: int, _offset: int) -> int | None:
        return min(begin, default=None)

    async def before_ack(_topic: str, _partition: int, offset: int, _lease: Lease) -> None:
        positions.append(offset)

    options = StageOptions(start_position=start_position, before_ack=before_ack)
    app = StageConsumer("one", stages["one"], kafka, names, one_by_one(heard), options)
    await app.start()
    producer = AIOKafkaProducer(**client_options(kafka), transactional_id=names.prefix)
    async with producer:
        async with producer.transaction():
            await producer.send_and_wait(topic, b"1", key=b"k", partition=0)
        with contextlib.suppress(ValueError):
            async with producer.transaction():
                await producer.send_and_wait(topic, b"2", key=b"k", partition=0)
                raise ValueError("take it back")
    await eventually(lambda: app.handled()["conversations", 0] == 4)
    begin.append(0)
    await app.read_again()
    await eventually(lambda: heard.values() == {b"k": [1, 1]})
    await eventually(lambda: app.handled()["conversations", 0] == 4)
    await app.stop(10)
    assert positions[-1] == 3
    assert await lag(kafka, names, stages) == {"one": 0}
    async with AIOKafkaProducer(**client_options(kafka)) as other:
        await other.send_and_wait(topic, b"3", key=b"k", partition=0)
    assert await lag(kafka, names, stages) == {"one": 1}


@pytest.mark.needs("append-time")
async def test_what_is_said_bears_the_time_of_the_log(kafka: KafkaSettings, names: TopicNames) -> None:
    async with AIOKafkaProducer(**client_options(kafka)) as producer:
        for topic in (Topic.CONVERSATIONS, Topic.SESSIONS):
            await producer.send_and_wait(names.name(topic), b"x", timestamp_ms=1000)
    (said,) = [record async for record in read_all(kafka, names, Topic.CONVERSATIONS)]
    (derived,) = [record async for record in read_all(kafka, names, Topic.SESSIONS)]
    assert abs(said.timestamp_ms / 1000 - time.time()) < 60
    assert derived.timestamp_ms == 1000


async def test_what_many_producers_begin_a_log_with_is_read_from_its_begin(kafka: KafkaSettings) -> None:
    names, partitions = TopicNames(prefix=given.own_prefix()), 24
    await create_topics(kafka, names, partitions)
    async with contextlib.AsyncExitStack() as closing:
        publishers = [KafkaPublisher(kafka, names) for _ in range(8)]
        for publisher in publishers:
            closing.push_async_callback(publisher.stop)
        await asyncio.gather(*(publisher.start() for publisher in publishers))
        first = [Message("conversations", b"k", b"0", partition=number) for number in range(partitions)]
        places = await asyncio.gather(*(publisher.publish([one]) for one in first for publisher in publishers))
    written = {(place.partition, place.offset) for found in places for place in found}
    read = [(record.partition, record.offset) async for record in read_all(kafka, names, "conversations")]
    assert len(read) == len(publishers) * partitions
    assert set(read) == written


async def test_unequal_counts_are_refused(kafka: KafkaSettings) -> None:
    prefix = given.own_prefix()
    await create_topics(kafka, TopicNames(prefix=prefix), 2)
    with pytest.raises(Refused):
        await create_topics(kafka, TopicNames(prefix=prefix, generation="v2"), 3)


async def test_nobody_there_is_unavailable() -> None:
    nowhere = settings(f"127.0.0.1:{free_port()}")
    with pytest.raises(Unavailable):
        await list_topics(nowhere, TopicNames())
    with pytest.raises(Unavailable):
        await KafkaPublisher(nowhere, TopicNames()).start()

    async def handle(record: Record, lease: Lease) -> None: ...

    with pytest.raises(Unavailable):
        await StageConsumer("s", ["sessions"], nowhere, TopicNames(), one_by_one(handle)).start()


async def test_several_stages_in_one_process(
    kafka: KafkaSettings, names: TopicNames, publisher: KafkaPublisher
) -> None:
    topics = {
        "one": ["conversations"],
        "two": ["conversations"],
        "three": ["sessions"],
        "four": ["segments", "replies"],
    }
    heard = {stage: Heard() for stage in topics}
    apps = {stage: StageConsumer(stage, topics[stage], kafka, names, one_by_one(heard[stage])) for stage in topics}
    before = time.monotonic()
    await asyncio.gather(*(app.start() for app in apps.values()))
    print(f"\nfour apps started in {time.monotonic() - before:.1f} s")
    assert apps["four"].assigned() == {(topic, n) for topic in topics["four"] for n in range(PARTITIONS)}
    sent = talk(keys=20, each=50)
    await publisher.publish(sent)
    await publisher.publish([Message("conversations", None, b"0", (("control", b"yes"),), partition=3)])
    await eventually(lambda: all(len(heard[stage].records) == len(sent) + 1 for stage in ("one", "two")))
    for stage in ("one", "two"):
        values = heard[stage].values()
        assert values.pop(b"") == [0]
        assert values == {f"k{key}".encode(): list(range(50)) for key in range(20)}
        for record in heard[stage].records:
            assert record.topic == "conversations"
            assert record.key is None or record.partition == partition_of(record.key, PARTITIONS)
            assert abs(record.timestamp_ms / 1000 - time.time()) < 60
    control = next(record for record in heard["one"].records if record.key is None)
    assert (control.partition, control.headers) == (3, {"control": b"yes"})
    await eventually(lambda: all(apps["one"].caught_up("conversations", n) for n in range(PARTITIONS)))
    await eventually(lambda: all(apps["three"].caught_up("sessions", n) for n in range(PARTITIONS)))
    await stop_all(apps.values(), 10)
    assert await lag(kafka, names, topics) == dict.fromkeys(topics, 0)
    assert not apps["one"].assigned()


async def test_latency(kafka: KafkaSettings, names: TopicNames, publisher: KafkaPublisher) -> None:
    waits: list[float] = []

    async def handle(record: Record, lease: Lease) -> None:
        waits.append(time.time() - float(record.value))

    app = StageConsumer("latency", ["conversations"], kafka, names, one_by_one(handle))
    await app.start()
    for number in range(100):
        await publisher.publish([Message("conversations", b"k%d" % number, repr(time.time()).encode())])
    await eventually(lambda: len(waits) == 100)
    milliseconds = sorted(1000 * wait for wait in waits)
    print(f"\nproduce -> handle: p50 {statistics.median(milliseconds):.1f} ms, p95 {milliseconds[94]:.1f} ms")
    await app.stop(10)


async def test_a_partition_is_read_again_from_its_start_position_and_the_others_go_on(
    kafka: KafkaSettings, names: TopicNames, publisher: KafkaPublisher
) -> None:
    heard, first = Heard(), dict[int, int]()

    async def start_position(topic: str, partition: int, offset: int) -> int | None:
        return first.get(partition)

    options = StageOptions(start_position=start_position)
    app = StageConsumer("again", ["conversations"], kafka, names, one_by_one(heard), options)
    await app.start()
    await publisher.publish([Message("conversations", b"a", str(n).encode(), partition=1) for n in range(30)])
    await publisher.publish([Message("conversations", b"b", str(n).encode(), partition=2) for n in range(30)])
    await eventually(lambda: len(heard.records) == 60)
    for begin, wanted in ((10, 80), (0, 110)):
        first[1] = begin
        await app.read_again()
        await eventually(lambda wanted=wanted: len(heard.records) >= wanted)
    await publisher.publish([Message("conversations", b"a", b"30", partition=1)])
    await eventually(lambda: len(heard.records) >= 111)
    assert heard.values() == {b"a": [*range(30), *range(10, 30), *range(31)], b"b": [*range(30)]}
    await app.stop(10)
    assert await lag(kafka, names, {"again": ["conversations"]}) == {"again": 0}


@pytest.mark.parametrize("fault", [None, IllegalStateError("No current assignment")])
async def test_what_comes_while_the_flow_is_stopped_comes_again(
    kafka: KafkaSettings,
    names: TopicNames,
    publisher: KafkaPublisher,
    fault: Exception | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    heard = Heard()
    app = StageConsumer("stopped", ["conversations"], kafka, names, one_by_one(heard))
    await app.start()
    try:
        await publisher.publish(talk(keys=3, each=2))
        await eventually(lambda: len(heard.records) == 6)
        consumer = app._consumer
        seek, sought = consumer.perform_seek, list[bool]()

        async def seen_seek() -> None:
            sought.append(True)
            if fault is not None and len(sought) == 1:
                raise fault  # as when the partitions move just then
            await seek()

        monkeypatch.setattr(consumer, "perform_seek", seen_seek)
        await consumer.force_commit()
        consumer.hold()
        await publisher.publish(talk(keys=3, each=2, first=2))
        await eventually(lambda: consumer._needs_seek)
        consumer.resume_flow()
        await eventually(lambda: len(heard.records) >= 12)
        assert len(sought) == (1 if fault is None else 2)
        assert heard.values() == {f"k{key}".encode(): [0, 1, 2, 3] for key in range(3)}
    finally:
        await app.stop(10.0)


async def test_where_to_start_is_looked_up_when_nothing_is_in_work_any_more_and_all_of_it_is_committed(
    kafka: KafkaSettings, names: TopicNames, publisher: KafkaPublisher
) -> None:
    at_work, let_go, looked_up = asyncio.Event(), asyncio.Event(), list[tuple[bool, int]]()
    own = partition_of(b"k0", PARTITIONS)

    async def start_position(topic: str, partition: int, offset: int) -> int | None:
        if partition == own:
            looked_up.append((let_go.is_set(), offset))
        return None

    async def handle(record: Record, lease: Lease) -> None:
        at_work.set()
        await let_go.wait()

    options = StageOptions(start_position=start_position)
    app = StageConsumer("reading-again", ["conversations"], kafka, names, one_by_one(handle), options)
    await app.start()
    try:
        await publisher.publish(talk(keys=1, each=1))
        await at_work.wait()
        looked_up.clear()
        consumer = app._consumer
        again = asyncio.create_task(app.read_again())
        await publisher.publish(talk(keys=1, each=1, first=1))
        await eventually(lambda: consumer._needs_seek or consumer._seeking.locked())
        let_go.set()
        await again
        assert looked_up
        assert all(free for free, _ in looked_up), "an ack of what was in work would hide what the state store lost"
        assert {offset for _, offset in looked_up} == {1}, "who takes a partition with an older commit lowers it"
    finally:
        await app.stop(10.0)


async def test_what_came_while_the_flow_was_stopped_comes_again_where_no_seek_follows(
    kafka: KafkaSettings, names: TopicNames, publisher: KafkaPublisher, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard = Heard()
    app = StageConsumer("astray", ["conversations"], kafka, names, one_by_one(heard))
    await app.start()
    try:
        await publisher.publish(talk(keys=3, each=2))
        await eventually(lambda: len(heard.records) == 6)
        consumer, faust = app._consumer, app._app
        seek, sought = consumer.perform_seek, list[bool]()

        async def failing_seek() -> None:
            sought.append(True)
            if len(sought) == 1:
                raise KafkaConnectionError("the coordinator is away")
            await seek()

        monkeypatch.setattr(consumer, "perform_seek", failing_seek)
        await consumer.force_commit()
        monkeypatch.setattr(faust, "rebalancing", True)
        consumer.hold()
        await publisher.publish(talk(keys=3, each=2, first=2))
        await eventually(lambda: consumer._needs_seek)
        consumer.resume_flow()
        await eventually(lambda: bool(sought))
        monkeypatch.setattr(faust, "rebalancing", False)
        await eventually(lambda: len(heard.records) >= 12)
        assert heard.values() == {f"k{key}".encode(): [0, 1, 2, 3] for key in range(3)}
    finally:
        await app.stop(10.0)


@pytest.mark.slow
async def test_who_had_no_partition_takes_nothing_before_it_knows_where_to_start(kafka: KafkaSettings) -> None:
    names = TopicNames(prefix=given.own_prefix())
    await create_topics(kafka, names, 1)
    early, lost = asyncio.Event(), asyncio.Event()

    async def start_position(topic: str, partition: int, offset: int) -> int | None:
        if not lost.is_set():
            return None
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(2.5):  # longer than the nap of one who has no partition
                await early.wait()
        return 5

    class Taking(Heard):
        async def __call__(self, record: Record, lease: Lease) -> None:
            await super().__call__(record, lease)
            if lost.is_set():
                early.set()

    heard = (Taking(), Taking())
    apps = [
        StageConsumer(
            "idle", ["conversations"], kafka, names, one_by_one(one), StageOptions(start_position=start_position)
        )
        for one in heard
    ]
    async with contextlib.AsyncExitStack() as closing:
        for app in apps:
            await app.start()
            closing.push_async_callback(app.stop, 10.0)
        await eventually(lambda: sorted(len(app.assigned()) for app in apps) == [0, 1])
        owner, heir = (0, 1) if apps[0].assigned() else (1, 0)
        closing.push_async_callback((sender := KafkaPublisher(kafka, names)).stop)
        await sender.start()
        await sender.publish([Message("conversations", b"a", str(n).encode()) for n in range(10)])
        await eventually(lambda: len(heard[owner].records) == 10)
        lost.set()
        await apps[owner].stop(10.0)
        await sender.publish([Message("conversations", b"a", str(n).encode()) for n in range(10, 15)])
        await eventually(lambda: len(heard[heir].records) >= 10)
        assert heard[heir].values() == {b"a": list(range(5, 15))}


async def test_the_owner_decides_where_to_start(
    kafka: KafkaSettings, names: TopicNames, publisher: KafkaPublisher
) -> None:
    first = Heard()
    app = StageConsumer("start", ["conversations"], kafka, names, one_by_one(first))
    await app.start()
    await publisher.publish([Message("conversations", b"a", str(n).encode(), partition=1) for n in range(30)])
    await eventually(lambda: len(first.records) == 30)
    await app.stop(10)
    asked: dict[int, int] = {}

    async def start_position(topic: str, partition: int, offset: int) -> int | None:
        asked[partition] = offset
        return 25 if partition == 1 else None

    second = Heard()
    app = StageConsumer(
        "start", ["conversations"], kafka, names, one_by_one(second), StageOptions(start_position=start_position)
    )
    await app.start()
    await eventually(lambda: len(second.records) >= 5)
    await publisher.publish([Message("conversations", b"a", b"30", partition=1)])
    await eventually(lambda: len(second.records) >= 6)
    assert second.values() == {b"a": [25, 26, 27, 28, 29, 30]}
    assert asked == {0: 0, 1: 30, 2: 0, 3: 0}
    await app.stop(10)


async def test_a_raising_handler_ends_the_app_and_nothing_after_it_is_committed(
    kafka: KafkaSettings, names: TopicNames, publisher: KafkaPublisher
) -> None:
    async def handle(record: Record, lease: Lease) -> None:
        if record.value == b"7":
            raise RuntimeError("seven")

    app = StageConsumer("raise", ["conversations"], kafka, names, one_by_one(handle))
    await app.start()
    await publisher.publish([Message("conversations", b"a", str(n).encode(), partition=0) for n in range(20)])
    async with asyncio.timeout(20):
        assert str(await app.failure()) == "seven"
    await app.stop(10)
    assert await lag(kafka, names, {"raise": ["conversations"]}) == {"raise": 13}


async def test_a_record_given_back_comes_again(
    kafka: KafkaSettings, names: TopicNames, publisher: KafkaPublisher
) -> None:
    heard = Heard()
    given_back = False

    async def handle(record: Record, lease: Lease) -> None:
        nonlocal given_back
        if record.value == b"7" and not given_back:
            given_back = True
            raise Revoked
        await heard(record, lease)

    app = StageConsumer("back", ["conversations"], kafka, names, one_by_one(handle))
    await app.start()
    await publisher.publish([Message("conversations", b"a", str(n).encode(), partition=0) for n in range(20)])
    await eventually(lambda: len(heard.records) >= 20)
    assert heard.values() == {b"a": [*range(20)]}
    await app.stop(10)
    assert await lag(kafka, names, {"back": ["conversations"]}) == {"back": 0}


async def test_stop_finishes_what_is_started_and_commits_it(
    kafka: KafkaSettings, names: TopicNames, publisher: KafkaPublisher
) -> None:
    begun = asyncio.Event()
    finished: list[bytes] = []

    async def handle(record: Record, lease: Lease) -> None:
        begun.set()
        with contextlib.suppress(Revoked):
            await lease.pause(1000)
        finished.append(record.value)

    app = StageConsumer("stop", ["conversations"], kafka, names, one_by_one(handle))
    await app.start()
    await publisher.publish([Message("conversations", b"a", str(n).encode(), partition=0) for n in range(20)])
    await begun.wait()
    await app.stop(10)
    assert finished == [b"0"]
    assert await lag(kafka, names, {"stop": ["conversations"]}) == {"stop": 19}


async def test_what_is_fetched_and_has_no_room_is_counted_and_bounded(
    kafka: KafkaSettings, names: TopicNames, publisher: KafkaPublisher
) -> None:
    gate, heard = asyncio.Event(), Heard()

    async def handle(record: Record, lease: Lease) -> None:
        await gate.wait()
        heard.records.append(record)

    options = StageOptions(limits=DispatchLimits(1, queued_bytes=10_000))
    consumer = StageConsumer("full", ["conversations"], kafka, names, one_by_one(handle), options)
    await publisher.publish([Message("conversations", b"k", bytes(20_000)) for _ in range(40)])
    await consumer.start()
    await eventually(lambda: consumer.fetched_bytes()[0] > 100_000)
    held, most = consumer.fetched_bytes()
    assert held <= most == 2 * PARTITIONS * kafka.max_request_bytes
    assert not heard.records
    gate.set()
    await eventually(lambda: len(heard.records) == 40 and consumer.fetched_bytes()[0] == 0)
    await consumer.stop()
    assert consumer.fetched_bytes() == (0, 0)


async def test_partitions_that_move_while_it_stops_do_not_disconnect_it_from_another_thread(
    kafka: KafkaSettings, names: TopicNames, publisher: KafkaPublisher
) -> None:
    heard = Heard()
    app = StageConsumer("moving", ["conversations"], kafka, names, one_by_one(heard))
    await app.start()
    await publisher.publish([Message("conversations", b"a", b"0", partition=0)])
    await eventually(lambda: len(heard.records) == 1)
    faust = app._app
    assert faust is not None
    faust._on_rebalance_when_stopped()
    await publisher.publish([Message("conversations", b"a", str(n).encode(), partition=0) for n in (1, 2)])
    await eventually(lambda: len(heard.records) == 3)
    await app.stop(10)
    assert await lag(kafka, names, {"moving": ["conversations"]}) == {"moving": 0}


async def test_too_large_is_said_before_anything_is_sent(
    kafka: KafkaSettings, names: TopicNames, publisher: KafkaPublisher
) -> None:
    small, large = Message("conversations", b"a", b"x"), Message("conversations", b"a", b"x" * 1_100_000)
    with pytest.raises(MessageTooLarge, match="limit is 1048576"):
        await publisher.publish([small, large])
    with pytest.raises(ValueError, match="needs a partition"):
        await publisher.publish([Message("conversations", None, b"x")])
    assert await lag(kafka, names, {"nobody": ["conversations"]}) == {"nobody": 0}
    await publisher.publish([Message("dead-letters", b"a", b"x" * 1_100_000)])


def _spawn(bootstrap: str, prefix: str, path: Path) -> "subprocess.Popen[bytes]":
    path.touch()
    command = [sys.executable, "-m", "tests.support.stage_process", bootstrap, prefix, str(path)]
    return subprocess.Popen(command, cwd=ROOT)


def _lines(path: Path) -> list[list[str]]:
    return [line.split() for line in path.read_text().splitlines() if line != "started"]


@pytest.mark.slow
async def test_kill_9_loses_nothing_and_keeps_the_order(
    bootstrap: str, kafka: KafkaSettings, names: TopicNames, publisher: KafkaPublisher, tmp_path: Path
) -> None:
    files = [tmp_path / "one", tmp_path / "two"]
    workers = [_spawn(bootstrap, names.prefix, path) for path in files]
    try:
        await eventually(lambda: all(path.read_text() for path in files), 45)
        total = 0
        for batch in range(10):
            await publisher.publish(talk(keys=40, each=10, first=10 * batch))
            total += 400
            if batch == 4:
                await eventually(lambda: all(len(_lines(path)) > 100 for path in files))
                os.kill(workers[0].pid, signal.SIGKILL)
        await eventually(lambda: len({(r[0], r[1]) for path in files for r in _lines(path)}) == total, 60)
        stage = {"kill": ["conversations"]}

        async def committed() -> bool:
            return await lag(kafka, names, stage) == {"kill": 0}

        await eventually(committed)
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()
    handled = [line for path in files for line in _lines(path)]
    print(f"\n{total} records, {len(handled) - total} handled twice")
    for path in files:
        by_key = defaultdict(list)
        for key, number, *_ in _lines(path):
            by_key[key].append(int(number))
        for numbers in by_key.values():
            runs = sorted(set(numbers))
            assert numbers == runs, "a process saw a key out of order"


class Group:
    """Processes of one stage, and what is said to them."""

    def __init__(self, bootstrap: str, names: TopicNames, publisher: KafkaPublisher, folder: Path) -> None:
        self.where = (bootstrap, names.prefix)
        self.publisher = publisher
        self.folder = folder
        self.said = 0
        self.workers: dict[str, subprocess.Popen[bytes]] = {}

    async def say(self, batches: int) -> None:
        """Forty keys, two records each."""
        for _ in range(batches):
            await self.publisher.publish(talk(keys=40, each=2, first=2 * self.said))
            self.said += 1

    async def join(self, name: str) -> None:
        """Start a process and go on talking until it has work, however long the group takes to share it out."""
        self.workers[name] = _spawn(*self.where, self.folder / name)
        async with asyncio.timeout(150):
            while not self.handled(name):
                await self.say(1)
                await asyncio.sleep(0.2)

    async def leave(self, name: str) -> None:
        """Stop a process gently, talking."""
        self.workers[name].terminate()
        await self.say(5)
        assert await asyncio.to_thread(self.workers[name].wait, 40) == 0

    def handled(self, name: str) -> list[tuple[str, int]]:
        return [(key, int(number)) for key, number, *_ in _lines(self.folder / name)]

    def all_handled(self) -> list[tuple[str, int]]:
        return [one for name in self.workers for one in self.handled(name)]

    def end(self) -> None:
        for worker in self.workers.values():
            worker.kill()
            worker.wait()


@pytest.mark.slow
@pytest.mark.timeout(400)
async def test_processes_that_join_and_leave_share_the_work(
    bootstrap: str, names: TopicNames, publisher: KafkaPublisher, tmp_path: Path
) -> None:
    group = Group(bootstrap, names, publisher, tmp_path)
    try:
        await group.join("one")
        for leaver, comer in (("one", "two"), ("two", "three")):
            await group.join(comer)
            await group.leave(leaver)
        await group.say(5)
        wanted = {(f"k{key}", number) for key in range(40) for number in range(2 * group.said)}
        await eventually(lambda: set(group.all_handled()) == wanted, 60)
    finally:
        group.end()
    print(f"\n{len(wanted)} records, {len(group.all_handled()) - len(wanted)} handled twice")
    for name in group.workers:
        by_key: dict[str, list[int]] = defaultdict(list)
        for key, number in dict.fromkeys(group.handled(name)):
            by_key[key].append(number)
        assert all(numbers == sorted(numbers) for numbers in by_key.values()), "a process saw a key out of order"
