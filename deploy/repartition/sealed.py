"""Copies the sealed log into one with another number of partitions, as it is: nothing is opened.

What `log` does not have yet stands in `conversations`; `eunoe.deploy.repartition.moving` copies that, and seals it.
"""

from dataclasses import dataclass, field
from typing import Final

from eunoe.deploy.repartition.moving import LogEnd
from eunoe.deploy.repartition.records import carried, source_of
from eunoe.schemas.keys import Destroyed, KeyStore
from eunoe.streams.record import Message, Record
from eunoe.streams.sealed.records import key_id_of

_BATCH: Final = 500


@dataclass(slots=True)
class SealedMove:
    """Copies topic `log`; its ends read and write that topic. An interrupted attempt is continued by `copy`."""

    source: LogEnd
    target: LogEnd
    keys: KeyStore
    _there: dict[tuple[int, int], int] = field(default_factory=dict)
    """(partition of the source, partition of the target) → source offset of the last record copied."""

    async def copy(self) -> int:
        """Copy the records that the target lacks, but those whose key was destroyed; returns their number.

        Raises `Unavailable` where a key is missing.
        """
        await self._look()
        batch, done = list[Message](), 0
        async for record in self.source.read({}):
            if (message := await self._made(record)) is None:
                continue
            batch.append(message)
            if len(batch) >= _BATCH:
                done += await self._send(batch)
        return done + await self._send(batch)

    async def _look(self) -> None:
        async for record in self.target.read({}):
            if (source := source_of(record, self.source.log)) is not None:
                place = source[0], record.partition
                self._there[place] = max(self._there.get(place, -1), source[1])

    async def _made(self, record: Record) -> Message | None:
        """The message for the target; `None` for a record that is there, or erased, or that of another log."""
        key_id = key_id_of(record)
        if record.key is None or key_id is None:  # a control record: each log has its own
            return None
        message = carried(record, self.source.log, self.target.partitions)
        assert message.partition is not None
        if self._there.get((record.partition, message.partition), -1) >= record.offset:
            return None
        return None if isinstance(await self.keys.get(key_id), Destroyed) else message

    async def _send(self, batch: list[Message]) -> int:
        if batch:
            await self.target.publisher.publish(batch)
        count = len(batch)
        batch.clear()
        return count
