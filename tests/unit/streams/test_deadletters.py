import hashlib
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eunoe.schemas.records import DeadLetterReason
from eunoe.schemas.versions import ContractError
from eunoe.streams.dead_letters import (
    DEAD_LETTER_HEADER,
    KEPT_BYTES,
    dead_letter,
    distinct_letters,
    letter_identity,
    message_size,
    read_dead_letter,
)
from eunoe.streams.record import Message, Record
from eunoe.streams.topics import DEFAULT_MAX_BYTES, TOPICS, Topic
from tests.support.contracts import calm

LIMIT = TOPICS[Topic.DEAD_LETTERS].max_bytes


def record(value=b"no json", key=b"default/c", headers=None, offset=9, timestamp_ms=1_700_000_000_000):
    return Record(Topic.CONVERSATIONS, 2, offset, key, value, timestamp_ms, headers or {})


def landed(message: Message, offset=0) -> Record:
    return Record(message.topic, 0, offset, message.key, message.value, 5, dict(message.headers))


def set_aside(source: Record, error="it was wrong", attempts=1) -> Message:
    return dead_letter(source, "intake", DeadLetterReason.NOT_JSON, error, attempts)


@calm
@given(st.binary(max_size=100), st.none() | st.binary(max_size=50), st.dictionaries(st.text(), st.binary()), st.text())
def test_a_dead_letter_holds_the_record_as_it_was(value, key, headers, error):
    source = record(value, key, headers)
    message = set_aside(source, error, attempts=3)
    letter, raw = read_dead_letter(landed(message))
    assert (message.topic, message.key, raw) == (Topic.DEAD_LETTERS, key, value)
    assert dict(message.headers) == {**headers, DEAD_LETTER_HEADER: dict(message.headers)[DEAD_LETTER_HEADER]}
    assert (letter.stage, letter.topic, letter.partition, letter.offset) == ("intake", "conversations", 2, 9)
    assert (letter.reason, letter.error, letter.attempts) == (DeadLetterReason.NOT_JSON, error, 3)
    assert (letter.size, letter.sha256, letter.truncated) == (len(value), hashlib.sha256(value).hexdigest(), False)
    assert letter.log_time == datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)


def test_a_long_error_is_clipped():
    letter, _ = read_dead_letter(landed(set_aside(record(), "é" * 5000)))
    assert letter.error == "é" * 1999 + "…"


def test_an_error_that_quotes_a_lone_surrogate():
    letter, _ = read_dead_letter(landed(set_aside(record(), "got '\ud800'")))
    assert letter.error == "got '?'"


def full_record(headers=None) -> Record:
    """A record whose batch takes exactly what a topic takes, and a little more."""
    empty = message_size(Message(Topic.CONVERSATIONS, b"default/c", b"", tuple((headers or {}).items())))
    return record(b"x" * (DEFAULT_MAX_BYTES - empty + 64 + 10), headers=headers)


@pytest.mark.parametrize("error", ["short", "\0" * 5000, "🙂" * 5000])
def test_a_record_at_the_limit_fits_whole(error):
    source = full_record({"trace": b"\0" * 1000})
    message = set_aside(source, error)
    assert message.value == source.value
    assert message_size(message) <= LIMIT
    assert not read_dead_letter(landed(message))[0].truncated


def test_a_record_over_the_limit_keeps_its_first_bytes_and_tells_the_rest():
    source = record(bytes(range(256)) * 8000, headers={"trace": b"1"})
    message = set_aside(source)
    letter, raw = read_dead_letter(landed(message))
    assert raw == source.value[:KEPT_BYTES]
    assert dict(message.headers)["trace"] == b"1"
    assert letter.truncated
    assert (letter.size, letter.sha256) == (len(source.value), hashlib.sha256(source.value).hexdigest())


def test_headers_and_keys_that_are_too_large_go_last():
    huge = b"x" * (LIMIT + 1)
    by_headers = set_aside(record(headers={"huge": huge}))
    assert [name for name, _ in by_headers.headers] == [DEAD_LETTER_HEADER]
    assert by_headers.key == b"default/c"
    by_key = set_aside(record(key=huge))
    assert by_key.key is None
    for message in (by_headers, by_key):
        assert message_size(message) <= LIMIT
        assert read_dead_letter(landed(message))[0].truncated


def test_a_record_with_a_wrong_time_or_place_is_set_aside_all_the_same():
    misplaced = record(headers={"eunoe-position": b"nonsense"})
    for source, dated in (
        (record(timestamp_ms=2**62), datetime(1970, 1, 1, tzinfo=UTC)),
        (misplaced, misplaced.appended),
    ):
        letter, raw = read_dead_letter(landed(set_aside(source)))
        assert raw == source.value
        assert letter.log_time == dated


def test_a_copy_is_dated_to_its_first_time():
    source = record(headers={"eunoe-position": b"0:1", "eunoe-log-time": b"2021-03-01T09:30:00Z"})
    letter, _ = read_dead_letter(landed(set_aside(source)))
    assert letter.log_time == datetime(2021, 3, 1, 9, 30, tzinfo=UTC)


@pytest.mark.parametrize("headers", [{}, {DEAD_LETTER_HEADER: b"{"}, {DEAD_LETTER_HEADER: b'{"stage": "intake"}'}])
def test_what_is_no_dead_letter(headers):
    with pytest.raises(ContractError, match=DEAD_LETTER_HEADER):
        read_dead_letter(record(headers=headers))


async def in_order(*records):
    for each in records:
        yield each


async def test_what_was_set_aside_twice_is_listed_once(caplog):
    one, other, elsewhere = record(offset=1), record(offset=2), record(b"another generation's", offset=1)
    read = in_order(
        landed(set_aside(one), 0),
        landed(set_aside(other), 1),
        landed(set_aside(one, "said otherwise"), 2),
        landed(Message(Topic.DEAD_LETTERS, None, b"foreign"), 3),
        landed(set_aside(elsewhere), 4),
        landed(dead_letter(one, "segment", DeadLetterReason.FAILED, ""), 5),
        landed(Message(Topic.DEAD_LETTERS, None, b"foreign, too"), 6),
    )
    found = [(at.offset, letter) async for at, letter in distinct_letters(read)]
    assert [offset for offset, _ in found] == [0, 1, 4, 5]
    assert len({letter_identity(letter) for _, letter in found}) == 4
    (told,) = caplog.messages
    assert told.startswith("records that are no dead letters, passed over: 2; the first is dead-letters/0@3: no header")
