"""Dead letters that are sent back: who shall decide them, and what follows of it. Pure.

A retried record names the one stage that shall decide it; all others pass over it. What comes of a session that
was skipped in its turn travels on as late, so that the stages behind, which skipped it too, decide it as well.
"""

import re
from dataclasses import dataclass
from typing import Final

from eunoe.schemas.events import DeadLetter, DeadLetterReason
from eunoe.schemas.versions import ContractError
from eunoe.streams.dead_letters import DEAD_LETTER_HEADER
from eunoe.streams.position import without_place
from eunoe.streams.record import Message, Record

RETRY_HEADER: Final = "eunoe-retry"
"""``<stage>`` or ``<stage>:<number>``, the number of the session that it failed to decide."""
LATE_HEADER: Final = "eunoe-late"
"""``1`` on what a late session brought about."""

_RETRY = re.compile(rb"([a-z-]{1,40})(?::(\d{1,18}))?")


@dataclass(frozen=True, slots=True)
class Retry:
    """Which stage shall decide a record that was sent back."""

    stage: str
    number: int | None


def read_retry(record: Record) -> Retry | None:
    """The retry that a record is; None for one that comes for the first time.

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
    """True for what a late session brought about."""
    return LATE_HEADER in record.headers


def retry_message(letter: DeadLetter, original: Record) -> Message:
    """The message that sends a dead letter's record back, to the stage that set it aside.

    ``original`` holds the whole bytes, the key and the headers of the record. It takes a place of its own in the log,
    in the partition of its key, without one in that in which it stood.
    """
    number = "" if letter.number is None else f":{letter.number}"
    own = tuple(
        (name, value) for name, value in without_place(original) if name not in (DEAD_LETTER_HEADER, RETRY_HEADER)
    )
    return Message(
        topic=letter.topic,
        key=original.key,
        value=original.value,
        headers=(*own, (RETRY_HEADER, f"{letter.stage}{number}".encode())),
        partition=letter.partition if original.key is None else None,
    )
