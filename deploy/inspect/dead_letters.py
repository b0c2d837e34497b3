"""Finds dead letters, retries them, marks them resolved."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from eunoe.deploy.clients.data_keys import open_data_keys
from eunoe.deploy.settings import Settings
from eunoe.schemas.errors import Refused
from eunoe.schemas.keys import KeyStore
from eunoe.schemas.records import DeadLetter, DeadLetterReason
from eunoe.schemas.versions import ContractError
from eunoe.streams.dead_letters import Closing, Filed, closing_message, file_letters, is_content
from eunoe.streams.reader import read_all, read_one
from eunoe.streams.record import Publisher, Record, RecordPlace
from eunoe.streams.retries import retry_message
from eunoe.streams.sealed.letters import opened_letters
from eunoe.streams.sealed.records import open_record
from eunoe.streams.topics import Topic
from eunoe.workers.registry import STAGES
from eunoe.workers.stage import ApplyOrder


@dataclass(frozen=True, slots=True)
class LetterFilter:
    """A filter of dead letters; a criterion that is `None` or empty matches all."""

    ids: frozenset[str] = frozenset()
    stage: str | None = None
    reason: DeadLetterReason | None = None
    conversation: str | None = None
    """Text in the key."""
    error: str | None = None
    """Text in the error; case is ignored."""
    closed_too: bool = False
    """Whether resolved letters match too."""

    def takes(self, filed: Filed) -> bool:
        """Whether a letter matches."""
        return (self.closed_too or filed.closed is None) and self.describes(filed.letter)

    def describes(self, letter: DeadLetter) -> bool:
        """Whether a letter matches, resolved or not."""
        return (
            (not self.ids or letter_id(letter) in self.ids)
            and self.stage in (None, letter.stage)
            and self.reason in (None, letter.reason)
            and (self.conversation or "") in (letter.key or "")
            and (self.error or "").casefold() in letter.error.casefold()
        )


def letter_id(letter: DeadLetter) -> str:
    """The id of a dead letter for people: stage, topic, partition and offset of the record."""
    return f"{letter.stage}:{letter.topic}:{letter.partition}:{letter.offset}"


async def read_letters(
    settings: Settings, choice: LetterFilter = LetterFilter(), *, bodies: bool = True
) -> list[Filed]:
    """The matching letters, oldest first within each partition; raises `Unavailable`, `Refused`.

    ``bodies``: whether their records have values and headers, as `original` and `retry_letters` need them.
    """
    async with open_data_keys(settings) as keys:
        records = opened_letters(read_all(settings.kafka_settings, settings.names, Topic.DEAD_LETTERS), keys)
        return [filed for filed in await file_letters(records, choice.describes, bodies=bodies) if choice.takes(filed)]


async def readable(record: Record, keys: KeyStore | None) -> bytes:
    """The value of an `original` record, unsealed where its topic is sealed; as it is where it is erased or changed.

    Raises `Unavailable`.
    """
    try:
        opened = await open_record(record, keys)
    except ContractError:
        opened = None
    return record.value if opened is None else opened.value


def retry_obstacle(filed: Filed) -> str | None:
    """The reason why a letter cannot be retried; `None` where it can."""
    letter = filed.letter
    spec = STAGES.get(letter.stage)
    if filed.closed is not None:
        return f"it was {filed.closed.how.value} on {filed.closed.at:%Y-%m-%d %H:%M}"
    if letter.reason is DeadLetterReason.HELD:
        return "its conversation is held because acknowledged writes were lost: run `eunoe repair CONVERSATION`"
    if spec is None:
        return f"unknown stage {letter.stage!r}"
    failed = letter.reason is DeadLetterReason.FAILED  # otherwise nothing was decided in its place
    if failed and spec.order in (ApplyOrder.TURN, ApplyOrder.REQUEST):
        return "the ask was answered already, with an error or without memory: ask again, then discard the letter"
    if not failed and spec.order in (ApplyOrder.SESSION, ApplyOrder.TURN):
        return f"its {spec.order.value} was not skipped, so no stage waits for it: run `eunoe repair CONVERSATION`"
    return None


async def original(settings: Settings, filed: Filed) -> Record:
    """The complete record of a letter; that of a truncated letter is read from the topic it came from.

    Raises `Refused` where the topic no longer holds it.
    """
    letter, record = filed.letter, filed.record
    if letter.truncated:
        place = (letter.partition, letter.offset)
        found = await read_one(settings.kafka_settings, settings.names, letter.topic, place)
        where = RecordPlace(letter.topic, letter.partition, letter.offset)
        if found is None or not is_content(filed, found.value):
            raise Refused(
                f"{letter_id(letter)}: the letter holds only its first bytes, and {where} no longer holds the record"
            )
        record = found
    return replace(record, topic=letter.topic)


async def retry_letters(settings: Settings, publisher: Publisher, letters: Sequence[Filed]) -> None:
    """Retry letters: publish each record for its stage, then mark it resolved; stages ignore duplicates.

    Raises `Refused` (see `original`) before anything is published, `Unavailable`.
    """
    records = [await original(settings, filed) for filed in letters]
    for filed, record in zip(letters, records, strict=True):
        await publisher.publish([retry_message(filed.letter, record)])
        await close(publisher, [filed], Closing.RETRIED)


async def close(publisher: Publisher, letters: Sequence[Filed], how: Closing) -> None:
    """Mark letters resolved by a record in their topic; raises `Unavailable`."""
    now = datetime.now(UTC)
    await publisher.publish([closing_message(filed, how, now) for filed in letters])
