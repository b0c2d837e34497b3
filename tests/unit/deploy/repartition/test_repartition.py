"""A log that gets other partitions: where records go, what a stopped attempt leaves, who answers, who is refused."""

import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from typer.testing import CliRunner

from eunoe.deploy.cli.topics import app
from eunoe.deploy.clients.connect import kept_stack
from eunoe.deploy.clients.live_settings import client_settings, settings_in
from eunoe.deploy.generations.promotion import check_same_log
from eunoe.deploy.local.notice import StackUrls
from eunoe.deploy.process.retired_log import RetiredLogHandler, refusal
from eunoe.deploy.repartition import plan, run
from eunoe.deploy.repartition.moving import LogEnd, LogMove, ReadLog
from eunoe.deploy.repartition.plan import Move, check_goes_on, next_name, unfinished
from eunoe.deploy.repartition.records import source_of
from eunoe.deploy.repartition.run import RebuildProcesses, RepartitionJob
from eunoe.deploy.repartition.sealed import SealedMove
from eunoe.deploy.settings import Settings
from eunoe.schemas.errors import Misconfigured, Refused, Unavailable
from eunoe.schemas.events import Ask, Strategy, Utterance
from eunoe.schemas.keys import Destruction
from eunoe.schemas.records import DeadLetterReason
from eunoe.streams.codec import decode, encode
from eunoe.streams.dead_letters import read_dead_letter
from eunoe.streams.memory_log import MemoryLog
from eunoe.streams.position import (
    COPIED_HEADER,
    POSITION_HEADER,
    copy_headers,
    is_copy,
    record_log_time,
    record_position,
)
from eunoe.streams.record import Message, Publisher, Record, Revoked
from eunoe.streams.sealed.log import logged, restored
from eunoe.streams.sealed.records import seal_message
from eunoe.streams.settings import partition_of
from eunoe.streams.topics import Topic, TopicNames
from eunoe.workers.derive.in_memory import as_message
from eunoe.workers.registry import STAGES
from eunoe.workers.stores.records.generations import Generation, GenerationState
from tests.support.in_memory import Clock, ended, make_pipeline, utterance
from tests.support.memory.generations import MemoryGenerations
from tests.support.memory.key_store import MemoryKeyStore
from tests.support.whole_state import read_digest

NAMES = [f"c{number}" for number in range(7)]
BEFORE, AFTER = 3, 5


def reader(log: MemoryLog, topic: Topic = Topic.CONVERSATIONS) -> ReadLog:
    async def read(begin: Mapping[int, int]) -> AsyncIterator[Record]:
        for record in log.records(topic):
            if record.offset >= begin.get(record.partition, 0):
                yield record

    return read


@dataclass
class Broker:
    """Takes so many messages, into whatever log, and is away then."""

    takes: int

    def to(self, log: MemoryLog) -> "Failing":
        return Failing(self, log)


@dataclass
class Failing:
    broker: Broker
    log: MemoryLog

    async def publish(self, messages: Sequence[Message]) -> None:
        for message in messages:
            if self.broker.takes <= 0:
                raise Unavailable("the broker is away")
            self.broker.takes -= 1
            await self.log.publish([message])


def move(source: MemoryLog, target: MemoryLog, takes: int = 10**6) -> LogMove:
    broker = Broker(takes)
    sides = (
        LogEnd(0, source.partitions, reader(source), broker.to(source)),
        LogEnd(1, target.partitions, reader(target), broker.to(target)),
    )
    return LogMove(*sides, epoch=1, generation="v2", nonce="move")


async def said(log: MemoryLog, first: int, last: int) -> None:
    for number in range(first, last):
        await log.publish([as_message(utterance(number, conversation=name)) for name in NAMES])


class Sealing:
    """Seals what it publishes."""

    def __init__(self, publisher: Publisher, keys: MemoryKeyStore) -> None:
        self._publisher = publisher
        self._keys = keys

    async def publish(self, messages: Sequence[Message]) -> None:
        sealed = [await seal_message(message, self._keys) for message in messages]
        await self._publisher.publish([message for message in sealed if message is not None])


