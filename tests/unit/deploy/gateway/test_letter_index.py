"""The index of dead letters: it keeps nothing of what was erased, and nothing of letters that it does not hold."""

from collections.abc import AsyncIterator, Mapping
from datetime import UTC, datetime
from typing import cast

from eunoe.deploy.gateway.letters import LetterIndex
from eunoe.deploy.gateway.ports import GatewayLog
from eunoe.schemas.keys import Destruction
from eunoe.schemas.records import DeadLetterReason
from eunoe.streams.dead_letters import Closing, Filed, closing_message, dead_letter, read_dead_letter
from eunoe.streams.memory_log import MemoryLog
from eunoe.streams.record import Message, Record
from eunoe.streams.sealed.letters import seal_letter
from eunoe.streams.topics import Topic
from tests.support.memory.key_store import MemoryKeyStore


class Log:
    """What a gateway reads of a log in memory."""

    def __init__(self, log: MemoryLog) -> None:
        self._log = log

    async def read_all(self, topic: str, begin: Mapping[int, int]) -> AsyncIterator[Record]:
        for record in self._log.records(topic):
            if record.offset >= begin.get(record.partition, 0):
                yield record


def index_of(log: MemoryLog, keys: MemoryKeyStore | None = None) -> LetterIndex:
    return LetterIndex(lambda: cast("GatewayLog", Log(log)), keys)


def letter_of(log: MemoryLog, number: int, conversation: str) -> Message:
    headers = (("said", b"by a client"),)
    record = log.append(Message(Topic.CONVERSATIONS, f"acme/{conversation}".encode(), b"broken %d" % number, headers))
    return dead_letter(record, "intake", DeadLetterReason.INVALID, "not JSON")


def named(letters: list[Filed]) -> list[str | None]:
    return [filed.letter.key for filed in letters]


async def test_letters_whose_key_was_destroyed_since_they_were_read_are_gone() -> None:
    log, keys = MemoryLog(partitions=1), MemoryKeyStore()
    for number, conversation in enumerate(("ann", "ben", "ann")):
        sealed = await seal_letter(letter_of(log, number, conversation), keys)
        assert sealed is not None
        log.append(sealed)
    index = index_of(log, keys)
    assert named(await index.of_tenant("acme")) == ["acme/ann", "acme/ben", "acme/ann"]
    await keys.destroy((await keys.current("acme/ann")).id, Destruction.ERASED)
    assert named(await index.of_tenant("acme")) == ["acme/ben"]
    assert len(index._letters) == len(index._sealed_with) == 1


async def test_nothing_is_kept_of_letters_that_the_index_does_not_hold() -> None:
    log = MemoryLog(partitions=1)
    message = letter_of(log, 1, "ann")
    stored = log.append(message)
    letter, _ = read_dead_letter(stored)
    log.append(closing_message(Filed(stored, letter), Closing.DISCARDED, datetime(2026, 1, 1, tzinfo=UTC)))
    elsewhere = letter.model_copy(update={"offset": 999})
    log.append(closing_message(Filed(stored, elsewhere), Closing.ERASED, datetime(2026, 1, 1, tzinfo=UTC)))
    index = index_of(log)
    (found,) = await index.of_tenant("acme")
    assert found.closed is not None
    assert found.closed.how is Closing.DISCARDED
    assert (len(index._closed), found.record.value, dict(found.record.headers)) == (1, b"", {})
