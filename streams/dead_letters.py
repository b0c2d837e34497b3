"""Dead letters: raw records with a header that describes their failure, ready to be retried."""

import hashlib
import logging
from collections.abc import AsyncIterable, AsyncIterator, Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Final

from pydantic import ValidationError

from eunoe.schemas.base import Time, Value
from eunoe.schemas.records import DeadLetter, DeadLetterReason
from eunoe.schemas.versions import ContractError, describe
from eunoe.streams.position import record_log_time
from eunoe.streams.record import Message, Record
from eunoe.streams.topics import TOPICS, Topic

log = logging.getLogger(__name__)

DEAD_LETTER_HEADER: Final = "eunoe-dead-letter"
"""`DeadLetter` as JSON."""
CONTENT_HEADER: Final = "eunoe-dead-letter-content"
"""Only on the record of a letter that was sealed: the sha256 of the whole value; its description has an HMAC."""
OF_LETTERS: Final = frozenset({DEAD_LETTER_HEADER, CONTENT_HEADER})
"""Headers that a letter adds to those of its record."""
MAX_ERROR_CHARS: Final = 2000
MAX_KEY_CHARS: Final = 500
KEYLESS_PARTITION: Final = 0
"""The partition of dead letters without a key: no order is kept among them."""
SEAL_BYTES: Final = 512
"""Room for what sealing adds to a letter."""
KEPT_BYTES: Final = 4096
"""Bytes kept of a value that does not fit into the topic."""

# Upper bounds of what Kafka's format adds: 61 bytes per batch, and lengths per record and per header.
_BATCH_BYTES = 61 + 64
_HEADER_BYTES = 10

CLOSED_HEADER: Final = "eunoe-dead-letter-closed"
"""`LetterClosed` as JSON, on a record without a value."""

LetterIdentity = tuple[str, str, int, int, str]


class Closing(StrEnum):
    """The ways to resolve a dead letter."""

    RETRIED = "retried"
    """Sent back to its topic; if it fails again, that makes another letter."""
    DISCARDED = "discarded"
    """Marked as resolved without an action."""
    REPAIRED = "repaired"
    """Its conversation was derived again from the log."""
    ERASED = "erased"
    """The utterances that it tells of were erased."""


class LetterClosed(Value):
    """The note that a dead letter is resolved, in the same topic, so that it lives as long as the letter."""

    stage: str
    topic: str
    partition: int
    offset: int
    sha256: str
    how: Closing
    at: Time

    @property
    def identity(self) -> LetterIdentity:
        """Identity of the letter."""
        return self.stage, self.topic, self.partition, self.offset, self.sha256


@dataclass(frozen=True, slots=True)
class Filed:
    """A dead letter, its record, and its resolution."""

    record: Record
    letter: DeadLetter
    closed: LetterClosed | None = None
    """`None` means open."""


def closing_message(filed: Filed, how: Closing, at: datetime) -> Message:
    """The message that marks a letter as resolved."""
    letter = filed.letter
    closed = LetterClosed(
        stage=letter.stage,
        topic=letter.topic,
        partition=letter.partition,
        offset=letter.offset,
        sha256=letter.sha256,
        how=how,
        at=at,
    )
    key = filed.record.key
    partition = KEYLESS_PARTITION if key is None else None
    return Message(Topic.DEAD_LETTERS, key, b"", ((CLOSED_HEADER, closed.to_json()),), partition)


def read_closed(record: Record) -> LetterClosed | None:
    """The resolution in a record of the dead letters; `None` for a letter, and for a malformed header."""
    header = record.headers.get(CLOSED_HEADER)
    if header is None or DEAD_LETTER_HEADER in record.headers:
        return None
    try:
        return LetterClosed.from_json(header)
    except ValidationError:
        return None


async def file_letters(
    records: AsyncIterable[Record], takes: Callable[[DeadLetter], bool] = lambda _: True, *, bodies: bool = True
) -> list[Filed]:
    """Each dead letter that ``takes`` takes, once, in the order read, with its latest resolution.

    ``bodies``: whether their records keep values and headers; without them a million letters fit into memory.
    """
    letters: dict[LetterIdentity, Filed] = {}
    closings: dict[LetterIdentity, LetterClosed] = {}

    async def letters_only() -> AsyncIterator[Record]:
        async for record in records:
            if closed := read_closed(record):
                closings[closed.identity] = closed
            else:
                yield record

    async for record, letter in distinct_letters(letters_only()):
        if takes(letter):
            kept = record if bodies else replace(record, value=b"", headers={})
            letters[letter_identity(letter)] = Filed(kept, letter)
    return [replace(filed, closed=closings.get(identity)) for identity, filed in letters.items()]