@pytest.mark.parametrize("takes", [0, 1, 20, 35, 47, 10**6])
async def test_the_sealed_log_moves_with_what_it_lacks_yet_wherever_an_attempt_ends(takes: int) -> None:
    """The first five records of a conversation are sealed, the last two are not handled; one is erased for good."""
    keys, source, target = MemoryKeyStore(), MemoryLog(partitions=BEFORE), MemoryLog(partitions=AFTER)
    await said(source, 0, 7)
    gone, *others = NAMES
    handled = [record for record in utterances(source) if int(utterance_id_of(record)[1:]) < 5]
    await Sealing(source, keys).publish([logged(record, 1) for record in handled])
    await keys.destroy((await keys.current(f"default/{gone}")).id, Destruction.ERASED)
    both = (source, target)
    for broker in (Broker(takes), Broker(10**6)):
        ends = (LogEnd(at, log.partitions, reader(log, Topic.LOG), broker.to(log)) for at, log in enumerate(both))
        with contextlib.suppress(Unavailable):
            await SealedMove(next(ends), next(ends), keys).copy()
            one = move(source, target)
            own = Sealing(broker.to(target), keys)
            one = replace(one, target=LogEnd(1, AFTER, reader(target), own, is_sealed=True))
            await one.look()
            await one.copy()
    for name in others:
        key = f"default/{name}".encode()
        found = await restored([record for record in target.records(Topic.LOG) if record.key == key], keys, 2)
        assert [utterance_id_of(record) for record in found] == [f"u{number}" for number in range(7)]
        assert all(record.partition == partition_of(key, AFTER) for record in found)
    erased = [record for record in target.records(Topic.LOG) if record.key == f"default/{gone}".encode()]
    assert (
        len({record.headers[POSITION_HEADER] for record in erased}) == 7
    )  # those of the door, under a new key: the ledger of erasures leaves them out


async def change_over(one: LogMove) -> None:
    """What the command does, without a rebuild and workers."""
    await one.look(strict=False)
    await one.copy()
    await one.hand_over()
    while not one.seen:
        await one.copy()
    await one.open()
    await one.forward()


def utterances(log: MemoryLog) -> list[Record]:
    return [record for record in log.records(Topic.CONVERSATIONS) if record.key is not None]


def utterance_id_of(record: Record) -> str:
    event = decode(record.value)
    assert isinstance(event, Utterance)
    return event.utterance_id


def order(log: MemoryLog) -> dict[str, list[str]]:
    """Conversation → the ids of its utterances, in the order of the log."""
    found: dict[str, list[str]] = {}
    for record in utterances(log):
        event = decode(record.value)
        assert isinstance(event, Utterance)
        found.setdefault(event.key, []).append(event.utterance_id)
    return found


async def test_every_record_goes_to_the_partition_of_its_key_with_its_place_and_time():
    source, target = MemoryLog(BEFORE, Clock()), MemoryLog(AFTER, Clock())
    await said(source, 0, 20)
    first = utterances(source)[0]
    source.append(Message(Topic.CONVERSATIONS, first.key, first.value, copy_headers(replace(first, offset=900), 0)))
    source.append(Message(Topic.CONVERSATIONS, first.key, b"{}", partition=(first.partition + 1) % BEFORE))
    one = move(source, target)
    await one.look()
    assert await one.copy() == 20 * len(NAMES) + 1
    assert one.left_out == 1
    taken = {(record.partition, record.offset): record for record in source.records(Topic.CONVERSATIONS)}
    for record in utterances(target):
        origin = taken[source_of(record, 0) or (0, 0)]
        assert record.partition == partition_of(record.key or b"", AFTER)
        assert (record.key, record.value) == (origin.key, origin.value)
        assert is_copy(record)
        assert record_position(record, 9) == record_position(origin, 1)
        assert record_log_time(record) == record_log_time(origin)
    ids = [f"u{number}" for number in range(20)]
    again = (first.key or b"").decode().removeprefix("default/")
    assert order(target) == {f"default/{name}": [*ids, "u0"] if name == again else ids for name in NAMES}


