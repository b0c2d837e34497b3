"""Records whose values are sealed with the data key of their conversation; a header names the key.

The envelope is bound to the logical topic and the record's key, in topic `log` also to the position and the log time.
Type and schema version lie inside it, under the same seal. Records without the header are plain, and are read as they
are.
"""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from eunoe.schemas.errors import Unavailable
from eunoe.schemas.keys import DataKey, Destroyed, KeyStore
from eunoe.schemas.records import DeadLetterReason
from eunoe.schemas.versions import ContractError
from eunoe.streams.position import LOG_TIME_HEADER, POSITION_HEADER
from eunoe.streams.record import Message, Record
from eunoe.streams.sealed.envelope import Tampered, seal, unseal
from eunoe.streams.topics import TOPICS, Topic

SEALED_HEADER: Final = "eunoe-enc"
"""``1:<id of the data key>``; 1 is the version of the envelope."""
SEALED_TOPICS: Final = frozenset({topic for topic, spec in TOPICS.items() if spec.derived} | {Topic.LOG})
"""Topics that stages alone write and read. Clients read the others, which stay plain."""

_HEADER: Final = re.compile(rb"1:([0-9a-f]{32})")


async def seal_message(message: Message, keys: KeyStore) -> Message | None:
    """The message with its value sealed, where its topic is; one that is sealed already stays as it is.

    `None` where the key that it names is destroyed: what it tells of was erased.

    Raises `Unavailable` when the key store does not answer.
    """
    named = any(name == SEALED_HEADER for name, _ in message.headers)
    if named or message.key is None or Topic(message.topic) not in SEALED_TOPICS:
        return message
    key = await key_for(message, message.key.decode(), keys)
    return None if key is None else seal_with(key, message)


async def key_for(message: Message, conversation: str, keys: KeyStore) -> DataKey | None:
    """The key that a message of a conversation is to be sealed with; `None` where that is destroyed.

    Raises `Unavailable`.
    """
    named = message.sealed_with
    key = await (keys.current(conversation) if named is None else keys.get(named))
    return key if isinstance(key, DataKey) else None


def seal_with(key: DataKey, message: Message) -> Message:
    """The message with its value sealed with this key; it must have a record key."""
    header = (SEALED_HEADER, named_key(key))
    place = _place(message.topic, message.key or b"", dict(message.headers))
    value = seal(key, message.value, place, deflate=True)
    return replace(message, value=value, headers=(*message.headers, header))


async def open_record(record: Record, keys: KeyStore | None) -> Record | None:
    """The record with its value as it was before it was sealed; `None` where its key was destroyed: pass over it.

    Raises `ContractError` (``invalid``) for a changed, moved or forged record, `Unavailable` for a missing key and
    where no key store is set: wait, never skip.
    """
    if SEALED_HEADER not in record.headers:
        return record
    named = key_id_of(record)
    if named is None or record.key is None:
        raise ContractError(DeadLetterReason.INVALID, f"header {SEALED_HEADER}: expected 1:<key id> and a record key")
    if keys is None:
        raise lacks_keys(record)
    key = await keys.get(named)
    if isinstance(key, Destroyed):
        return None
    try:
        value = unseal(key, record.value, _place(record.topic, record.key, record.headers))
    except Tampered as fault:
        raise ContractError(DeadLetterReason.INVALID, str(fault)) from None
    headers = {name: text for name, text in record.headers.items() if name != SEALED_HEADER}
    return replace(record, value=value, headers=headers, stored=record)


def key_id_of(record: Record) -> str | None:
    """The id of the data key that a record, or the one that it was before it was opened, is sealed with."""
    return read_key_id((record.stored or record).headers.get(SEALED_HEADER, b""))


def named_key(key: DataKey) -> bytes:
    """The value of a header that names the data key of an envelope."""
    return f"1:{key.id}".encode()


def read_key_id(header: bytes) -> str | None:
    """The id of the data key that such a header names; `None` where it is none."""
    named = _HEADER.fullmatch(header)
    return None if named is None else named[1].decode()


def lacks_keys(record: Record) -> Unavailable:
    """The fault of a sealed record where no key store is set."""
    message = f"{record.place} is sealed: set EUNOE_KEYS__STORE and EUNOE_KEYS__KEK as they were"
    return Unavailable(message, "the key store")


def _place(topic: str, key: bytes, headers: Mapping[str, bytes]) -> tuple[str, ...]:
    place = str(topic), key.decode(errors="surrogateescape")
    if topic != Topic.LOG:
        return place
    return (*place, *(headers.get(name, b"").decode("latin-1") for name in (POSITION_HEADER, LOG_TIME_HEADER)))