def dead_letter(
    record: Record, stage: str, reason: DeadLetterReason, error: str, attempts: int = 1, *, number: int | None = None
) -> Message:
    """The message that dead-letters a record: its key, raw bytes and headers, and a header that describes the failure.

    ``number`` is the session that the stage was to decide, where it is known. A record that does not fit into the
    topic keeps the first 4,096 bytes of its value, then loses its headers, then its key. Size and hash of the whole
    value, and its place in the log, are always in the header. A sealed record is kept sealed.
    """
    record = record.stored or record
    whole = _describe_record(record, stage=stage, reason=reason, error=_clip(error), attempts=attempts, number=number)
    cut = whole.model_copy(update={"truncated": True})
    own = tuple((name, value) for name, value in record.headers.items() if name not in OF_LETTERS)
    first_bytes = record.value[:KEPT_BYTES]
    for message in (
        _message(record.key, record.value, own, whole),
        _message(record.key, first_bytes, own, cut),
        _message(record.key, first_bytes, (), cut),
    ):
        if message_size(message) <= TOPICS[Topic.DEAD_LETTERS].max_bytes - SEAL_BYTES:
            return message
    return _message(None, first_bytes, (), cut)


def message_size(message: Message) -> int:
    """Upper bound for the bytes of a message in the log, alone in its batch and uncompressed."""
    headers = sum(len(name.encode()) + len(value) + _HEADER_BYTES for name, value in message.headers)
    return _BATCH_BYTES + len(message.key or b"") + len(message.value) + headers


def read_dead_letter(record: Record) -> tuple[DeadLetter, bytes]:
    """The description of a dead letter, and its raw bytes.

    Raises `ContractError` (``invalid``) where the header is missing or malformed.
    """
    header = record.headers.get(DEAD_LETTER_HEADER)
    if header is None:
        raise ContractError(DeadLetterReason.INVALID, f"no header {DEAD_LETTER_HEADER}")
    try:
        return DeadLetter.from_json(header), record.value
    except ValidationError as fault:
        raise ContractError(DeadLetterReason.INVALID, f"header {DEAD_LETTER_HEADER}: {describe(fault)}") from None


def is_content(filed: "Filed", value: bytes) -> bool:
    """Whether these bytes are the whole value of the record that a letter describes."""
    told = filed.record.headers.get(CONTENT_HEADER, filed.letter.sha256.encode())
    return hashlib.sha256(value).hexdigest().encode() == told


def letter_identity(letter: DeadLetter) -> LetterIdentity:
    """The identity of a letter; equal for a record that a stage dead-lettered twice because it crashed in between."""
    return letter.stage, letter.topic, letter.partition, letter.offset, letter.sha256


async def distinct_letters(records: AsyncIterable[Record]) -> AsyncIterator[tuple[Record, DeadLetter]]:
    """Each dead letter once, in the order read; other records of the topic are skipped.

    Malformed ones are logged together, when all is read: a careless producer may have written thousands.
    """
    seen: set[bytes] = set()
    malformed, first = 0, ""
    async for record in records:
        if read_closed(record):
            continue
        try:
            letter, _ = read_dead_letter(record)
        except ContractError as fault:
            malformed += 1
            first = first or f"{record.topic}/{record.partition}@{record.offset}: {fault}"
            continue
        digest = hashlib.blake2b(repr(letter_identity(letter)).encode(), digest_size=16).digest()
        if digest not in seen:
            seen.add(digest)
            yield record, letter
    if malformed:
        log.warning("records that are no dead letters, passed over: %d; the first is %s", malformed, first)


def _message(key: bytes | None, value: bytes, own: tuple[tuple[str, bytes], ...], letter: DeadLetter) -> Message:
    return Message(
        topic=Topic.DEAD_LETTERS,
        key=key,
        value=value,
        headers=(*own, (DEAD_LETTER_HEADER, letter.to_json())),
        partition=KEYLESS_PARTITION if key is None else None,
    )


def _describe_record(record: Record, **more: Any) -> DeadLetter:  # noqa: ANN401 - fields beyond the record's own
    return DeadLetter(
        **more,
        topic=record.topic,
        partition=record.partition,
        offset=record.offset,
        key=None if record.key is None else record.key.decode(errors="replace")[:MAX_KEY_CHARS],
        log_time=_log_time(record),
        size=len(record.value),
        sha256=hashlib.sha256(record.value).hexdigest(),
    )


def _clip(error: str) -> str:
    # an error may quote text without a UTF-8 form
    text = error.encode(errors="replace").decode()
    return text if len(text) <= MAX_ERROR_CHARS else text[: MAX_ERROR_CHARS - 1] + "…"


def _log_time(record: Record) -> datetime:
    """The log time, or for a record with an invalid one the best substitute."""
    for read in (record_log_time, lambda record: record.appended):
        with suppress(ValueError, OverflowError, OSError):
            return read(record)
    return datetime.fromtimestamp(0, UTC)
