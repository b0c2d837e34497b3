"""Changes the data key of a conversation: what remains of its log is sealed anew, then the old keys are destroyed.

Which keys are old follows from the ledger of erasures and from the log, so that each step can be repeated: those that
the conversation had when the erasure began, and those that an erased record is sealed with.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from eunoe.deploy.clients.bootstrap import Clients
from eunoe.deploy.generations.erase.receipt import DestroyedKey
from eunoe.deploy.generations.handled_log import HandledLog
from eunoe.deploy.settings import Settings
from eunoe.schemas.erasure import ErasedPart, Erasure
from eunoe.schemas.keys import Destruction, KeyState
from eunoe.schemas.versions import ContractError
from eunoe.streams.record import Record
from eunoe.streams.sealed.log import logged, original
from eunoe.streams.sealed.records import key_id_of
from eunoe.streams.topics import Topic
from eunoe.workers.derive.erased import is_erased, renamed
from eunoe.workers.stores.data_keys.cached import CachedKeys

_BATCH: Final = 200


async def keys_in_use(data_keys: CachedKeys | None, key: str) -> tuple[str, ...]:
    """The ids of a conversation's data keys that are not destroyed; none without a key store. Raises `Unavailable`."""
    found = [] if data_keys is None else await data_keys.keys(key)
    return tuple(one.id for one in found if one.state is not KeyState.DESTROYED)


@dataclass(frozen=True, slots=True)
class KeyChange:
    """The change of a conversation's data key in erasures. ``settings`` and ``clients``: of one generation."""

    settings: Settings
    clients: Clients
    erasures: Sequence[Erasure]
    """Those that are carried out, of one conversation."""
    part: ErasedPart
    log: HandledLog

    @property
    def keys(self) -> set[str]:
        """The ids of the data keys that the conversation had when the erasures began."""
        return {key_id for erasure in self.erasures for key_id in erasure.keys}

    async def begin(self) -> None:
        """Make another key current, unless that was done; from here on the state is sealed with it at the next swap."""
        data_keys = self.clients.data_keys
        if data_keys is None:
            return
        data_keys.forget(self.part.key)  # another generation's may have replaced it
        old = await self._old()
        found = await data_keys.keys(self.part.key)
        if any(one.id in old and one.state is KeyState.CURRENT for one in found):
            await data_keys.replace(self.part.key)

    async def seal_anew(self, records: Sequence[Record]) -> None:
        """Seal the records that remain, at their old positions, with the current key; ``records``: in log order.

        From the last to the first: interrupted anywhere, `log` has all from some position on
        (`eunoe.streams.sealed.log`).
        """
        data_keys, epoch = self.clients.data_keys, self.settings.log_epoch
        if data_keys is None:
            return
        data_keys.forget(self.part.key)
        new = await data_keys.current(self.part.key)
        left = [one for one in records if key_id_of(one) != new.id and not is_erased(one, self.part, epoch)]
        messages = []
        for record in reversed(left):
            try:
                plain = replace(record, value=renamed(record.value, self.part))
                messages.append(logged(plain, epoch, new.id))
            except ContractError:  # intake has dead-lettered it
                continue
        for at in range(0, len(messages), _BATCH):
            await self.clients.publisher.publish(messages[at : at + _BATCH])

    async def finish(self) -> tuple[DestroyedKey, ...]:
        """Destroy the old keys, and return all that the erasures have destroyed, in earlier attempts, too."""
        data_keys = self.clients.data_keys
        if data_keys is None:
            return ()
        old = await self._old()
        why = Destruction.ERASED if any(one.is_whole for one in self.erasures) else Destruction.REPLACED
        for one in await data_keys.keys(self.part.key):
            if one.id in old:  # also with a tombstone: an interrupted attempt may have left the key in a file
                await data_keys.destroy(one.id, why)
        data_keys.forget(self.part.key)
        await self.clients.answers.forget(self.part.key, keep=(await data_keys.current(self.part.key)).id)
        return tuple(
            DestroyedKey(id=one.id, created=one.created, destroyed=one.destroyed, why=one.why)
            for one in await data_keys.keys(self.part.key)
            if one.id in old and one.destroyed is not None and one.why is not None
        )

    async def _old(self) -> set[str]:
        """The keys that seal something erased. Those that an earlier erasure has destroyed are among them, too."""
        epoch, stored = self.settings.log_epoch, await self.log.stored.stored(self.part.key)
        copies = (record for record in stored if record.topic == Topic.LOG and _is_erased(record, self.part, epoch))
        return {*self.keys, *filter(None, map(key_id_of, copies))}


def _is_erased(record: Record, part: ErasedPart, epoch: int) -> bool:
    try:
        return is_erased(original(record, epoch), part, epoch)
    except ContractError:
        return False
