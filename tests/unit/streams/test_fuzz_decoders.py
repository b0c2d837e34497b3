"""Everything that decodes bytes of a producer, on any bytes: a value or a `ContractError`, nothing else."""

from collections.abc import AsyncIterator, Callable
from contextlib import suppress

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from eunoe.schemas.base import Contract
from eunoe.schemas.errors import NewerVersion
from eunoe.schemas.records import DeadLetterReason
from eunoe.schemas.versions import ContractError
from eunoe.streams.codec import decode
from eunoe.streams.dead_letters import dead_letter, file_letters, message_size, read_closed, read_dead_letter
from eunoe.streams.position import copy_headers, record_log_time, record_position
from eunoe.streams.publisher import excess_of
from eunoe.streams.record import Message, Record
from eunoe.streams.retries import read_retry
from eunoe.streams.topics import TOPICS, Topic
from eunoe.workers.registry import STAGES
from eunoe.workers.runner.decider import RunnerSettings
from eunoe.workers.runner.failure_limit import FailureLimit
from eunoe.workers.runner.inbound import LogPlace, read_record
from tests.fuzz import cases
from tests.support.in_memory import make_pipeline, utterance
from tests.support.wire import HostileRecord

THOROUGH = settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
PLACE = LogPlace(epoch=1, partitions=4)

cases.real_events()  # outside of hypothesis: it takes a second


def as_record(sent: HostileRecord, offset: int = 5) -> Record:
    stamp = sent.timestamp_ms if sent.timestamp_ms is not None else 1_767_225_600_000
    return Record(sent.topic, sent.place(4), offset, sent.key, sent.value or b"", stamp, dict(sent.headers))


def fault_of(read: Callable[[], object]) -> object:
    """What a reader gives, or its `ContractError`."""
    try:
        return read()
    except ContractError as fault:
        return fault


@THOROUGH
@given(st.sampled_from(Topic).flatmap(cases.values))
def test_a_value(value: bytes):
    found = fault_of(lambda: decode(value))
    assert isinstance(found, Contract | ContractError)
    assert len(str(found)) < 10_000 or isinstance(found, Contract)


@THOROUGH
@given(cases.records())
def test_a_record(sent: HostileRecord):
    record = as_record(sent)
    for spec in STAGES.values():
        if record.topic in spec.inputs:
            try:
                read_record(record, spec, PLACE)
            except NewerVersion:
                assert record.topic != Topic.CONVERSATIONS
    for read in (lambda: record_position(record, 1), lambda: record_log_time(record), lambda: read_retry(record)):
        fault = fault_of(read)
        assert not isinstance(fault, ContractError) or fault.reason is DeadLetterReason.INVALID
    with suppress(ContractError):
        copy_headers(record, 1)


@THOROUGH
@given(cases.records())
async def test_a_dead_letter_of_any_record_fits_and_reads_back(sent: HostileRecord):
    record = as_record(sent)
    message = dead_letter(record, "intake", DeadLetterReason.INVALID, "why " * 2_000)
    assert message_size(message) <= TOPICS[Topic.DEAD_LETTERS].max_bytes
    filed = Record(Topic.DEAD_LETTERS, 0, 0, message.key, message.value, 0, dict(message.headers))
    letter, value = read_dead_letter(filed)
    assert (letter.topic, letter.partition, letter.offset) == (record.topic, record.partition, record.offset)
    assert value == record.value[: len(value)]

    async def topic() -> AsyncIterator[Record]:
        yield record  # what a hostile producer has put among the letters
        yield filed

    assert filed.offset in [one.record.offset for one in await file_letters(topic())]
    read_closed(record)


@pytest.mark.timeout(300)
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(cases.records(), min_size=1, max_size=8))
async def test_whatever_is_in_the_log_the_next_conversation_is_answered(sent: list[HostileRecord]):
    limits = RunnerSettings(attempts=1, failures=FailureLimit(share=1.0), retry_limit_s=5)
    pipeline = make_pipeline(runner_settings=limits, epoch=1)
    for one in sent:
        message = Message(one.topic, one.key, one.value or b"", tuple(one.headers), one.place(4))
        if not excess_of(message):  # what exceeds it no broker takes
            await pipeline.send(message)
    letters = [record for record in pipeline.log.records(Topic.DEAD_LETTERS) if record.headers.get("eunoe-dead-letter")]
    assert not [record for record in letters if b'"reason":"failed"' in record.headers["eunoe-dead-letter"]]
    await pipeline.produce(utterance(1, "What?", conversation="another", ask={"request_id": "r-another"}))
    replies = [decode(record.value) for record in pipeline.log.records(Topic.REPLIES) if b"r-another" in record.value]
    assert len(replies) == 1
