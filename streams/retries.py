"""Retries of dead letters: headers that direct a record to the stage that failed to decide it.

A retried record names one stage; all others pass over it. A session that was skipped in its order is late when it is
decided after all. Its events carry a header, so that later stages, which skipped it too, decide it as well.
"""

import re
from dataclasses import dataclass
from typing import Final

from eunoe.schemas.records import DeadLetter, DeadLetterReason
from eunoe.schemas.versions import ContractError
from eunoe.streams.dead_letters import OF_LETTERS
from eunoe.streams.position import own_headers
from eunoe.streams.record import Message, Record

RETRY_HEADER: Final = "eunoe-retry"
"""``<stage>`` or ``<stage>:<number>``, with the number of the session that the stage failed to decide."""
LATE_HEADER: Final = "eunoe-late"
"""``1`` on events of a late session."""
FOR_FOLLOWERS: Final = (RETRY_HEADER, b"followers")
"""The header of a record that is for those who follow a topic: it names no stage, so all pass over it undecoded."""

_RETRY = re.compile(rb"([a-z-]{1,40})(?::(\d{1,18}))?")


@dataclass(frozen=True, slots=True)
class Retry:
    """The stage that a retried record is meant for, and the number of the session."""

    stage: str
    number: int | None


def read_retry(record: Record) -> Retry | None:
    """The retry header of a record; `None` for a record that comes for the first time.

    Raises `ContractError` (``invalid``) where the header is malformed.
    """
    header = record.headers.get(RETRY_HEADER)
    if header is None:
        return None
    match = _RETRY.fullmatch(header)
    if match is None:
        raise ContractError(
            DeadLetterReason.INVALID, f"header {RETRY_HEADER}: expected stage:number, got {header[:40]!r}"
        )
    return Retry(match[1].decode(), None if match[2] is None else int(match[2]))


def is_late(record: Record) -> bool:
    """Whether a record is an event of a late session."""
    return LATE_HEADER in record.headers


def retry_message(letter: DeadLetter, original: Record) -> Message:
    """The message that retries a dead letter at the stage that wrote it.

    ``original`` has the whole bytes, the key and the headers of the record. The message is a new record of the log, in
    the partition of its key, or without a key in that of the original.
    """
    number = "" if letter.number is None else f":{letter.number}"
    letters = OF_LETTERS | {RETRY_HEADER}
    own = tuple((name, value) for name, value in own_headers(original) if name not in letters)
    return Message(
        topic=letter.topic,
        key=original.key,
        value=original.value,
        headers=(*own, (RETRY_HEADER, f"{letter.stage}{number}".encode())),
        partition=letter.partition if original.key is None else None,
    )
