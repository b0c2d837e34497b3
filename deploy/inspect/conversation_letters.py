"""The dead letters of conversations that are worked on one after the other."""

from collections.abc import AsyncIterator, Sequence

from eunoe.schemas.keys import KeyStore
from eunoe.schemas.versions import ContractError
from eunoe.streams.dead_letters import (
    Filed,
    LetterIdentity,
    file_letters,
    letter_identity,
    read_closed,
    read_dead_letter,
)
from eunoe.streams.log_reader import key_of
from eunoe.streams.reading_on import Place, ReadingOn, TopicReader
from eunoe.streams.record import Record
from eunoe.streams.sealed.letters import opened_letters
from eunoe.streams.topics import Topic


class ConversationLetters:
    """Reads the dead letters once for the conversations that come next, and then on."""

    def __init__(self, reader: TopicReader) -> None:
        self._reader, self._partitions = reader, 0
        self.reading = ReadingOn(reader, self._places, self._conversation)
        self._keyless: dict[LetterIdentity, str] = {}
        """The conversations of letters whose record lost its key, because it would not have fitted otherwise."""

    async def open(self, key: str, keys: KeyStore | None) -> list[Filed]:
        """The open dead letters of a conversation now, oldest first within each partition.

        ``keys``: the data keys that letters are sealed with. Raises `Refused`, `Unavailable`.
        """
        self._partitions = await self._reader.partitions(Topic.DEAD_LETTERS)
        records = (await self.reading.of(key))[Topic.DEAD_LETTERS]
        filed = await file_letters(opened_letters(_each(records), keys))
        return [one for one in filed if one.closed is None and one.letter.key == key]

    def _places(self, _key: str) -> tuple[Place, ...]:
        """All partitions: letters without a key lie in one of their own."""
        return tuple((Topic.DEAD_LETTERS, number) for number in range(self._partitions))

    def _conversation(self, record: Record) -> str | None:
        """The conversation that a letter tells of, or that the note which closes one does; both have the same key."""
        if (closed := read_closed(record)) is not None:
            return key_of(record) if record.key is not None else self._keyless.get(closed.identity)
        try:
            letter, _ = read_dead_letter(record)
        except ContractError:
            return None
        if record.key is None and letter.key is not None:
            self._keyless[letter_identity(letter)] = letter.key
        return letter.key


async def _each(records: Sequence[Record]) -> AsyncIterator[Record]:
    for record in records:
        yield record
