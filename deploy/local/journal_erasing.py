"""Takes erased utterances out of the journal, between two runs: the files are written anew, with placeholders."""

from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path

from eunoe.deploy.local.journal import Journal, JournalEntry, write_entries
from eunoe.deploy.local.journal_sealing import begin_new_key, destroy_old_keys, open_entry, seal_entry
from eunoe.schemas.erasure import ErasedPart
from eunoe.schemas.keys import Destruction, KeyStore
from eunoe.streams.position import position
from eunoe.workers.derive.erased import is_refused, placeholder, renamed


async def erase_from_journal(directory: Path, erased: Mapping[str, ErasedPart], keys: KeyStore | None = None) -> int:
    """Replace the records of erased utterances by placeholders; returns the number of records changed or removed.

    What remains of their conversations is sealed with another key, and the one before is destroyed. A file without any
    is not touched; one that is written anew replaces the old one in one step. No writer may have the journal open.
    Raises `Refused` for a damaged file, `Unavailable` when the key store does not answer.
    """
    if not erased:
        return 0
    journal = Journal(directory)
    changed = 0
    for partition in journal.partitions:
        entries = [entry async for entry in _opened(journal.read(partition), erased, keys)]
        kept = [after for entry in entries for after in _after(entry, erased)]
        if kept != entries:
            changed += len(set(map(_place, entries)) - set(map(_place, kept)))
            changed += sum(before.value != after.value for before, after in _pairs(entries, kept))
            write_entries(directory, partition, await _sealed(entries, kept, erased, keys))
    journal.close()
    if keys is not None:
        await destroy_old_keys(erased, keys, Destruction.REPLACED)
    return changed


async def _opened(
    entries: Iterator[JournalEntry], erased: Mapping[str, ErasedPart], keys: KeyStore | None
) -> AsyncIterator[JournalEntry]:
    """The entries, those of conversations of which something is erased unsealed; without those that are gone."""
    for entry in entries:
        opened = entry if _conversation(entry) not in erased else await open_entry(entry, keys)
        if opened is not None:
            yield opened


async def _sealed(
    entries: list[JournalEntry], kept: list[JournalEntry], erased: Mapping[str, ErasedPart], keys: KeyStore | None
) -> list[JournalEntry]:
    """The entries to be written; those of changed conversations sealed with a new key."""
    if keys is None:
        return kept
    before, after = _by_conversation(entries, erased), _by_conversation(kept, erased)
    for conversation, found in before.items():
        if found != after.get(conversation):
            await begin_new_key(conversation, keys)
    return [await seal_entry(entry, keys) for entry in kept]


def _by_conversation(entries: list[JournalEntry], erased: Mapping[str, ErasedPart]) -> dict[str, list[JournalEntry]]:
    found: dict[str, list[JournalEntry]] = {}
    for entry in entries:
        if (conversation := _conversation(entry)) in erased:
            found.setdefault(conversation, []).append(entry)
    return found


def _conversation(entry: JournalEntry) -> str:
    return (entry.key or b"").decode(errors="replace")


def _place(entry: JournalEntry) -> tuple[int, int]:
    return entry.epoch, entry.offset


def _pairs(before: list[JournalEntry], after: list[JournalEntry]) -> Iterator[tuple[JournalEntry, JournalEntry]]:
    old = {_place(entry): entry for entry in before}
    return ((old[_place(entry)], entry) for entry in after)


def _after(entry: JournalEntry, erased: Mapping[str, ErasedPart]) -> Iterator[JournalEntry]:
    """The entry as it stays; nothing for one that goes without a placeholder."""
    part = erased.get(_conversation(entry))
    if part is None:
        yield entry
        return
    at = position(entry.epoch, entry.offset)
    place = next((one for one in part.placeholders if one.position == at), None)
    if place is not None:
        yield entry.model_copy(update={"value": placeholder(place, part.key), "headers": ()})
    elif at > part.until and not is_refused(entry.value, part):
        yield entry.model_copy(update={"value": renamed(entry.value, part)})
