"""A plain log from before the key store, copied into the sealed one: wherever a run ends, readers miss nothing."""

import contextlib
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr

from eunoe.deploy.generations import seal_log
from eunoe.deploy.generations.seal_log import LogSealer
from eunoe.deploy.settings import Settings
from eunoe.deploy.settings.sections import KeySettings
from eunoe.schemas.erasure import ErasedPart
from eunoe.schemas.errors import Refused, Unavailable
from eunoe.schemas.events import Utterance
from eunoe.schemas.records import GenerationPromoted
from eunoe.streams import topic_settings
from eunoe.streams.codec import decode, encode
from eunoe.streams.memory_log import MemoryLog
from eunoe.streams.position import LOG_TIME_HEADER, POSITION_HEADER
from eunoe.streams.record import Message, Publisher, Record
from eunoe.streams.sealed.log import logged, position_in_log, restored
from eunoe.streams.sealed.records import seal_message
from eunoe.streams.topics import Topic
from eunoe.workers.derive.in_memory import as_message
from tests.support.in_memory import utterance
from tests.support.memory.key_store import MemoryKeyStore

EPOCH = 1
NAMES = ("a", "b", "c")


class Broker:
    """Seals, and takes so many messages."""

    def __init__(self, log: MemoryLog, keys: MemoryKeyStore, takes: int) -> None:
        self._log, self._keys, self.takes = log, keys, takes

    async def publish(self, messages: Sequence[Message]) -> None:
        for message in messages:
            if self.takes <= 0:
                raise Unavailable("the broker is away")
            self.takes -= 1
            sealed = await seal_message(message, self._keys)
            assert sealed is not None
            self._log.append(sealed)


def sealer(log: MemoryLog, keys: MemoryKeyStore, publisher: Publisher, erased: Mapping[str, ErasedPart]) -> LogSealer:
    async def read(topic: Topic) -> AsyncIterator[Record]:
        for record in log.records(topic):
            yield record

    async def read_range(partition: int, offsets: tuple[int, int]) -> AsyncIterator[Record]:
        for record in log.records(Topic.CONVERSATIONS):
            if record.partition == partition and offsets[0] <= record.offset < offsets[1]:
                yield record

    async def found() -> Mapping[str, ErasedPart]:
        return erased

    return LogSealer(read, read_range, publisher, keys, found, log.partitions, EPOCH, chunk=4)


async def read(log: MemoryLog, keys: MemoryKeyStore, *topics: Topic) -> dict[str, list[str]]:
    """Conversation → the ids of its utterances."""
    found = {}
    for name in NAMES:
        key = f"default/{name}".encode()
        records = [record for topic in topics for record in log.records(topic) if record.key == key]
        events, applied = [], 0
        for record in await restored(records, keys, EPOCH):
            at = position_in_log(record, EPOCH)
            if at > applied:  # intake ignores the others
                events.append(decode(record.value))
                applied = at
        found[name] = [event.utterance_id for event in events if isinstance(event, Utterance)]
    return found


@given(st.data())
async def test_a_plain_log_is_sealed_wherever_an_attempt_ends(data: st.DataObject) -> None:
    log, keys = MemoryLog(partitions=2), MemoryKeyStore()
    spoken = data.draw(st.lists(st.sampled_from(NAMES), max_size=16), "spoken")
    records = []
    for number, name in enumerate(spoken):
        if data.draw(st.booleans()) and number % 5 == 4:  # a forged position, which intake has ignored
            forged = as_message(utterance(100 + number, conversation=name))
            headers = ((POSITION_HEADER, b"0:0"), (LOG_TIME_HEADER, b"2026-01-01T00:00:00Z"))
            if any(decode(record.value).key == f"default/{name}" for record in records):  # type: ignore[attr-defined]
                log.append(Message(forged.topic, forged.key, forged.value, headers))
        records.append(log.append(as_message(utterance(number, conversation=name))))
    promoted = GenerationPromoted(generation="v2", at=datetime.now(UTC), nonce="n")
    log.append(Message(Topic.CONVERSATIONS, None, encode(promoted), partition=1))
    since = data.draw(st.integers(0, len(records)), "key store since")
    for record in records[since:]:
        await Broker(log, keys, 1).publish([logged(record, EPOCH)])
    expected = {name: [f"u{at}" for at, one in enumerate(spoken) if one == name] for name in NAMES}
    both = (Topic.LOG, Topic.CONVERSATIONS)
    for takes in (*data.draw(st.lists(st.integers(0, 9), max_size=3), "attempts"), 1000):
        with contextlib.suppress(Unavailable):
            await sealer(log, keys, Broker(log, keys, takes), {}).run()
        assert await read(log, keys, *both) == expected
    assert await read(log, keys, Topic.LOG) == expected
    assert [record.key for record in log.records(Topic.LOG) if record.key is None and record.partition == 1]
    assert await sealer(log, keys, Broker(log, keys, 1000), {}).run() == 1  # the promotion


