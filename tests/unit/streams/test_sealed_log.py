"""The log of a conversation from its sealed copies and the door: all of it, in its order, nothing twice."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eunoe.schemas.decisions import Scope
from eunoe.schemas.errors import Unavailable
from eunoe.schemas.events import Ask, Utterance
from eunoe.schemas.keys import Destruction
from eunoe.streams.codec import encode
from eunoe.streams.memory_log import MemoryLog
from eunoe.streams.position import LOG_TIME_HEADER, POSITION_HEADER
from eunoe.streams.record import Message, Record, Revoked
from eunoe.streams.retries import RETRY_HEADER
from eunoe.streams.sealed.log import in_log_order, logged, original, position_in_log, restored
from eunoe.streams.sealed.records import SEALED_HEADER, seal_message
from eunoe.streams.topics import Topic
from eunoe.workers.registry import STAGES, StageSettings
from eunoe.workers.runner.inbound import LogPlace
from eunoe.workers.runner.metrics import StageMeter
from eunoe.workers.runner.outbox import Sender
from eunoe.workers.runner.parts import RunnerContext
from eunoe.workers.runner.runner import Runner
from eunoe.workers.stores.data_keys.cached import CachedKeys
from tests.support.in_memory import Stores, make_dependencies
from tests.support.memory.key_store import MemoryKeyStore
from tests.support.runner_bench import QUICK, Lease

KEY, EPOCH = b"default/c", 3
MILLISECONDS = 1_780_000_000_123


def said(offset: int, copied_from: tuple[int, int] | None = None) -> Record:
    """A record of the door: one of this epoch, or a copy of an earlier one."""
    headers = {RETRY_HEADER: b"intake"}
    if copied_from is not None:
        headers |= {POSITION_HEADER: b"%d:%d" % copied_from, LOG_TIME_HEADER: b"2026-01-01T00:00:00Z"}
    event = Utterance(conversation_id="c", utterance_id=f"u{offset}", speaker="Ann", text="Hello", at=datetime.now(UTC))
    return Record(Topic.CONVERSATIONS, 0, offset, KEY, encode(event), MILLISECONDS + offset, headers)


def door(copies: int, own: int) -> list[Record]:
    """The records of a conversation: copies of earlier epochs first, as they were played back."""
    earlier = [said(at, (at % 2 if copies < 2 else min(at // 2, EPOCH - 1), 7 + at)) for at in range(copies)]
    return [*earlier, *(said(copies + at) for at in range(own))]


class Topics:
    """Topic `log` with a key store."""

    def __init__(self) -> None:
        self.keys = MemoryKeyStore()
        self.log = MemoryLog(partitions=1)

    async def write(self, records: Sequence[Record], sealed_with: str | None = None) -> None:
        for record in records:
            message = await seal_message(logged(record, EPOCH, sealed_with), self.keys)
            assert message is not None
            self.log.append(message)

    @property
    def records(self) -> list[Record]:
        return [replace(one, timestamp_ms=MILLISECONDS + 60_000) for one in self.log.records(Topic.LOG)]

    async def read(self, door: Sequence[Record]) -> list[Record]:
        found = await restored([*self.records, *door], self.keys, EPOCH)
        return [replace(record, stored=None) for record in found]


def same(found: Sequence[Record], expected: Sequence[Record]) -> bool:
    """Equal in all that a derivation reads; of copies the place in the door is not kept."""
    assert [position_in_log(one, EPOCH) for one in found] == [position_in_log(one, EPOCH) for one in expected]
    return [replace(one, offset=0, timestamp_ms=0) for one in found] == [
        replace(one, offset=0, timestamp_ms=0) for one in expected
    ]


async def test_a_record_comes_back_as_it_was() -> None:
    topics, record = Topics(), said(5)
    await topics.write([replace(record, headers={**record.headers, "about": b"Hello"})])
    (stored,) = topics.records
    assert b"Hello" not in stored.value + b"".join(stored.headers.values())
    assert stored.headers[POSITION_HEADER] == b"3:5"
    assert await topics.read([]) == [record]


@given(
    st.integers(0, 6),
    st.integers(0, 12),
    st.data(),
)
async def test_the_log_is_whole_wherever_its_parts_lie(copies: int, own: int, data: st.DataObject) -> None:
    """A prefix from before the key store is plain, a part is sealed, some of it twice; the door has lost its begin."""
    all_ = door(copies, own)
    count = len(all_)
    first = data.draw(st.integers(0, count), "first sealed")
    handled = data.draw(st.integers(first, count), "handled")
    lost = data.draw(st.integers(0, handled), "lost by the door") if first == 0 else 0
    sealed = all_[first:handled]
    repeats = data.draw(st.lists(st.sampled_from(sealed), max_size=5), "repeats") if sealed else []
    topics = Topics()
    await topics.write(data.draw(st.permutations([*sealed, *repeats])))
    assert same(await topics.read(all_[lost:]), all_)


@given(st.integers(1, 10), st.data())
async def test_what_is_sealed_anew_stands_in_its_place(own: int, data: st.DataObject) -> None:
    """Interrupted anywhere, nothing is lost; and when the old key is destroyed, all of it stands under the new one."""
    all_, topics = door(2, own), Topics()
    first = data.draw(st.integers(0, len(all_)))
    await topics.write(all_[first:])
    old = await topics.keys.current("default/c")
    new = await topics.keys.replace("default/c")
    gone = data.draw(st.sets(st.sampled_from(range(len(all_)))))
    remaining = [record for at, record in enumerate(all_) if at not in gone]
    kept = {position_in_log(one, EPOCH) for one in remaining}

    async def read() -> list[Record]:
        """Those that are not erased: readers leave out the others by the ledger."""
        return [record for record in await topics.read(all_) if position_in_log(record, EPOCH) in kept]

    until = data.draw(st.integers(0, len(remaining)))
    await topics.write([*reversed(remaining)][:until], new.id)  # from the last to the first
    assert same(await read(), remaining)
    await topics.write([*reversed(remaining)], new.id)
    assert same(await read(), remaining)
    await topics.keys.destroy(old.id, Destruction.REPLACED)
    assert same(await topics.read([]), remaining)
    assert await topics.read([]) == await topics.read([])


async def test_a_forged_position_between_those_of_the_log_counts_for_nothing() -> None:
    topics, all_ = Topics(), door(0, 4)
    await topics.write(all_)
    forged = [said(9, (1, 1)), replace(all_[2], value=b"{}")]
    assert same(await topics.read([*all_, *forged]), all_)


async def test_a_plain_or_changed_record_of_the_log_is_passed_over() -> None:
    topics, record = Topics(), said(5)
    await topics.write([record])
    (stored,) = topics.records
    moved = replace(stored, headers={**stored.headers, POSITION_HEADER: b"3:6"})
    plain = replace(stored, headers={name: text for name, text in stored.headers.items() if name != SEALED_HEADER})
    assert await restored([moved, plain], topics.keys, EPOCH) == []


async def test_a_missing_key_is_waited_for() -> None:
    topics = Topics()
    await topics.write([said(1)])
    with pytest.raises(Unavailable, match="neither the key"):
        await restored(topics.records, MemoryKeyStore(), EPOCH)
    with pytest.raises(Unavailable, match="EUNOE_KEYS__STORE"):
        await restored(topics.records, None, EPOCH)


def test_without_a_sealed_log_the_door_is_all() -> None:
    records = [said(1), said(2), said(0, (9, 1))]
    assert in_log_order([], records, EPOCH) == records


@pytest.mark.parametrize("batch", [False, True])
async def test_intake_copies_what_it_handles_once_and_the_copy_gives_the_same_record(batch: bool) -> None:
    keys, log, stores = MemoryKeyStore(), MemoryLog(partitions=1), Stores()
    sender = Sender(stores.state, stores.index, stores.log_positions, log, StageMeter())
    spec = STAGES["intake"]
    stage = spec.build(make_dependencies(stores, StageSettings()))
    runner = Runner(
        spec,
        stage,
        sender,
        stores.state,
        LogPlace(0, 1),
        RunnerContext(settings=QUICK, now=lambda: datetime.now(UTC), data_keys=CachedKeys(keys)),
    )
    event = Utterance(conversation_id="c", utterance_id="u1", speaker="Ann", text="Hello", at=datetime.now(UTC))
    asking = event.model_copy(update={"utterance_id": "u2", "ask": Ask(request_id="r1", record=False)})
    ignored = Message(Topic.CONVERSATIONS, KEY, b"{}")
    records = [
        log.append(one if isinstance(one, Message) else Message(Topic.CONVERSATIONS, KEY, encode(one)))
        for one in (event, asking, event, ignored)
    ]
    for _ in range(2):
        if batch:
            await runner.handle_batch(records, Lease())
        else:
            for record in records:
                await runner.handle(record, Lease())
    copies = log.records(Topic.LOG)
    assert len(copies) == 3  # the last one cannot be read
    found = [original(record, 0) for record in copies]  # the publisher would seal them
    assert found == [replace(one, stored=None) for one in records[:3]]
    assert (await stores.state.ledger(Scope("intake", "default/c"))).outbox is None


async def test_a_late_outbox_is_sent_under_the_key_of_its_decision_or_not_at_all() -> None:
    """A process sleeps between its commit and its messages; meanwhile the key is replaced, and then destroyed."""
    keys, stores, sent = MemoryKeyStore(), Stores(), list[Message]()

    class Sealing:
        async def publish(self, messages: Sequence[Message]) -> None:
            sent.extend([one for one in [await seal_message(message, keys) for message in messages] if one is not None])

    class Away:
        async def publish(self, messages: Sequence[Message]) -> None:
            raise Revoked(str(messages))

    spec = STAGES["intake"]
    sender = Sender(stores.state, stores.index, stores.log_positions, Away())
    stage = spec.build(make_dependencies(stores, StageSettings()))
    context = RunnerContext(settings=QUICK, data_keys=CachedKeys(keys))
    runner = Runner(spec, stage, sender, stores.state, LogPlace(EPOCH, 1), context)
    with pytest.raises(Revoked):
        await runner.handle(said(1), Lease())
    outbox = (await stores.state.ledger(Scope("intake", "default/c"))).outbox
    assert outbox is not None
    old = await keys.current("default/c")
    await keys.replace("default/c")
    late = replace(sender, publisher=Sealing())
    await late.send(Scope("intake", "default/c"), outbox)
    assert [one.headers[-1] for one in sent] == [(SEALED_HEADER, f"1:{old.id}".encode())]
    await keys.destroy(old.id, Destruction.REPLACED)
    await late.send(Scope("intake", "default/c"), outbox)
    assert len(sent) == 1