@pytest.mark.parametrize("takes", [1, 2, 3, 5, 8, 13, 21, 34, 55])
async def test_an_attempt_that_was_stopped_is_gone_on_with_and_nothing_is_lost_or_there_twice(takes: int):
    source, target, rounds, stops = MemoryLog(BEFORE, Clock()), MemoryLog(AFTER, Clock()), 8, 0
    await said(source, 0, rounds)
    while True:
        if rounds < 16:
            await said(source, rounds, rounds + 1)
            rounds += 1
        last = move(source, target, takes)
        try:
            await change_over(last)
        except Unavailable:
            stops += 1
        else:
            break
    await said(source, rounds, rounds + 1)
    await move_on(last)
    assert stops > 0
    assert order(target) == {f"default/{name}": [f"u{number}" for number in range(rounds + 1)] for name in NAMES}
    controls = [record for record in target.records(Topic.CONVERSATIONS) if record.key is None]
    opened = {record.partition: record.offset for record in reversed(controls)}
    assert set(opened) == set(range(AFTER))
    assert all(is_copy(record) == (record.offset < opened[record.partition]) for record in utterances(target))
    ends = Counter(record.partition for record in source.records(Topic.CONVERSATIONS))
    assert last.next_offsets == dict(ends)


@pytest.mark.parametrize("takes", range(12))
async def test_a_change_over_that_was_stopped_ends_as_if_it_had_not_been(takes: int):
    source, target, book = MemoryLog(BEFORE, Clock()), MemoryLog(AFTER, Clock()), MemoryGenerations()
    await book.begin("v1")
    built = row("v2", 1, GenerationState.BUILT, plan={"partitions": "5"})
    await said(source, 0, 2)
    await move(source, target).copy()
    with contextlib.suppress(Unavailable):
        await change(book, built, move(source, target, takes)).change_over()
    stopped = await book.find("v2")
    if stopped is not None and stopped.state is GenerationState.MOVING:
        assert (await book.pointer()).live == "v1"
        await said(source, 2, 3)
        again = move(source, target)
        await again.look(strict=False)
        await again.copy()
        await change(book, stopped, again).change_over()
        assert order(target) == {f"default/{name}": ["u0", "u1", "u2"] for name in NAMES}
    assert (await book.pointer()).live == "v2"
    made = await book.find("v2")
    assert made is not None
    assert made.state is GenerationState.BUILT
    assert await book.closed_log(0) == dict(Counter(r.partition for r in source.records(Topic.CONVERSATIONS)))


def change(book: MemoryGenerations, made: Generation, log: LogMove) -> RepartitionJob:
    return RepartitionJob(
        Move(Settings(), Settings(log=1), BEFORE, AFTER, made), book, lambda _progress: None, RebuildProcesses(1), log
    )


async def move_on(one: LogMove) -> None:
    """The broker is there again."""
    assert isinstance(one.target.publisher, Failing)
    one.target.publisher.broker.takes = 10**6
    await one.forward()


async def test_topics_that_kafka_refuses_are_made_before_anything_is_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    """And by what forgets a generation of which all are refused."""
    book = MemoryGenerations()

    async def refused(source: Settings, target: Settings, partitions: int) -> None:
        assert (source.names.log, target.names.log, partitions) == (0, 1, AFTER)
        raise Refused("topic not created (grant Create)")

    monkeypatch.setattr(run, "make_topics", refused)
    job = change(
        book, row("v2", 1, GenerationState.BUILDING, plan={"partitions": "5"}), move(MemoryLog(1), MemoryLog(1))
    )
    async with contextlib.AsyncExitStack() as closing:
        with pytest.raises(Refused, match="grant Create"):
            await job.begin(closing)


async def test_a_user_who_may_not_ask_redis_whether_it_restarted_copies_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def open_log(*_: object) -> None:
        return None

    async def forbidden(_: Settings) -> frozenset[str]:
        raise Misconfigured("no permissions to run the 'info' command", "Redis")

    monkeypatch.setattr(plan, "check_log_is_open", open_log)
    monkeypatch.setattr(plan, "redis_processes", forbidden)
    with pytest.raises(Misconfigured, match="info"):
        await plan.survey(Settings(kafka="127.0.0.1:9092"), AFTER)


async def test_who_produces_into_the_new_log_too_early_is_noticed():
    source, target = MemoryLog(BEFORE), MemoryLog(AFTER)
    await said(source, 0, 2)
    await target.publish([as_message(utterance(1, conversation="early"))])
    with pytest.raises(Refused, match="eunoe drop v2"):
        await move(source, target).look()


