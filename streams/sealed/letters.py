"""Dead letters, sealed: with the data key of their conversation, or with one of their month where they are of none.

In clear stay the record's key, its place in the log, its size and the reason; the error becomes the word `SEALED`, the
hash of the value an HMAC. Value, headers, error and hash lie in the envelope.
"""

from collections.abc import AsyncIterable, AsyncIterator
from dataclasses import replace
from typing import Final

from pydantic import ValidationError

from eunoe.schemas.identity import split_key
from eunoe.schemas.keys import Destroyed, KeyStore
from eunoe.schemas.records import DeadLetter, DeadLetterReason
from eunoe.schemas.versions import ContractError
from eunoe.streams.dead_letters import CONTENT_HEADER, DEAD_LETTER_HEADER
from eunoe.streams.packing import pack, unpack
from eunoe.streams.record import Message, Record
from eunoe.streams.sealed.envelope import Tampered, seal, sealed_name, unseal
from eunoe.streams.sealed.records import key_for, lacks_keys, named_key, read_key_id
from eunoe.streams.topics import Topic

SEALED_LETTER_HEADER: Final = "eunoe-letter-enc"
"""``1:<id of the data key>``; 1 is the version of the envelope. The record of a letter may be sealed within it."""
SEALED: Final = "sealed"
"""The error of a letter as it stands in clear."""


def sealing_name(key: bytes | None, month: str) -> str:
    """The name under which a key store has the key for a record: its conversation, else its month (``2026-11``)."""
    try:
        text = (key or b"").decode()
        split_key(text)
    except ValueError:
        return f"month-{month}"
    return text


async def seal_letter(message: Message, keys: KeyStore) -> Message | None:
    """The message of a dead letter, sealed; `None` where the key that it names is destroyed: it tells of the erased.

    The notes that close letters stay as they are. Raises `Unavailable` when the key store does not answer.
    """
    headers = dict(message.headers)
    try:
        letter = DeadLetter.from_json(headers.pop(DEAD_LETTER_HEADER, b""))
    except ValidationError:
        return message
    if SEALED_LETTER_HEADER in headers:
        return message
    name = sealing_name(message.key, f"{letter.log_time:%Y-%m}")
    pinned = message if message.conversation == name else replace(message, sealed_with=None)
    key = await key_for(pinned, name, keys)
    if key is None:
        return None
    clear = letter.model_copy(update={"error": SEALED, "sha256": sealed_name(key, letter.sha256)}).to_json()
    own = [part for header, value in headers.items() for part in (header.encode("utf-8", "surrogatepass"), value)]
    plain = pack([letter.error.encode(), letter.sha256.encode(), *own, message.value])
    place = _place(message.key, clear)
    sealed = (SEALED_LETTER_HEADER, named_key(key))
    value = seal(key, plain, place, deflate=True)
    return replace(message, value=value, headers=((DEAD_LETTER_HEADER, clear), sealed))


async def open_letter(record: Record, keys: KeyStore | None) -> Record | None:
    """The record of a dead letter as it was before it was sealed; `None` where its key was destroyed: it is erased.

    The hash in its description stays the HMAC, by which it is known; the true one is in `CONTENT_HEADER`. Raises
    `ContractError` (``invalid``) for a changed or forged one, `Unavailable` for a missing key and where no key store is
    set.
    """
    named = record.headers.get(SEALED_LETTER_HEADER)
    if named is None:
        return record
    key_id, clear = read_key_id(named), record.headers.get(DEAD_LETTER_HEADER, b"")
    if key_id is None:
        raise ContractError(DeadLetterReason.INVALID, f"header {SEALED_LETTER_HEADER}: expected 1:<key id>")
    if keys is None:
        raise lacks_keys(record)
    key = await keys.get(key_id)
    if isinstance(key, Destroyed):
        return None
    try:
        letter = DeadLetter.from_json(clear)
        error, content, *own, value = unpack(unseal(key, record.value, _place(record.key, clear)))
    except (Tampered, ValueError) as fault:
        raise ContractError(DeadLetterReason.INVALID, f"a changed dead letter: {fault!s:.200}") from None
    whole = letter.model_copy(update={"error": error.decode()}).to_json()
    names = (name.decode("utf-8", "surrogatepass") for name in own[::2])
    headers = dict(zip(names, own[1::2], strict=True)) | {DEAD_LETTER_HEADER: whole, CONTENT_HEADER: content}
    return replace(record, value=value, headers=headers)


async def opened_letters(records: AsyncIterable[Record], keys: KeyStore | None) -> AsyncIterator[Record]:
    """The records of the topic, letters opened, erased ones left out; changed ones stay sealed.

    Raises `Unavailable` as `open_letter` does.
    """
    async for record in records:
        try:
            opened = await open_letter(record, keys)
        except ContractError:
            opened = record
        if opened is not None:
            yield opened


def _place(key: bytes | None, letter: bytes) -> tuple[str, ...]:
    return (Topic.DEAD_LETTERS, (key or b"").decode("latin-1"), letter.decode("utf-8", "surrogatepass"))
