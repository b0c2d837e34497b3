"""Records beside the events: promotions, dead letters, and the answers of language models.

Docstrings of the classes, their fields and members are published in `deploy/contracts`.
"""

from enum import StrEnum
from typing import Literal

from pydantic import Field

from eunoe.schemas.base import Contract, Identifier, Time


class GenerationPromoted(Contract):
    """A control record without key, one in every partition of ``conversations``: another generation answers now."""

    type: Literal["generation_promoted"] = "generation_promoted"
    generation: Identifier
    at: Time
    nonce: Identifier | None = None
    """The nonce that `eunoe promote` left in the state store first; intake ignores a record without it."""
    log: int | None = Field(default=None, ge=1)
    """Set when the partitions change: the number of the log that the generation reads and clients continue with."""


class DeadLetterReason(StrEnum):
    """The reason why a record is a dead letter."""

    UNREADABLE = "unreadable"
    """The record's batch cannot be unpacked: a damaged or oversized block, a wrong checksum, an unknown codec."""
    NOT_JSON = "not_json"
    """The bytes are no UTF-8 JSON text (lone surrogates included)."""
    INVALID = "invalid"
    """JSON that does not match the schema of its type."""
    UNKNOWN_TYPE = "unknown_type"
    """No contract has this ``type``, or this topic does not carry it."""
    NEWER_VERSION = "newer_version"
    """A client wrote a schema version that this deployment does not know yet."""
    BAD_KEY = "bad_key"
    """The record's key is missing or disagrees with the body."""
    WRONG_PARTITION = "wrong_partition"
    """The key belongs into another partition: the producer does not use murmur2."""
    TOO_LONG = "too_long"
    """The text is over the limit."""
    CONFLICT = "conflict"
    """The utterance id was used before, with another content."""
    UNKNOWN_SESSION = "unknown_session"
    """The end of a session that was never opened."""
    FAILED = "failed"
    """The stage failed at every attempt, or its decision is too large to send."""
    HELD = "held"
    """The conversation is held: an earlier session is missing here (`eunoe repair` derives it again)."""
    MOVED = "moved"
    """The log continues in another topic with other partitions; the error names it, and a retry goes there."""


class DeadLetter(Contract):
    """The description of a dead letter; a header beside the raw bytes of the record."""

    type: Literal["dead_letter"] = "dead_letter"
    stage: str
    topic: str
    partition: int
    offset: int
    key: str | None = None
    log_time: Time
    reason: DeadLetterReason
    error: str
    attempts: int = 1
    number: int | None = None
    """The session (or turn) that the stage was asked to decide, if it came that far. A stage that gathers events
    may fail at another session than that of the record that triggered it."""
    size: int
    """Bytes of the original record's value."""
    sha256: str
    truncated: bool = False
    """Whether the value holds only the first bytes; the whole record is at its source position."""


class RecordedAnswer(Contract):
    """The answer of a language model, or the outcome of a decision that timing made, kept for rebuilds."""

    type: Literal["recorded_answer"] = "recorded_answer"
    request: Identifier
    """The hash of the request, or the name of the outcome; also the key of the record."""
    text: str
    """Empty means that the record is withdrawn."""
