from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eunoe.schemas.records import DeadLetterReason
from eunoe.schemas.versions import ContractError
from eunoe.streams.position import (
    LAST_EPOCH,
    LOG_TIME_HEADER,
    POSITION_HEADER,
    copy_headers,
    is_copy,
    own_headers,
    position,
    record_log_time,
    record_position,
    split_position,
)
from eunoe.streams.record import Record
from tests.support.contracts import calm

epochs = st.integers(0, 2**23 - 1)
LATER_MS = 4_000_000_000_001
offsets = st.integers(0, 2**40 - 2)
times = st.integers(0, 4_000_000_000_000)


def record(offset=7, timestamp_ms=1_700_000_000_123, **headers):
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Record("conversations", 3, offset, b"default/c", b"{}", timestamp_ms, named)


@calm
@given(epochs, offsets)
def test_a_position_tells_its_epoch_and_offset(epoch, offset):
    assert split_position(position(epoch, offset)) == (epoch, offset)
    assert 0 < position(epoch, offset) < 2**63


@calm
@given(st.tuples(epochs, offsets), st.tuples(epochs, offsets))
def test_positions_order_the_log(one, other):
    assert (position(*one) < position(*other)) == (one < other)


def test_positions_of_the_first_8192_epochs_are_exact_as_doubles():
    last = position(8191, 2**40 - 2)
    assert int(float(last)) == last
    assert int(float(last - 1)) == last - 1


@pytest.mark.parametrize(("epoch", "offset"), [(-1, 0), (0, -1), (2**23, 0), (0, 2**40 - 1)])
def test_no_position_beyond_the_bounds(epoch, offset):
    with pytest.raises(ValueError, match="no position"):
        position(epoch, offset)


@pytest.mark.parametrize("value", [0, -1, 2**40, 2**63 + 1])
def test_no_other_number_is_a_position(value):
    with pytest.raises(ValueError, match="not a position"):
        split_position(value)


def test_a_record_stands_where_it_is_read():
    fresh = record()
    assert not is_copy(fresh)
    assert record_position(fresh, 5) == position(5, 7)
    assert record_log_time(fresh) == datetime(2023, 11, 14, 22, 13, 20, 123000, UTC)


@calm
@given(epochs.filter(lambda epoch: epoch < LAST_EPOCH), offsets, times, offsets, st.data())
def test_a_copy_of_a_copy_stands_where_the_first_stood(epoch, offset, timestamp_ms, place, data):
    later, latest = (data.draw(st.integers(epoch + 1, LAST_EPOCH)) for _ in range(2))
    first = record(offset, timestamp_ms)
    copy = Record("conversations", 0, place, first.key, first.value, LATER_MS, dict(copy_headers(first, epoch)))
    again = Record("conversations", 1, place + 1, first.key, first.value, LATER_MS, dict(copy_headers(copy, later)))
    assert is_copy(copy)
    assert record_position(again, latest) == record_position(first, epoch) == position(epoch, offset)
    assert record_log_time(again) == record_log_time(first) == first.appended


def test_a_copy_keeps_its_other_headers():
    headers = copy_headers(record(trace=b"\xff"), 2)
    assert dict(headers) == {
        "trace": b"\xff",
        POSITION_HEADER: b"2:7",
        LOG_TIME_HEADER: b"2023-11-14T22:13:20.123000Z",
    }
    assert len(headers) == 3


def test_what_is_sent_again_loses_its_place():
    copy = record(trace=b"1", eunoe_position=b"0:1", eunoe_log_time=b"2026-03-01T09:30:00Z")
    assert own_headers(copy) == (("trace", b"1"),)


def test_a_log_time_of_any_zone_is_told_in_utc():
    here = record(timestamp_ms=LATER_MS, eunoe_position=b"0:1", eunoe_log_time=b"2026-03-01T18:30:00+09:00")
    expected = datetime(2026, 3, 1, 18, 30, tzinfo=timezone(timedelta(hours=9)))
    assert record_log_time(here) == expected
    assert record_log_time(here).tzinfo is UTC


@pytest.mark.parametrize(
    "header",
    [
        *(b"", b"1", b"1:", b":1", b"-1:2", b"1:-2", b"1:2:3", b" 1:2", b"1:2\n", b"a:b", b"\xff:1"),
        *(b"9999999:1", b"1:1099511627775", b"1:9999999999999", "١:٢".encode()),
    ],
)
def test_a_malformed_position(header):
    broken = record(eunoe_position=header, eunoe_log_time=b"2026-03-01T09:30:00Z")
    for read in (lambda: record_position(broken, 0), lambda: copy_headers(broken, 0)):
        with pytest.raises(ContractError, match="eunoe-position") as caught:
            read()
        assert caught.value.reason is DeadLetterReason.INVALID


@pytest.mark.parametrize(
    "header",
    [b"", b"yesterday", b"2026-03-01", b"2026-03-01T09:30:00", b"2026-13-01T09:30:00Z", b"\xff", b"1772357400"],
)
def test_a_malformed_log_time(header):
    with pytest.raises(ContractError, match="eunoe-log-time") as caught:
        record_log_time(record(eunoe_position=b"0:1", eunoe_log_time=header))
    assert caught.value.reason is DeadLetterReason.INVALID


@pytest.mark.parametrize("header", [b"0001-01-01T00:00:00+09:00", b"9999-12-31T23:59:59-09:00"])
def test_a_log_time_at_the_end_of_the_calendar(header):
    with pytest.raises(ContractError) as caught:
        record_log_time(record(eunoe_position=b"0:1", eunoe_log_time=header))
    assert caught.value.reason is DeadLetterReason.INVALID


def test_a_copy_without_its_time():
    with pytest.raises(ContractError, match="without eunoe-log-time"):
        record_log_time(record(eunoe_position=b"0:1"))


@pytest.mark.parametrize("timestamp_ms", [2**62, -(2**62), 10**15])
def test_a_time_stamp_that_is_no_date(timestamp_ms):
    with pytest.raises(ContractError, match="is no date") as caught:
        record_log_time(record(timestamp_ms=timestamp_ms))
    assert caught.value.reason is DeadLetterReason.INVALID


def test_a_log_time_is_believed_of_copies_only():
    claimed = record(eunoe_log_time=b"2001-03-01T09:30:00Z")
    assert not is_copy(claimed)
    assert record_log_time(claimed) == claimed.appended
    forwarded = record(eunoe_log_time=b"2001-03-01T09:30:00Z", eunoe_copied=b"0:1:2")
    assert record_log_time(forwarded) == datetime(2001, 3, 1, 9, 30, tzinfo=UTC)
    assert record_position(forwarded, 1) == position(1, 7)


def test_a_log_time_long_after_the_copy_is_refused():
    with pytest.raises(ContractError, match="is later than the copy"):
        record_log_time(record(eunoe_position=b"0:1", eunoe_log_time=b"9999-03-01T09:30:00Z"))


@pytest.mark.parametrize("header", [b"3:0", b"4:0", b"8388607:1099511627774"])
def test_a_place_in_an_epoch_that_has_not_ended_is_refused(header):
    claimed = record(eunoe_position=header, eunoe_log_time=b"2001-03-01T09:30:00Z")
    with pytest.raises(ContractError, match="is not before this log's, 3") as caught:
        record_position(claimed, 3)
    assert caught.value.reason is DeadLetterReason.INVALID
    assert record_position(record(eunoe_position=b"2:9"), 3) == position(2, 9)
