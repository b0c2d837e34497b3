"""Records of derived topics with data keys: sealed, opened, passed over when erased, waited for without their key."""

from dataclasses import replace

import pytest

from eunoe.schemas.decisions import Decision
from eunoe.schemas.keys import Destruction
from eunoe.schemas.records import DeadLetterReason
from eunoe.schemas.versions import ContractError
from eunoe.streams.codec import encode
from eunoe.streams.dead_letters import read_dead_letter
from eunoe.streams.memory_log import MemoryLog
from eunoe.streams.record import Message, Record, RecordPlace, Revoked
from eunoe.streams.retries import retry_message
from eunoe.streams.sealed.records import SEALED_HEADER, SEALED_TOPICS, key_id_of, open_record, seal_message
from eunoe.streams.topics import Topic
from eunoe.workers.registry import STAGES
from eunoe.workers.runner.inbound import LogPlace
from eunoe.workers.runner.metrics import StageMeter
from eunoe.workers.runner.outbox import Sender
from eunoe.workers.runner.parts import RunnerContext
from eunoe.workers.runner.runner import Runner
from eunoe.workers.runner.skips import Skips, skip_name
from eunoe.workers.stores.data_keys.cached import CachedKeys
from tests.support.in_memory import Stores
from tests.support.memory.key_store import MemoryKeyStore
from tests.support.runner_bench import QUICK, Lease, Script, closed

KEY = b"default/c"
EVENT = closed(1)
PLAIN = Message(Topic.SESSIONS, KEY, encode(EVENT), (("eunoe-late", b"1"),))


async def landed(keys: MemoryKeyStore, message: Message = PLAIN) -> Record:
    """The record of a message, sealed."""
    sealed = await seal_message(message, keys)
    assert sealed is not None
    return MemoryLog(partitions=1).append(sealed)


def test_every_derived_topic_is_sealed_and_no_topic_of_clients() -> None:
    assert {Topic.SESSIONS, Topic.SEGMENTS, Topic.MEMORIES, Topic.CHANGES} < SEALED_TOPICS
    assert not {Topic.CONVERSATIONS, Topic.REPLIES} & SEALED_TOPICS


async def test_a_sealed_record_opens_as_it_was() -> None:
    keys = MemoryKeyStore()
    record = await landed(keys)
    assert record.headers[SEALED_HEADER] == f"1:{(await keys.current('default/c')).id}".encode()
    assert b"session" not in record.value
    opened = await open_record(record, keys)
    assert opened is not None
    assert (opened.value, opened.headers, opened.stored) == (PLAIN.value, {"eunoe-late": b"1"}, record)


async def test_plain_records_pass_with_and_without_keys() -> None:
    record = MemoryLog(partitions=1).append(PLAIN)
    assert await open_record(record, MemoryKeyStore()) is record
    assert await open_record(record, None) is record


async def test_what_is_sealed_is_not_sealed_again_and_clients_topics_stay_plain() -> None:
    keys = MemoryKeyStore()
    once = await seal_message(PLAIN, keys)
    assert once is not None
    assert await seal_message(once, keys) is once
    for topic in set(Topic) - SEALED_TOPICS:
        said = replace(PLAIN, topic=topic)
        assert await seal_message(said, keys) is said


@pytest.mark.parametrize(
    "change",
    [
        lambda record: replace(record, value=record.value[:-1] + bytes([record.value[-1] ^ 1])),
        lambda record: replace(record, value=b""),
        lambda record: replace(record, topic=Topic.SEGMENTS),
        lambda record: replace(record, key=b"default/other"),
        lambda record: replace(record, key=None),
        lambda record: replace(record, headers={SEALED_HEADER: b"2:" + b"0" * 32}),
        lambda record: replace(record, headers={SEALED_HEADER: b"\xff"}),
    ],
)
async def test_a_changed_or_moved_record_is_refused(change) -> None:
    keys = MemoryKeyStore()
    with pytest.raises(ContractError) as fault:
        await open_record(change(await landed(keys)), keys)
    assert fault.value.reason is DeadLetterReason.INVALID


class SealedBench:
    """The stage `segment`, its records handed over by hand."""

    def __init__(self, keys: MemoryKeyStore | None) -> None:
        self.log, self.stores, self.meter = MemoryLog(partitions=1), Stores(), StageMeter()
        self.script, self.skips = Script(Decision()), Skips()
        sender = Sender(self.stores.state, self.stores.index, self.stores.log_positions, self.log, self.meter)
        self.runner = Runner(
            STAGES["segment"],
            self.script,
            sender,
            self.stores.state,
            LogPlace(0, 1),
            RunnerContext(settings=QUICK, skips=self.skips, data_keys=None if keys is None else CachedKeys(keys)),
        )

    async def handle(self, record: Record) -> None:
        await self.runner.handle(record, Lease(3))


async def test_a_stage_decides_a_sealed_record() -> None:
    keys = MemoryKeyStore()
    bench = SealedBench(keys)
    await bench.handle(await landed(keys))
    assert bench.meter.commits == 1
    assert bench.log.records(Topic.DEAD_LETTERS) == []


async def test_a_stage_passes_over_what_was_erased_every_time() -> None:
    keys = MemoryKeyStore()
    record = await landed(keys)
    await keys.destroy((await keys.current("default/c")).id, Destruction.ERASED)
    bench = SealedBench(keys)
    for _ in range(2):
        await bench.handle(record)
    assert (bench.meter.erased, bench.meter.commits) == (2, 0)
    assert bench.log.records(Topic.DEAD_LETTERS) == []


@pytest.mark.parametrize("lost", [True, False])
async def test_a_stage_waits_for_a_missing_key_until_an_operator_passes_over(lost: bool) -> None:
    record = await landed(MemoryKeyStore())
    bench = SealedBench(MemoryKeyStore() if lost else None)
    with pytest.raises(Revoked):
        await bench.handle(record)
    assert (bench.meter.commits, bench.log.records(Topic.DEAD_LETTERS)) == (0, [])
    bench.skips._reasons = {skip_name(RecordPlace("sessions", 0, 0), 0): "its key is lost"}
    await bench.handle(record)
    (letter,) = bench.log.records(Topic.DEAD_LETTERS)
    assert letter.value == record.value


async def test_a_letter_of_a_sealed_record_is_sealed_and_can_be_sent_back() -> None:
    keys = MemoryKeyStore()
    bench = SealedBench(keys)
    record = await landed(keys, replace(PLAIN, headers=()))
    forged = replace(record, value=record.value[:-1] + bytes([record.value[-1] ^ 1]))
    await bench.handle(forged)
    (letter,) = bench.log.records(Topic.DEAD_LETTERS)
    assert letter.value == forged.value
    told, _ = read_dead_letter(letter)
    assert told.reason is DeadLetterReason.INVALID
    again = retry_message(told, replace(letter, value=record.value))
    opened = await open_record(MemoryLog(partitions=1).append(again), keys)
    assert opened is not None
    assert opened.value == PLAIN.value


async def test_a_late_message_is_sealed_with_the_key_of_its_decision_and_not_sent_when_that_is_destroyed() -> None:
    keys = MemoryKeyStore()
    old = await keys.current("default/c")
    late = replace(PLAIN, sealed_with=old.id)
    new = await keys.replace("default/c")
    assert key_id_of(await landed(keys, late)) == old.id
    assert key_id_of(await landed(keys)) == new.id
    await keys.destroy(old.id, Destruction.REPLACED)
    assert await seal_message(late, keys) is None
