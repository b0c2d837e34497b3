"""Records in compressed blocks: nothing is lost, and they take a fraction of the room."""

import tracemalloc

from eunoe.streams.memory_log import MemoryLog
from eunoe.streams.packed_records import BLOCK_BYTES, PackedRecords
from eunoe.streams.record import Message, Record
from eunoe.streams.topics import Topic

TEXT = b'{"tenant": "default", "text": "we went to the lake with the dog, number %d"}'


def records(count: int) -> list[Record]:
    headers = {"traceparent": b"00-1", "bytes": bytes(range(256))}
    return [
        Record(Topic.CHANGES, 1, n, None if n % 7 == 0 else b"a/\xff", TEXT % n * 20, 1_760_000_000_000 + n, headers)
        for n in range(count)
    ]


def test_records_come_back_as_they_were_in_their_order() -> None:
    for count in (0, 1, 3, 200):
        found = PackedRecords.of(records(count))
        assert len(found) == count
        assert list(found) == records(count)
        assert list(found) == records(count), "they can be read again"


def test_packed_records_take_a_fifth_of_their_room_at_most() -> None:
    plain = sum(len(record.value) for record in records(1_000))
    assert plain > 10 * BLOCK_BYTES
    PackedRecords.of(records(1_000))  # what is made once for all
    tracemalloc.start()  # the size of an object does not tell what is allocated for it
    try:
        packed = PackedRecords.of(records(1_000))
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(packed) == 1_000
    assert held <= plain / 5


def test_a_few_records_are_not_packed() -> None:
    assert not PackedRecords.of(records(3))._blocks


def test_a_drained_log_holds_nothing_and_counts_on() -> None:
    log = MemoryLog(partitions=2)
    first = [log.append(Message(Topic.SESSIONS, key, b"1")) for key in (b"a", b"b", b"a")]
    assert sorted(log.drain(), key=lambda record: record.offset) == sorted(first, key=lambda record: record.offset)
    assert (log.records(Topic.SESSIONS), log.drain()) == ([], [])
    again = log.append(Message(Topic.SESSIONS, b"a", b"2"))
    assert again.offset == sum(record.partition == again.partition for record in first)
    assert log.after(Topic.SESSIONS, again.partition, again.offset) == again
    assert log.after(Topic.SESSIONS, again.partition, again.offset + 1) is None
    assert log.run_of(again) == [again]
    assert len(log) == 4
