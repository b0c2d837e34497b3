"""Hostile and careless producers beside clients who talk and ask: nobody else notices them."""

from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Producer

from eunoe.schemas.identity import conversation_key
from eunoe.streams.dead_letters import read_dead_letter
from eunoe.streams.settings import partition_of
from eunoe.streams.topics import Topic
from tests.support.asking import asked_all_the_time
from tests.support.in_memory import ended, utterance
from tests.support.pipeline import PARTITIONS, Pipeline

pytestmark = [pytest.mark.broker, pytest.mark.timeout(240)]

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
Headers = list[tuple[str, bytes]]


def key_of(conversation: str) -> bytes:
    return conversation_key("default", conversation).encode()


def said(conversation: str, **more: Any) -> bytes:
    return utterance(1, conversation=conversation, **more).to_json()


def hostile() -> Iterator[tuple[str, bytes | None, bytes, Headers, str]]:
    """Name, key, value, headers and the reason of the dead letter."""
    edge = said("edge").replace(b'"2026-01-01T00:01:00Z"', b'"0001-01-01T00:00:00+01:00"')
    yield "a time before the calendar", key_of("edge"), edge, [], "invalid"
    far = said("far").replace(b'"2026-01-01T00:01:00Z"', b'"9999-12-31T00:00:00Z"')
    yield "a time beyond all clocks", key_of("far"), far, [], "invalid"
    place = [("eunoe-position", b"8388607:1099511627774"), ("eunoe-log-time", b"2026-01-01T00:00:00Z")]
    yield "a place that was never given", key_of("place"), said("place"), place, "invalid"
    yield "no key", None, said("keyless"), [], "bad_key"
    yield "no JSON", key_of("text"), b"\xff\x00 no JSON", [], "not_json"
    yield "nested without end", key_of("deep"), b"[" * 500_000, [], "not_json"
    yield "nothing", key_of("empty"), b"", [], "not_json"
    yield "a text that is too long", key_of("long"), said("long", text="x" * 40_000), [], "too_long"


class Careless:
    """A librdkafka producer; ``config`` as its users set it."""

    def __init__(self, pipeline: Pipeline, **config: str) -> None:
        bootstrap, self._topic = pipeline.conversations
        self._producer = Producer({"bootstrap.servers": bootstrap, "message.timeout.ms": 20_000, **config})

    def send(self, key: bytes | None, value: bytes, headers: Headers | None = None) -> None:
        """Produce one record, and wait until the broker has it."""
        faults: list[object] = []

        def delivered(fault: object, _message: object) -> None:
            if fault is not None:
                faults.append(fault)

        partition = 0 if key is None else partition_of(key, PARTITIONS)
        self._producer.produce(
            self._topic, value, key, partition=partition, headers=headers or [], on_delivery=delivered
        )
        assert self._producer.flush(20) == 0
        assert not faults


async def reasons(pipeline: Pipeline) -> list[str]:
    return [read_dead_letter(record)[0].reason.value for record in await pipeline.records(Topic.DEAD_LETTERS)]


async def test_nobody_notices_a_hostile_producer(pipeline: Pipeline):
    async with pipeline.up() as process, asked_all_the_time(pipeline, "bystander", "Who moved?", "Ann") as asking:
        await asking.more(1)
        expected = []
        for name, key, value, headers, reason in hostile():
            Careless(pipeline).send(key, value, headers)
            expected.append(reason)
            await asking.more(2, after=name)
        for codec in CODECS:
            producer, name = Careless(pipeline, **{"compression.type": codec}), f"codec-{codec}"
            for event in (utterance(1, "We moved to Lyon. " * 50, conversation=name), ended(conversation=name)):
                producer.send(key_of(name), event.to_json())
        for codec in CODECS:
            view = await pipeline.everything_remembered(f"codec-{codec}")
            assert [line.utterance_id for segment in view.segments for line in segment.lines] == ["u1"]
        await asking.more(2, after="compressed batches")
        assert sorted(await reasons(pipeline)) == sorted(expected)
        assert process.returncode is None
