"""The window of known utterance ids: distinguishes a repeated utterance from another one with the same id.

A ring of ids in the order they came: its next place has the oldest, which is forgotten.
"""

from eunoe.schemas.base import Value, by_instant
from eunoe.schemas.events import SessionEnded, Utterance
from eunoe.schemas.identity import content_digest
from eunoe.workers.intake.head import Head
from eunoe.workers.intake.settings import IntakeSettings

LAST_END = "last-end"
"""The row of the ring's table for the last end without a session id; the others are numbers."""


class SeenUtterance(Value):
    """The content digest recorded for an utterance id."""

    digest: str


class RingSlot(Value):
    """The utterance id at a place of the ring."""

    utterance_id: str


def digest_of(event: Utterance | SessionEnded) -> str:
    """The content digest of an event, to distinguish one that a producer repeats from another one.

    By the instant of its time: sent again with another offset, as older clients do, it is the same event.
    """
    return content_digest(by_instant(event).model_dump_json(exclude={"schema_version"}).encode())


def ring_slot(head: Head, settings: IntakeSettings) -> str:
    """The place in the ring of the next recorded id."""
    return str(head.remembered % settings.remembered_ids)


def occupied_slots(head: Head, count: int, settings: IntakeSettings) -> list[str]:
    """The places in the ring of the next ``count`` recorded ids that hold an older one: none until the ring is full."""
    places = range(max(head.remembered, settings.remembered_ids), head.remembered + count)
    return [str(place % settings.remembered_ids) for place in places]