async def test_what_is_erased_is_not_sealed() -> None:
    log, keys = MemoryLog(partitions=1), MemoryKeyStore()
    for number in range(4):
        log.append(as_message(utterance(number, conversation="a")))
    part = ErasedPart(key="default/a", salt="s", until=(EPOCH << 40) + 2)
    assert await sealer(log, keys, Broker(log, keys, 1000), {"default/a": part}).run() == 2
    assert (await read(log, keys, Topic.LOG))["a"] == ["u2", "u3"]


async def test_no_erasure_runs_between_the_look_at_the_ledger_and_the_copies() -> None:
    log, keys, steps = MemoryLog(partitions=2), MemoryKeyStore(), list[str]()
    for number in range(6):
        log.append(as_message(utterance(number, conversation="a")))

    @contextlib.asynccontextmanager
    async def alone() -> AsyncIterator[None]:
        steps.append("alone")
        yield
        steps.append("no longer")

    class Noting(Broker):
        async def publish(self, messages: Sequence[Message]) -> None:
            steps.append("copies")
            await super().publish(messages)

    async def erased() -> Mapping[str, ErasedPart]:
        steps.append("looks")
        return {}

    made = replace(sealer(log, keys, Noting(log, keys, 100), {}), erased=erased, alone=alone)
    assert await made.run() == 6
    assert steps == 2 * ["alone", "looks", "copies", "no longer"]


async def test_who_may_not_shorten_the_retention_is_told_before_anything_is_copied(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def partitions(*_: object) -> int:
        return 1

    async def denied(_: object, name: str) -> None:
        raise Refused(f"grant AlterConfigs on topic {name}")

    async def size(*_: object) -> int:
        raise AssertionError("the log was read")

    for name, fake in {"check_partitions": partitions, "check_alterable": denied, "topic_size": size}.items():
        monkeypatch.setattr(seal_log, name, fake)
    settings = Settings(kafka="127.0.0.1:9092", keys=KeySettings(store=SecretStr("keys.sqlite")))
    with pytest.raises(Refused, match=r"AlterConfigs on topic eunoe\.conversations"):
        await seal_log.seal_log(settings, lambda *_: None)


class Admin:
    """Describes and alters the settings of topics; code 29 is the answer to a user without the right."""

    def __init__(self, described: int, altered: int = 0) -> None:
        self.codes = described, altered
        self.asked: list[dict[str, str]] = []

    async def describe_configs(self, _: object) -> list[Any]:
        entries = [] if self.codes[0] else [("message.timestamp.type", "LogAppendTime", False, 1, False, [])]
        return [SimpleNamespace(resources=[(self.codes[0], None, 2, "t", entries)])]

    async def alter_configs(self, resources: Sequence[Any]) -> list[Any]:
        self.asked.append(resources[0].configs)
        return [SimpleNamespace(resources=[(self.codes[1], None, 2, "t")])]


@pytest.mark.parametrize(
    ("codes", "asked"), [((29, 0), []), ((0, 29), [{"message.timestamp.type": "LogAppendTime", "retention.ms": "5"}])]
)
async def test_settings_that_the_broker_does_not_tell_are_not_replaced(
    codes: tuple[int, int], asked: list[dict[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    admin = Admin(*codes)
    monkeypatch.setattr(topic_settings, "open_admin", lambda _: contextlib.nullcontext(admin))
    with pytest.raises(Refused, match="grant AlterConfigs on topic t"):
        await topic_settings.set_retention(cast("Any", None), "t", 5)
    assert admin.asked == asked
