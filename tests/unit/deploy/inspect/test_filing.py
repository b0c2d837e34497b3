"""What is done about dead letters, told in their own topic."""

import re
from collections.abc import AsyncIterator, Iterable
from datetime import UTC, datetime

import pytest

from eunoe.deploy.inspect.dead_letters import LetterFilter, letter_id, retry_obstacle
from eunoe.schemas.records import DeadLetter, DeadLetterReason
from eunoe.schemas.versions import ContractError
from eunoe.streams.dead_letters import (
    Closing,
    Filed,
    closing_message,
    dead_letter,
    distinct_letters,
    file_letters,
    read_closed,
    read_dead_letter,
)
from eunoe.streams.record import Message, Record
from eunoe.streams.retries import RETRY_HEADER, Retry, read_retry, retry_message
from eunoe.streams.topics import Topic

NOW = datetime(2026, 3, 1, tzinfo=UTC)


def record(topic: str = Topic.SESSIONS, offset: int = 9, headers: dict[str, bytes] | None = None) -> Record:
    return Record(topic, 2, offset, b"default/c", b"bytes", 1_700_000_000_000, headers or {})


def filed(
    stage: str = "segment",
    reason: DeadLetterReason = DeadLetterReason.FAILED,
    topic: str = Topic.SESSIONS,
    offset: int = 9,
) -> Filed:
    message = dead_letter(record(topic, offset), stage, reason, "ValueError: odd", number=3)
    return Filed(landed(message), read_one(message))


def read_one(message: Message) -> DeadLetter:
    return read_dead_letter(landed(message))[0]


def landed(message: Message) -> Record:
    return Record(message.topic, 0, 0, message.key, message.value, 5, dict(message.headers))


async def stream(records: Iterable[Record]) -> AsyncIterator[Record]:
    for one in records:
        yield one


async def test_a_letter_is_open_until_its_own_topic_says_otherwise():
    one, other = filed(), filed(offset=10)
    closing = landed(closing_message(one, Closing.DISCARDED, NOW))
    for order in ([one.record, other.record, closing], [closing, one.record, other.record, one.record]):
        found = await file_letters(stream(order))
        assert [each.closed.how if each.closed else None for each in found] == [Closing.DISCARDED, None]
    assert [letter.offset async for _, letter in distinct_letters(stream([closing, one.record]))] == [9]


async def test_a_list_of_letters_holds_no_bodies_and_only_those_it_is_about():
    one, other = filed(), filed("tree", offset=10)
    choice = LetterFilter(stage="segment")
    (found,) = await file_letters(stream([one.record, other.record]), choice.describes, bodies=False)
    assert (found.letter, found.record.value, found.record.headers) == (one.letter, b"", {})
    (whole,) = await file_letters(stream([one.record, other.record]), choice.describes)
    assert whole.record == one.record
    closing = landed(closing_message(found, Closing.DISCARDED, NOW))
    assert read_closed(closing) is not None
    assert closing.key == one.record.key


async def test_the_last_that_was_done_counts():
    one = filed()
    done = [landed(closing_message(one, how, NOW)) for how in (Closing.RETRIED, Closing.DISCARDED)]
    (found,) = await file_letters(stream([one.record, *done]))
    assert found.closed is not None
    assert found.closed.how is Closing.DISCARDED


@pytest.mark.parametrize(
    ("letter", "why"),
    [
        (filed(), None),
        (filed("intake", DeadLetterReason.TOO_LONG, Topic.CONVERSATIONS), None),
        (filed("segment", DeadLetterReason.HELD), "eunoe repair"),
        (filed("segment", DeadLetterReason.INVALID), "eunoe repair"),
        (filed("blend", DeadLetterReason.FAILED, Topic.REPLY_REQUESTS), "ask again"),
        (filed("respond", DeadLetterReason.FAILED, Topic.REPLY_CONTEXTS), "ask again"),
        (
            filed("blend", DeadLetterReason.NEWER_VERSION, Topic.REPLY_REQUESTS),
            "its turn was .*eunoe repair",
        ),
        (filed("respond", DeadLetterReason.NEWER_VERSION, Topic.REPLY_CONTEXTS), None),
        (filed("gone"), "unknown stage 'gone'"),
    ],
)
def test_what_cannot_be_sent_back_says_why(letter: Filed, why: str | None):
    told = retry_obstacle(letter)
    assert told is None if why is None else re.search(why, told or "")


def test_a_choice_takes_what_fits_all_that_it_names():
    letter = filed()
    fitting = LetterFilter(
        frozenset({letter_id(letter.letter)}), "segment", DeadLetterReason.FAILED, "default/c", "ODD"
    )
    assert fitting.takes(letter)
    assert not LetterFilter(stage="link").takes(letter)
    assert not LetterFilter(error="even").takes(letter)
    assert not LetterFilter(conversation="default/d").takes(letter)


def test_a_retry_carries_the_same_bytes_and_names_the_stage():
    source = record(
        headers={"trace": b"1", RETRY_HEADER: b"segment:2", "eunoe-position": b"0:4", "eunoe-log-time": b"x"}
    )
    letter = read_one(dead_letter(source, "segment", DeadLetterReason.FAILED, "", number=3))
    message = retry_message(letter, source)
    assert (message.topic, message.key, message.value, message.partition) == ("sessions", b"default/c", b"bytes", None)
    assert dict(message.headers) == {"trace": b"1", RETRY_HEADER: b"segment:3"}
    assert read_retry(landed(message)) == Retry("segment", 3)


def test_a_malformed_retry_header_is_invalid():
    for header in (b"", b"segment:", b"segment:x", b"SEGMENT", b"a" * 60, b"segment:1:2"):
        with pytest.raises(ContractError):
            read_retry(record(headers={RETRY_HEADER: header}))
    assert read_retry(record()) is None
    assert read_retry(record(headers={RETRY_HEADER: b"intake"})) == Retry("intake", None)
