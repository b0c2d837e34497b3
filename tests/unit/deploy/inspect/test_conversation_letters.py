"""The dead letters of conversations that are worked on one after the other are read once, and then on."""

from datetime import UTC, datetime

import pytest

from eunoe.deploy.inspect.conversation_letters import ConversationLetters
from eunoe.schemas.keys import Destruction
from eunoe.schemas.records import DeadLetterReason
from eunoe.streams.dead_letters import Closing, Filed, closing_message, dead_letter, read_dead_letter
from eunoe.streams.record import Message, Record
from eunoe.streams.sealed.letters import seal_letter
from eunoe.streams.topics import Topic
from tests.support.memory.key_store import MemoryKeyStore
from tests.support.read_topics import ReadTopics

KEYS = ("acme/a", "acme/b", "acme/c")
NOW = datetime(2026, 11, 1, tzinfo=UTC)


def letter_of(key: str, offset: int) -> Message:
    source = Record(Topic.SESSIONS, 0, offset, key.encode(), b"it failed", 0, {})
    return dead_letter(source, "segment", DeadLetterReason.FAILED, "a fault")


class Letters(ReadTopics):
    """The topic of dead letters."""

    def add(self, message: Message, partition: int = 1) -> Record:
        held = self.held[Topic.DEAD_LETTERS]
        offset = sum(one.partition == partition for one in held)
        record = Record(Topic.DEAD_LETTERS, partition, offset, message.key, message.value, 0, dict(message.headers))
        held.append(record)
        return record

    def close(self, record: Record) -> None:
        letter, _ = read_dead_letter(record)
        self.add(closing_message(Filed(record, letter), Closing.ERASED, NOW), record.partition)


async def offsets(letters: ConversationLetters, key: str, keys: MemoryKeyStore | None = None) -> list[int]:
    return [filed.letter.offset for filed in await letters.open(key, keys)]


async def test_the_topic_is_read_once_for_all_that_come_next_and_then_on():
    topic = Letters()
    records = [topic.add(letter_of(key, offset)) for offset, key in enumerate(KEYS * 2)]
    topic.close(records[1])
    letters = ConversationLetters(topic)
    letters.reading.expect(KEYS)
    assert [await offsets(letters, key) for key in KEYS] == [[0, 3], [4], [2, 5]]
    topic.close(records[0])
    topic.add(letter_of("acme/b", 9))
    assert [await offsets(letters, key) for key in KEYS] == [[3], [4, 9], [2, 5]]
    assert topic.read[Topic.DEAD_LETTERS] == len(topic.held[Topic.DEAD_LETTERS])


async def test_a_letter_without_the_key_of_its_record_is_found_and_closed():
    topic = Letters()
    whole = letter_of("acme/a", 7)
    record = topic.add(Message(whole.topic, None, whole.value, whole.headers, 0), 0)
    letters = ConversationLetters(topic)
    letters.reading.expect(KEYS)
    assert [await offsets(letters, key) for key in KEYS] == [[7], [], []]
    topic.close(record)
    assert await offsets(letters, "acme/a") == []


@pytest.mark.parametrize("destroyed", [False, True])
async def test_letters_are_opened_with_the_keys_of_that_moment(destroyed: bool):
    topic, keys = Letters(), MemoryKeyStore()
    sealed = await seal_letter(letter_of("acme/a", 7), keys)
    assert sealed is not None
    topic.add(sealed)
    letters = ConversationLetters(topic)
    (filed,) = await letters.open("acme/a", keys)
    assert (filed.letter.error, filed.record.value) == ("a fault", b"it failed")
    if destroyed:
        await keys.destroy((await keys.current("acme/a")).id, Destruction.ERASED)
    assert await offsets(letters, "acme/a", keys) == ([] if destroyed else [7])
