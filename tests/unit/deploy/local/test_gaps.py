"""A consumer waits at a gap in the log."""

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from aiokafka import TopicPartition
from hypothesis import given
from hypothesis import strategies as st

from eunoe.deploy.local.tansu.gaps import GAP_WAIT_S, Gaps
from eunoe.streams.batches import UnreadableBatch

PLACE = TopicPartition("log", 0)


@dataclass
class Clock:
    seconds: float = 0.0

    def __call__(self) -> float:
        return self.seconds


def fetch(gaps: Gaps, begin: int, offsets: list[int]) -> tuple[list[int], int]:
    """The offsets handed out of a fetch that begins at ``begin``, and the begin of the next fetch."""
    fetched: Any = SimpleNamespace(next_fetch_offset=begin)

    def unpacked() -> Iterator[Any]:
        for offset in offsets:
            fetched.next_fetch_offset = offset + 1
            yield SimpleNamespace(offset=offset, value=b"")

    return [record.offset for record in gaps.until_gap(PLACE, fetched, unpacked())], fetched.next_fetch_offset


@given(st.lists(st.sets(st.integers(0, 30)), max_size=20))
def test_records_are_handed_out_once_and_in_order_however_they_appear(appearing: list[set[int]]):
    gaps, shown, given_out, position = Gaps(), set[int](), list[int](), 0
    for now in [*appearing, set(range(31))]:
        shown |= now
        found, position = fetch(gaps, position, [offset for offset in sorted(shown) if offset >= position])
        given_out += found
    assert given_out == list(range(31))


def test_a_gap_that_stays_is_passed_over_and_logged(caplog):
    clock = Clock()
    gaps = Gaps(clock=clock)
    assert fetch(gaps, 3, [3, 4, 7, 8]) == ([3, 4], 5)
    clock.seconds = GAP_WAIT_S * 0.9
    assert fetch(gaps, 5, [7, 8]) == ([], 5)
    clock.seconds = GAP_WAIT_S
    with caplog.at_level(logging.WARNING):
        assert fetch(gaps, 5, [7, 8, 11]) == ([7, 8], 9)
    assert caplog.messages == ["gap passed over: log/0@5 to 6"]


def test_a_batch_that_cannot_be_read_is_no_gap():
    """Waiting for the rest of each such batch would let one producer delay all others."""
    values = {3: b"", 4: UnreadableBatch.of(b"batch", 6), 7: b"", 8: b""}
    records = [SimpleNamespace(offset=offset, value=value) for offset, value in values.items()]
    found = Gaps().until_gap(PLACE, SimpleNamespace(next_fetch_offset=3), iter(records))
    assert [record.offset for record in found] == [3, 4, 7, 8]
