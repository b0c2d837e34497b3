"""Takes erased utterances out of the journal, between two runs: the files are written anew, with placeholders."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from eunoe.deploy.local.journal import Journal, JournalEntry, write_entries
from eunoe.schemas.erasure import ErasedPart
from eunoe.streams.position import position
from eunoe.workers.derive.erased import is_refused, placeholder, renamed


def erase_from_journal(directory: Path, erased: Mapping[str, ErasedPart]) -> int:
    """Replace the records of erased utterances by placeholders; returns the number of records changed or removed.

    A file without any is not touched; one that is written anew replaces the old one in one step. No writer may have
    the journal open. Raises `Refused` for a damaged file.
    """
    if not erased or not directory.exists():
        return 0
    journal = Journal(directory)
    changed = 0
    for partition in journal.partitions:
        entries = list(journal.read(partition))
        kept = [after for entry in entries for after in _after(entry, erased)]
        if kept != entries:
            changed += len(set(map(_place, entries)) - set(map(_place, kept)))
            changed += sum(before.value != after.value for before, after in _pairs(entries, kept))
            write_entries(directory, partition, kept)
    journal.close()
    return changed


def _place(entry: JournalEntry) -> tuple[int, int]:
    return entry.epoch, entry.offset


def _pairs(before: list[JournalEntry], after: list[JournalEntry]) -> Iterator[tuple[JournalEntry, JournalEntry]]:
    old = {_place(entry): entry for entry in before}
    return ((old[_place(entry)], entry) for entry in after)


def _after(entry: JournalEntry, erased: Mapping[str, ErasedPart]) -> Iterator[JournalEntry]:
    """The entry as it stays; nothing for one that goes without a placeholder."""
    part = erased.get((entry.key or b"").decode(errors="replace"))
    if part is None:
        yield entry
        return
    at = position(entry.epoch, entry.offset)
    place = next((one for one in part.placeholders if one.position == at), None)
    if place is not None:
        yield entry.model_copy(update={"value": placeholder(place, part.key), "headers": ()})
    elif at > part.until and not is_refused(entry.value, part):
        yield entry.model_copy(update={"value": renamed(entry.value, part)})
