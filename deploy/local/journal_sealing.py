"""Seals lines of the journal, with a data key of their conversation that seals nothing else.

The key that seals a conversation's topics and documents would not do: an erasure destroys it while the journal is in
use, and the lines of what remains could be read no more. This one is replaced between two runs, when erased lines are
taken out (`eunoe.deploy.local.journal_erasing`). Plain lines, of a time without a key store, are read as they are.
"""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final
from urllib.parse import quote

from eunoe.deploy.local.journal import JournalEntry
from eunoe.schemas.errors import Refused
from eunoe.schemas.keys import Destroyed, Destruction, KeyState, KeyStore
from eunoe.streams.packing import pack, unpack
from eunoe.streams.sealed.envelope import Tampered, seal, unseal
from eunoe.streams.sealed.letters import sealing_name

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def journal_key_name(key: bytes | None, log_time: datetime | None) -> str:
    """The name under which a key store has the key for journal lines of a record key, or of a month for any other."""
    return f"journal~{quote(sealing_name(key, f'{log_time or _EPOCH:%Y-%m}'), safe='')}"


async def seal_entry(entry: JournalEntry, keys: KeyStore) -> JournalEntry:
    """The entry with its value and headers sealed; one that is sealed stays as it is. Raises `Unavailable`."""
    if entry.sealed is not None:
        return entry
    key = await keys.current(journal_key_name(entry.key, entry.log_time))
    own = [part for name, value in entry.headers for part in (name.encode("utf-8", "surrogatepass"), value)]
    value = seal(key, pack([*own, entry.value]), _place(entry), deflate=True)
    return entry.model_copy(update={"value": value, "headers": (), "sealed": key.id})


async def open_entry(entry: JournalEntry, keys: KeyStore | None) -> JournalEntry | None:
    """The entry as it was before it was sealed; `None` where its key was destroyed.

    Raises `Refused` for a changed one, and where no key store is set; `Unavailable` for a missing key.
    """
    if entry.sealed is None:
        return entry
    where = f"the journal's line of {entry.epoch}:{entry.offset}"
    if keys is None:
        raise Refused(f"{where} is sealed: set EUNOE_KEYS__STORE and EUNOE_KEYS__KEK as they were")
    key = await keys.get(entry.sealed)
    if isinstance(key, Destroyed):
        return None
    try:
        *own, value = unpack(unseal(key, entry.value, _place(entry)))
    except (Tampered, ValueError) as fault:
        raise Refused(f"{where} was changed or moved; restore the file: {fault!s:.200}") from None
    names = (name.decode("utf-8", "surrogatepass") for name in own[::2])
    headers = tuple(zip(names, own[1::2], strict=True))
    return entry.model_copy(update={"value": value, "headers": headers, "sealed": None})


async def begin_new_key(key: str, keys: KeyStore) -> None:
    """Seal the lines of a conversation with another key from now on. Raises `Unavailable`."""
    await keys.replace(journal_key_name(key.encode(), None))


async def destroy_old_keys(conversations: Iterable[str], keys: KeyStore, why: Destruction) -> None:
    """Destroy the keys with which lines of these conversations were sealed before. Raises `Unavailable`."""
    for conversation in conversations:
        for one in await keys.keys(journal_key_name(conversation.encode(), None)):
            if one.state is not KeyState.CURRENT:  # also where an interrupted attempt left only the tombstone
                await keys.destroy(one.id, why)


def _place(entry: JournalEntry) -> tuple[str, ...]:
    return ("journal", (entry.key or b"").decode("latin-1"), f"{entry.epoch}:{entry.offset}")
