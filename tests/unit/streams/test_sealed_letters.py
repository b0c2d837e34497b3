"""Dead letters with data keys: nothing of the text in clear, opened as they were, gone with their key."""

import hashlib
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eunoe.schemas.errors import Unavailable
from eunoe.schemas.keys import Destruction
from eunoe.schemas.records import DeadLetterReason
from eunoe.schemas.versions import ContractError
from eunoe.streams.dead_letters import (
    Closing,
    closing_message,
    dead_letter,
    file_letters,
    is_content,
    message_size,
    read_dead_letter,
)
from eunoe.streams.publisher import check_message
from eunoe.streams.record import Message, Record
from eunoe.streams.retries import retry_message
from eunoe.streams.sealed.letters import SEALED, open_letter, opened_letters
from eunoe.streams.sealed.messages import sealed
from eunoe.streams.topics import DEFAULT_MAX_BYTES
from tests.support.contracts import calm
from tests.support.memory.key_store import MemoryKeyStore
from tests.unit.streams.test_deadletters import landed, record, set_aside

WORDS = b"Leo sings"
SAID = record(b'{"text": "Leo sings"}', headers={"trace": b"Leo sings on"})


async def sealed_of(keys: MemoryKeyStore, message: Message) -> Message:
    found = await sealed(message, keys)
    assert found is not None
    return found


async def in_order(*records: Record):
    for each in records:
        yield each


@calm
@given(st.binary(max_size=100), st.none() | st.binary(max_size=50), st.dictionaries(st.text(), st.binary()), st.text())
async def test_a_sealed_letter_opens_as_it_was(value, key, headers, error):
    keys = MemoryKeyStore()
    message = set_aside(record(value, key, headers), error)
    closed = await sealed_of(keys, message)
    assert (closed.key, closed.partition) == (message.key, message.partition)
    opened = await open_letter(landed(closed), keys)
    assert opened is not None
    letter, raw = read_dead_letter(opened)
    plain, _ = read_dead_letter(landed(message))
    assert (raw, letter) == (value, plain.model_copy(update={"sha256": letter.sha256}))
    retried = retry_message(letter, opened)
    assert retried == retry_message(plain, landed(message))


async def test_nothing_of_the_text_is_in_clear():
    keys = MemoryKeyStore()
    message = await sealed_of(keys, set_aside(SAID, "got 'Leo sings'"))
    clear = b"".join((message.key or b"", message.value, *(part for _, part in message.headers)))
    assert WORDS not in clear
    assert hashlib.sha256(SAID.value).hexdigest().encode() not in clear
    letter, _ = read_dead_letter(landed(message))
    assert (letter.error, letter.reason, letter.size) == (SEALED, DeadLetterReason.NOT_JSON, len(SAID.value))


async def test_a_letter_set_aside_twice_is_one_and_can_be_closed():
    keys = MemoryKeyStore()
    twice = [landed(await sealed_of(keys, set_aside(SAID, "got 'Leo sings'")), offset) for offset in (0, 1)]
    (filed,) = await file_letters(opened_letters(in_order(*twice), keys))
    assert (filed.letter.error, filed.record.value) == ("got 'Leo sings'", SAID.value)
    assert is_content(filed, SAID.value)
    assert not is_content(filed, b"other")
    note = landed(await sealed_of(keys, closing_message(filed, Closing.DISCARDED, SAID.appended)), 2)
    (after,) = await file_letters(opened_letters(in_order(*twice, note), keys))
    assert after.closed is not None
    assert hashlib.sha256(SAID.value).hexdigest().encode() not in b"".join(note.headers.values())


@pytest.mark.parametrize(
    ("key", "name"), [(b"default/c", "default/c"), (b"no key", "month-2023-11"), (None, "month-2023-11")]
)
async def test_its_key_is_that_of_its_conversation_or_of_its_month(key, name):
    keys = MemoryKeyStore()
    message = landed(await sealed_of(keys, set_aside(record(WORDS, key))))
    assert [len(await keys.keys(one)) for one in (name, "other")] == [1, 0]
    await keys.destroy((await keys.current(name)).id, Destruction.ERASED)
    assert await open_letter(message, keys) is None
    assert await file_letters(opened_letters(in_order(message), keys)) == []


@pytest.mark.parametrize(
    "change",
    [
        lambda one: replace(one, value=one.value[:-1] + bytes([one.value[-1] ^ 1])),
        lambda one: replace(one, key=b"default/other"),
        lambda one: replace(one, headers=one.headers | {"eunoe-letter-enc": b"2:0"}),
        lambda one: replace(one, headers=one.headers | {"eunoe-dead-letter": one.headers["eunoe-dead-letter"] + b" "}),
    ],
)
async def test_a_changed_letter_is_listed_without_its_text(change):
    keys = MemoryKeyStore()
    changed = change(landed(await sealed_of(keys, set_aside(SAID))))
    with pytest.raises(ContractError):
        await open_letter(changed, keys)
    (filed,) = await file_letters(opened_letters(in_order(changed), keys))
    assert filed.letter.error == SEALED


async def test_letters_without_their_key_are_waited_for_and_plain_ones_read():
    letter = landed(await sealed_of(MemoryKeyStore(), set_aside(SAID)))
    for keys in (None, MemoryKeyStore()):
        with pytest.raises(Unavailable):
            await open_letter(letter, keys)
    plain = landed(set_aside(SAID))
    assert await open_letter(plain, None) is plain


@pytest.mark.parametrize("spare", range(0, 1200, 100))
async def test_a_letter_of_any_size_fits_when_it_is_sealed(spare):
    keys = MemoryKeyStore()
    noise = hashlib.shake_256(b"x").digest(DEFAULT_MAX_BYTES + 65_536 - spare)
    message = set_aside(record(noise, headers={"a": b"\xff" * 50}), "🙂" * 2000)
    letter = await sealed_of(keys, message)
    check_message(letter)
    assert message_size(letter) < message_size(message) + 512
    opened = await open_letter(landed(letter), keys)
    assert opened is not None
    assert noise.startswith(opened.value)


async def test_a_truncated_letter_knows_its_content():
    keys = MemoryKeyStore()
    noise = hashlib.shake_256(b"x").digest(2_000_000)
    letter = landed(await sealed_of(keys, dead_letter(record(noise), "intake", DeadLetterReason.TOO_LONG, "x")))
    (filed,) = await file_letters(opened_letters(in_order(letter), keys))
    assert filed.letter.truncated
    assert is_content(filed, noise)
    assert not is_content(filed, noise[:-1])
