"""The log of conversations as far as intake has handled it: what their state can be derived from again."""

import asyncio
import logging
import math
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from eunoe.deploy.clients.bootstrap import Clients
from eunoe.deploy.inspect.conversation_letters import ConversationLetters
from eunoe.deploy.inspect.dead_letters import LetterFilter, read_letters
from eunoe.deploy.settings import Settings
from eunoe.schemas.decisions import Ledger, Scope
from eunoe.schemas.errors import SnapshotLost, Unavailable
from eunoe.schemas.position_ports import ReadPartition
from eunoe.schemas.records import DeadLetterReason
from eunoe.streams.dead_letters import Filed
from eunoe.streams.log_reader import ConversationLogs
from eunoe.streams.position import position
from eunoe.streams.reading_on import ReadingOn, TopicReader
from eunoe.streams.record import Record
from eunoe.streams.sealed.log import position_in_log
from eunoe.streams.settings import partition_of
from eunoe.streams.topics import Topic
from eunoe.workers.stores.state.damaged_ledgers import ledger_to_replace

log = logging.getLogger(__name__)

INTAKE = "intake"

_LOOK_S = 0.2
_SILENT_S = 2.0


class StillWritten(Unavailable):
    """New records of one conversation came in during each attempt to derive it; those of others do not wait for it."""


class Unhandled(StillWritten):
    """Intake has not handled records that the log holds of one conversation; those of others do not wait for it."""


@dataclass(slots=True)
class HandledLog:
    """Reads the records of conversations that intake has handled, and waits for others.

    What was read of a conversation is read on, not again.
    """

    settings: Settings
    clients: Clients
    partitions: int
    reader: TopicReader | None = None
    """The reader of Kafka; `None`: one that connects for each look."""
    _made: tuple[ConversationLogs, ConversationLetters] | None = field(default=None, init=False)

    @property
    def stored(self) -> ConversationLogs:
        """The records of conversations as they are stored."""
        return self._readers[0]

    @property
    def _letters(self) -> ConversationLetters:
        return self._readers[1]

    @property
    def _reading(self) -> tuple[ReadingOn, ReadingOn]:
        return self.stored.reading, self._letters.reading

    @property
    def _readers(self) -> tuple[ConversationLogs, ConversationLetters]:
        if self._made is None:
            names = self.settings.names
            reader = self.reader or TopicReader(self.settings.kafka_settings, names)
            self._made = ConversationLogs(reader, names, self.partitions), ConversationLetters(reader)
        return self._made

    def expect(self, keys: Iterable[str]) -> None:
        """Say which conversations come next, in their order: they are read together."""
        keys = list(keys)
        for reading in self._reading:
            reading.expect(keys)

    def put_down(self, key: str) -> None:
        """Say that a conversation is not worked on for now: what is kept of it may be let go of."""
        for reading in self._reading:
            reading.put_down(key)

    def release(self, key: str) -> None:
        """Let go of a conversation that is done."""
        for reading in self._reading:
            reading.release(key)

    async def held(self) -> list[str]:
        """The keys of the conversations with held dead letters, sorted."""
        letters = await read_letters(self.settings, LetterFilter(reason=DeadLetterReason.HELD))
        return sorted({filed.letter.key for filed in letters if filed.letter.key})

    async def read(self, key: str) -> tuple[list[Record], int]:
        """The records of a conversation that intake has handled, and the position up to which it has."""
        letters = await self.letters(key)
        return await self.records(key, await self.intake(key), letters)

    async def wait(self, key: str, limit_s: float) -> None:
        """Wait until intake has handled all that the log holds of a conversation now.

        Raises `Unhandled` where it has not after ``limit_s`` seconds, `Unavailable`.
        """
        letters = await self.letters(key)
        _, ahead = await self._log_of(key, await self._handled(key, await self.intake(key), letters))
        wanted = max((position_in_log(record, self.settings.log_epoch) for record in ahead), default=0)
        told_at = time.monotonic() + _SILENT_S
        try:
            async with asyncio.timeout(limit_s):
                while wanted and await self._handled(key, await self.intake(key), letters) < wanted:
                    if time.monotonic() > told_at:
                        log.warning("%s: waiting up to %g s until intake has handled what was said last", key, limit_s)
                        told_at = math.inf
                    await asyncio.sleep(_LOOK_S)
        except TimeoutError:
            raise Unhandled(
                f"{key}: intake has not handled {len(ahead)} of the records that the log holds of it: nothing is erased"
                " there yet; try again when it has"
            ) from None

    async def ledger(self, scope: Scope) -> Ledger:
        """The ledger of a stage; as `ledger_to_replace` where it is damaged."""
        return await ledger_to_replace(self.clients.store, self.clients.redis, self.clients.keys, scope)

    async def intake(self, key: str) -> Ledger:
        """The ledger of intake, after its outbox has been sent; that of nothing where it, or its snapshot, is lost."""
        scope = Scope(INTAKE, key)
        try:
            await self.ledger(scope)
        except SnapshotLost as fault:
            log.warning("%s", fault)
            self.clients.store.cold.give_up(key)
        while (ledger := await self.ledger(scope)).outbox is not None:
            await self.clients.sender.send(scope, ledger.outbox)
        return ledger

    async def records(self, key: str, intake: Ledger, letters: Sequence[Filed]) -> tuple[list[Record], int]:
        """The records of the conversation that intake has handled; it will handle the others after the repair.

        Then the position of the last record that it has handled.
        """
        handled = await self._handled(key, intake, letters)
        records, _ = await self._log_of(key, handled)
        return records, handled

    async def _handled(self, key: str, intake: Ledger, letters: Sequence[Filed]) -> int:
        """The position of the last record of the conversation's partition that intake has handled."""
        partition = partition_of(key.encode(), self.partitions)
        reader = ReadPartition(INTAKE, Topic.CONVERSATIONS, partition)
        shown = await self.clients.handled_positions.stored(reader)
        # what is set aside is stored as handled with the next ack, which may come a second later
        set_aside = map(self._set_aside, letters)
        return max(intake.applied, *(at.position for at in shown.values()), *set_aside)

    async def _log_of(self, key: str, handled: int) -> tuple[list[Record], list[Record]]:
        """The records of the conversation in the log up to a position, and those behind it."""
        epoch = self.settings.log_epoch
        records = await self.stored.read(key, self.clients.data_keys, epoch)
        ahead = [record for record in records if position_in_log(record, epoch) > handled]
        return [record for record in records if 0 < position_in_log(record, epoch) <= handled], ahead

    async def letters(self, key: str) -> list[Filed]:
        """The dead letters of the conversation that wait for a repair."""
        return [filed for filed in await self.open_letters(key) if filed.letter.reason is DeadLetterReason.HELD]

    async def open_letters(self, key: str) -> list[Filed]:
        """All open dead letters of the conversation. Raises `Refused`, `Unavailable`."""
        return await self._letters.open(key, self.clients.data_keys)

    def _set_aside(self, filed: Filed) -> int:
        """The position in the log of a record that intake has set aside for a repair; 0 for one of another stage."""
        letter = filed.letter
        return position(self.settings.log_epoch, letter.offset) if letter.stage == INTAKE else 0
