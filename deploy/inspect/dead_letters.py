"""Dead letters as a tool: find them, send them back, say that they are dealt with."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from eunoe.deploy.settings import Settings
from eunoe.schemas.errors import Refused
from eunoe.schemas.events import DeadLetter, DeadLetterReason
from eunoe.streams.dead_letters import Closing, Filed, closing_message, file_letters
from eunoe.streams.reader import read_all, read_one
from eunoe.streams.record import Publisher, Record
from eunoe.streams.retries import retry_message
from eunoe.streams.topics import Topic
from eunoe.workers.registry import STAGES
from eunoe.workers.stage import ApplyOrder


@dataclass(frozen=True, slots=True)
class LetterFilter:
    """Which letters are meant; what is None (or empty) does not matter."""

    ids: frozenset[str] = frozenset()
    stage: str | None = None
    reason: DeadLetterReason | None = None
    conversation: str | None = None
    """A part of the key."""
    error: str | None = None
    """A part of the error."""
    closed_too: bool = False

    def takes(self, filed: Filed) -> bool:
        """True for a letter that is meant."""
        letter = filed.letter
        return (
            (self.closed_too or filed.closed is None)
            and (not self.ids or letter_id(letter) in self.ids)
            and self.stage in (None, letter.stage)
            and self.reason in (None, letter.reason)
            and (self.conversation or "") in (letter.key or "")
            and (self.error or "").casefold() in letter.error.casefold()
        )


def letter_id(letter: DeadLetter) -> str:
    """The id by which people name a dead letter: stage, topic, partition and offset of the record."""
    return f"{letter.stage}:{letter.topic}:{letter.partition}:{letter.offset}"


async def read_letters(settings: Settings, choice: LetterFilter = LetterFilter()) -> list[Filed]:
    """The letters that are meant, oldest first within each partition; raises `Unavailable`, `Refused`."""
    records = read_all(settings.kafka_settings, settings.names, Topic.DEAD_LETTERS)
    return [filed for filed in await file_letters(records) if choice.takes(filed)]


def why_not(filed: Filed) -> str | None:
    """Why a letter cannot be sent back; None where it can."""
    letter = filed.letter
    row = STAGES.get(letter.stage)
    if filed.closed is not None:
        return f"it was {filed.closed.how.value} on {filed.closed.at:%Y-%m-%d %H:%M}"
    if letter.reason is DeadLetterReason.HELD:
        return "its conversation is held, because acknowledged writes were lost: run `eunoe repair CONVERSATION`"
    if row is None:
        return f"no stage {letter.stage!r} is known here"
    if not row.retries:
        return "the ask was answered with its error, or without what memory had: ask again, then discard the letter"
    if row.order is ApplyOrder.SESSION and letter.reason is not DeadLetterReason.FAILED:
        return "its session was not skipped, so that nothing waits for it: run `eunoe repair CONVERSATION`"
    return None


async def original(settings: Settings, filed: Filed) -> Record:
    """The record as it was set aside, whole: of a letter that was cut, from where it came.

    Raises `Refused` where it is gone from there, or is another one by now.
    """
    letter, record = filed.letter, filed.record
    if letter.truncated:
        place = (letter.partition, letter.offset)
        found = await read_one(settings.kafka_settings, settings.names, letter.topic, place)
        where = f"{letter.topic}/{letter.partition}@{letter.offset}"
        if found is None or hashlib.sha256(found.value).hexdigest() != letter.sha256:
            raise Refused(f"{letter_id(letter)}: only its first bytes were kept, and {where} no longer holds it")
        record = found
    return replace(record, topic=letter.topic)


async def send_back(settings: Settings, publisher: Publisher, letters: Sequence[Filed]) -> None:
    """Send letters back, each to its stage, and close them; one that is sent twice is decided once.

    Raises `Refused` (see `original`) before anything is sent, `Unavailable`.
    """
    records = [await original(settings, filed) for filed in letters]
    for filed, record in zip(letters, records, strict=True):
        await publisher.publish([retry_message(filed.letter, record)])
        await close(publisher, [filed], Closing.RETRIED)


async def close(publisher: Publisher, letters: Sequence[Filed], how: Closing) -> None:
    """Say in the topic itself that letters are dealt with; raises `Unavailable`."""
    now = datetime.now(UTC)
    await publisher.publish([closing_message(filed, how, now) for filed in letters])