async def test_the_new_generation_remembers_the_same_and_each_ask_is_answered_once():
    old, new = make_pipeline(partitions=BEFORE), make_pipeline(generation="v2", partitions=AFTER, epoch=2)
    for pipeline in (old, new):
        pipeline.log_positions.announced["move"] = "v2"
    one = move(old.log, new.log)

    async def say(number: int) -> None:
        for name in NAMES:
            asked = Ask(request_id=f"{name}-{number}", record=number % 2 == 0)
            await old.produce(
                utterance(3 * number + 1, "I moved to Oslo and I work as a nurse now.", conversation=name),
                utterance(3 * number + 2, "Where do I live?", conversation=name, ask=asked),
                ended(conversation=name),
            )

    await say(0)
    await one.look()
    await one.copy()
    await new.run_until_idle()
    assert new.replies() == []
    await say(1)
    await one.hand_over()
    await say(2)
    await one.copy()
    await old.run_until_idle()
    assert one.seen
    await one.open()
    await one.forward()
    await new.run_until_idle()
    await say(3)
    await one.forward()
    await new.produce(utterance(99, "Where do I live?", conversation="c1", ask=Ask(request_id="there", record=False)))
    assert old.log.records(Topic.DEAD_LETTERS) == new.log.records(Topic.DEAD_LETTERS) == []
    assert sorted(reply.request_id for reply in old.replies()) == sorted(f"{n}-{i}" for n in NAMES for i in (0, 1))
    answered = sorted(["there", *(f"{n}-{i}" for n in NAMES for i in (2, 3))])
    assert sorted(reply.request_id for reply in new.replies()) == answered
    for name in NAMES:
        digests = [await read_digest(pipeline.store, f"default/{name}", STAGES) for pipeline in (old, new)]
        memories = [digest.state["update"]["tables"]["memories"] for digest in digests]
        assert memories[0] == memories[1] != {}


class Once:
    """A lease that gives way at its first pause."""

    revoked = False

    async def pause(self, seconds: float) -> None:
        raise Revoked


async def test_what_comes_too_late_is_set_aside_with_the_way_and_an_ask_is_told_at_once():
    log, book = MemoryLog(BEFORE), MemoryGenerations()
    error = refusal(TopicNames(), TopicNames(log=1))
    keeper = RetiredLogHandler(lambda: book.closed_log(0), log, error, Strategy.TREE)
    first = log.append(as_message(utterance(1)))
    last = log.append(as_message(utterance(2, ask=Ask(request_id="r", speak_as="bot"))))
    with pytest.raises(Revoked):
        await keeper.handle(first, Once())
    await book.close_log(0, {first.partition: last.offset})
    await book.close_log(0, {})
    await keeper.handle(first, Once())
    assert log.records(Topic.DEAD_LETTERS) == []
    await keeper.handle(last, Once())
    (letter,) = [read_dead_letter(record)[0] for record in log.records(Topic.DEAD_LETTERS)]
    assert (letter.reason, letter.stage, letter.offset) == (DeadLetterReason.MOVED, "intake", last.offset)
    for words in ("eunoe.conversations.1", "EUNOE_LOG=1", "TopicNames(log=1)"):
        assert words in letter.error
    (reply,) = [decode(record.value) for record in log.records(Topic.REPLIES)]
    assert (reply.request_id, reply.speaker, reply.error) == ("r", "bot", error)  # type: ignore[attr-defined]
    assert reply.strategy is Strategy.TREE  # type: ignore[attr-defined]


def row(name: str, log: int, state: GenerationState, **more: object) -> Generation:
    fields = {"made_at": datetime(2026, 1, 1, tzinfo=UTC), "source": "v1", **more}
    return Generation.model_validate({"name": name, "log": log, "state": state, **fields}, strict=False)


