"""Hostile and careless producers beside clients who talk and ask: nobody else notices them.

``BYSTANDERS`` says how many conversations talk beside all inputs.
"""

import os
import time
from collections.abc import Callable

import pytest
from confluent_kafka import Producer

from eunoe.schemas.records import DeadLetterReason
from eunoe.streams.settings import partition_of
from tests.support.bystanders import Bystanders, bystanders, drained, judge, memory_of
from tests.support.hostile_inputs import Kind, key_of, kinds, said
from tests.support.pipeline import PARTITIONS, Pipeline
from tests.support.wire import CODECS, HostileProducer, Sent

pytestmark = [pytest.mark.broker]

BYSTANDERS = int(os.environ.get("BYSTANDERS", "12"))
MAX_GROWTH = 700 << 20
"""Bytes by which a worker of all stages may grow."""
BRIEF = (
    "at 0001-01-01T00:00:00+01:00", "at 9999-12-31T23:59:59-01:00",
    "position b'8388607:109951162777'", "promotion in 0",
    "text of \"'\"", "a budget beyond all measure", "nested without end", "nothing", "another conversation",
    "garbage in sessions", "garbage in replies", *(f"batches in {codec}" for codec in CODECS),
)  # fmt: skip


async def talk_beside(pipeline: Pipeline, count: int, wanted: Callable[[Kind], bool]) -> int:
    """Waves of the bystanders with hostile inputs between them: all is remembered, as without these.

    Returns the number of asks that were answered.
    """
    sent: list[Sent] = []
    async with pipeline.up() as process, bystanders(pipeline, count) as people:
        await people.everyone_speaks()
        await people.wave(0)
        before = memory_of(process.pid)
        producer = HostileProducer(pipeline.settings.kafka_settings, pipeline.settings.names, PARTITIONS)
        for number, (name, records, batches) in enumerate(filter(wanted, kinds(people.keys[0]))):
            sent += producer.send(records)
            sent += await producer.send_batches(batches)
            await people.wave(number, after=name)
            assert process.returncode is None, f"after {name}"
        settings = (f"settling-{partition}" for partition in range(100_000))
        last = {partition_of(key_of(name), PARTITIONS): name for name in (next(settings) for _ in range(40))}
        sent += producer.send(said("the last one", name) for name in last.values())
        await people.everyone_speaks()
        await people.end_sessions()
        digests = await people.digests()
        assert len(digests) == count
        assert digests == await people.expected_digests()
        await _check(pipeline, people, sent, producer.refused)
        assert process.returncode is None
        assert memory_of(process.pid) - before < MAX_GROWTH
        return people.answered


async def _check(pipeline: Pipeline, people: Bystanders, sent: list[Sent], refused: list[str]) -> None:
    await drained(pipeline)
    verdict = await judge(pipeline, sent)
    assert verdict.faults == []
    print(f"\n{len(sent)} hostile records and batches, {len(refused)} more refused by the broker or its client;")
    print(f"handled by a stage {verdict.handled} times; dead letters {dict(verdict.letters)}")
    assert verdict.letters[DeadLetterReason.INVALID] > 0
    listed = await pipeline.eunoe("dead-letters", "list")
    assert listed.code == 0, listed.err
    shown = await pipeline.eunoe("show", people.name(0))
    assert shown.code == 0, shown.err


@pytest.mark.slow
@pytest.mark.timeout(240)
async def test_a_few_bystanders_notice_no_hostile_producer(pipeline: Pipeline):
    await talk_beside(pipeline, 4, lambda kind: kind[0] in BRIEF)


@pytest.mark.slow
@pytest.mark.timeout(1800)
async def test_bystanders_notice_no_hostile_input(pipeline: Pipeline):
    began = time.monotonic()
    answered = await talk_beside(pipeline, BYSTANDERS, lambda _kind: True)
    print(f"{BYSTANDERS} bystanders, {answered} asks answered beside the inputs,", end=" ")
    print(f"{BYSTANDERS} digests as without them, {time.monotonic() - began:.0f} s")


@pytest.mark.timeout(240)
@pytest.mark.needs("idempotence")
async def test_an_aborted_transaction_was_never_said(pipeline: Pipeline):
    bootstrap, topic = pipeline.conversations
    settings = {"bootstrap.servers": bootstrap, "transactional.id": topic, "partitioner": "murmur2_random"}
    async with pipeline.up():
        producer = Producer(settings)
        producer.init_transactions(30)
        for text, commit in (("I live in Oslo.", False), ("I live in Lyon.", True)):
            producer.begin_transaction()
            record = said("of a transaction", "careful", text, 1 if commit else 2)
            producer.produce(topic, record.value, record.key)
            producer.commit_transaction(30) if commit else producer.abort_transaction(30)
        over = said("of a transaction", "careful", "I like it.", 3, session_id="next")
        producer.begin_transaction()
        producer.produce(topic, over.value, over.key)
        producer.commit_transaction(30)
        view = await pipeline.remembered(1, "careful")
        assert [line.text for segment in view.segments for line in segment.lines] == ["I live in Lyon."]