def test_a_change_that_was_begun_is_gone_on_with_and_no_other_one():
    plan = {"partitions": "5"}
    begun = row("v2", 1, GenerationState.BUILT, plan=plan)
    handing = row("v2", 1, GenerationState.MOVING, plan=plan)
    assert unfinished({"v2": begun}, 0) is begun
    assert unfinished({"v2": begun}, 1) is None
    assert unfinished({"v2": handing}, 1) is handing
    assert unfinished({"v3": row("v3", 0, GenerationState.BUILDING)}, 0) is None
    check_goes_on(begun, 5, None)
    check_goes_on(begun, 5, "v2")
    with pytest.raises(Refused, match=r"repartition 5`, or `eunoe drop v2` first"):
        check_goes_on(begun, 7, None)
    with pytest.raises(Refused) as refused:
        check_goes_on(handing, 5, "v3")
    assert "drop" not in str(refused.value)
    assert [next_name(taken) for taken in ({"v1"}, {"v1", "v4", "try"}, {"main"})] == ["v2", "v5", "v2"]


def test_a_generation_of_another_log_is_not_promoted():
    check_same_log(TopicNames(log=1), "v2", row("v2", 1, GenerationState.BUILT))
    with pytest.raises(Refused, match=r"v1 reads eunoe\.conversations, which eunoe\.conversations\.1 has replaced"):
        check_same_log(TopicNames(log=1), "v1", None)
    ahead = row("v2", 1, GenerationState.BUILT, plan={"partitions": "5"})
    with pytest.raises(Refused, match="eunoe topics repartition 5"):
        check_same_log(TopicNames(), "v2", ahead)


async def test_each_generation_has_its_log_and_positions_go_on():
    book = MemoryGenerations()
    await book.begin("v1")
    await book.write(row("v2", 1, GenerationState.BUILT))
    await book.promote("v2")
    settings = Settings(epoch=4)
    for name, log in ((None, 1), ("v1", 0), ("v2", 1)):
        found = await settings_in(book, settings.model_copy(update={"generation": name}))
        assert (found.names.log, found.log_epoch) == (log, 4 + log)
    assert found.names.name("conversations") == "eunoe.conversations.1"
    assert found.names.name("replies") == "eunoe.replies"
    lost = await settings_in(MemoryGenerations(), settings.model_copy(update={"log": 1}))
    assert lost.names.log == 1


async def test_a_client_without_redis_goes_where_its_environment_says():
    assert (await client_settings(Settings(log=2))).names.log == 2
    assert (await client_settings(Settings(redis_url="redis://nowhere", log=2))).names.log == 2
    assert (await client_settings(Settings())).names.log == 0


def test_servers_of_ones_own_are_told_from_those_of_eunoe_up(tmp_path: Path):
    assert kept_stack(Settings(kafka="kafka:9092"), tmp_path) is None


def test_the_old_log_of_an_event_is_not_read_as_another_ones():
    record = Record("conversations", 0, 0, b"k", encode(utterance(1)), 0, {COPIED_HEADER: b"0:2:17"})
    assert source_of(record, 0) == (2, 17)
    assert source_of(record, 1) is None
    assert source_of(replace(record, headers={COPIED_HEADER: b"here"}), 0) is None


async def test_what_a_client_writes_into_the_new_log_ends_no_second_attempt():
    source, target = MemoryLog(BEFORE, Clock()), MemoryLog(AFTER, Clock())
    await said(source, 0, 3)
    await change_over(move(source, target))
    client = as_message(utterance(3, conversation=NAMES[0]))
    target.append(replace(client, headers=(*client.headers, (COPIED_HEADER, b"here"))))
    before = len(utterances(target))
    await change_over(move(source, target))
    assert len(utterances(target)) == before


def test_where_eunoe_up_keeps_the_log_it_is_refused_in_words(monkeypatch: pytest.MonkeyPatch):
    urls = StackUrls(
        kafka="127.0.0.1:1", redis_url="redis://127.0.0.1:1", qdrant_url="http://127.0.0.1:1", epoch=1, pid=1
    )
    monkeypatch.delenv("EUNOE_KAFKA", raising=False)
    monkeypatch.setattr("eunoe.deploy.clients.connect.find_stack", lambda _directory: urls)
    for words, told in ((["5", "--yes"], "cannot be repartitioned"), (["5", "--json"], "--yes")):
        refused = CliRunner().invoke(app, ["repartition", *words]).exception
        assert isinstance(refused, Refused)
        assert told in str(refused)
    assert CliRunner().invoke(app, ["repartition", "0"]).exit_code == 2
