"""The journal is written anew without erased utterances, and plays back to the same memory."""

from pathlib import Path

import pytest

from eunoe.deploy.local import journal_erasing
from eunoe.deploy.local.journal import Journal, JournalEntry, entry_of
from eunoe.deploy.local.journal_erasing import erase_from_journal
from eunoe.deploy.local.journal_sealing import open_entry, seal_entry
from eunoe.schemas.decisions import Ledger, Scope
from eunoe.schemas.erasure import ErasedPart
from eunoe.schemas.errors import Refused, Unavailable
from eunoe.workers.derive.erased import INTAKE, start_of
from eunoe.workers.derive.pipeline import TABLES
from eunoe.workers.intake.erased import ERASED
from eunoe.workers.intake.head import Head
from eunoe.workers.intake.state import HEAD
from eunoe.workers.registry import MEMORY_STAGES
from eunoe.workers.stores.state.cached_state import CachedStateStore, state_cache
from eunoe.workers.stores.state.memory_store import MemoryStore
from tests.support.in_memory import ended, make_pipeline, utterance
from tests.support.memory.key_store import MemoryKeyStore
from tests.unit.workers.derive.test_erasure import EVERY_TURN, KEY, derive, erase, log_of, plain


def journal_at(path: Path, *extra: JournalEntry) -> Path:
    journal = Journal(path)
    entries = [entry for record in log_of(plain()) if (entry := entry_of(record, 0)) is not None]
    journal.append(0, [*entries, *extra])
    journal.close()
    return path


def entries_of(path: Path) -> list[JournalEntry]:
    journal = Journal(path)
    found = list(journal.read(0))
    journal.close()
    return found


async def test_a_journal_keeps_the_places_and_loses_the_words(tmp_path: Path) -> None:
    path = journal_at(tmp_path)
    part = ErasedPart.of(await erase(log_of(plain()), "u2"))
    assert part is not None
    before = entries_of(path)
    assert await erase_from_journal(path, {KEY: part}) == 1
    after = entries_of(path)
    assert [entry.offset for entry in after] == [entry.offset for entry in before]
    assert [a == b for a, b in zip(before, after, strict=True)].count(False) == 1
    assert not any(b"Clara is getting" in entry.value or b'"u2"' in entry.value for entry in after)
    assert await erase_from_journal(path, {KEY: part}) == 0


async def test_a_whole_conversation_leaves_no_record_and_others_stay(tmp_path: Path) -> None:
    (other,) = [entry for record in log_of([utterance(1, conversation="d")]) if (entry := entry_of(record, 0))]
    path = journal_at(tmp_path, other.model_copy(update={"key": b"default/d", "offset": 90}))
    part = ErasedPart.of(await erase(log_of(plain())))
    assert part is not None
    assert await erase_from_journal(path, {KEY: part}) == len(plain())
    assert [entry.key for entry in entries_of(path)] == [b"default/d"]


@pytest.mark.parametrize("ids", [(), ("u2", "u4")])
async def test_a_replay_of_the_journal_makes_the_same_memory(tmp_path: Path, ids: tuple[str, ...]) -> None:
    path = journal_at(tmp_path)
    part = ErasedPart.of(await erase(log_of(plain()), *ids))
    assert part is not None
    await erase_from_journal(path, {KEY: part})
    pipeline = make_pipeline(EVERY_TURN, partitions=1, epoch=1)
    start = start_of(part)
    assert start is not None
    await pipeline.store.swap(KEY, TABLES, start, Ledger())
    await pipeline.send(*(entry.message(0) for entry in entries_of(path)))
    derived = await derive(log_of(plain()), part)
    there = await pipeline.store.export(KEY, TABLES)
    for stage in MEMORY_STAGES:
        assert there.ledgers[stage] == derived.standing.ledgers[stage]
    assert there.tables == derived.standing.tables
    await pipeline.produce(utterance(2, "I say it again."), utterance(60), ended())
    assert pipeline.dead_letters() == 0


async def test_intake_looks_for_what_was_erased_before_it_has_handled_a_record_again() -> None:
    """Else what a producer sends again after a stop that was not clean comes back."""
    part = ErasedPart.of(await erase(log_of(plain()), "u2"))
    start = start_of(part)
    assert part is not None
    assert start is not None
    kept = MemoryStore()
    await kept.swap(KEY, TABLES, start, Ledger())
    cached = CachedStateStore(kept, INTAKE, state_cache())
    await cached.ledger(Scope(INTAKE, KEY))
    (head,) = await cached.fetch(INTAKE, KEY, HEAD, [HEAD])
    assert head is not None
    assert Head.from_json(head).salt == part.salt
    assert await cached.fetch(INTAKE, KEY, ERASED, [part.hashed("u2")]) == ["{}"]


def killed(*_: object) -> None:
    raise OSError("killed")


async def sealed_journal(path: Path, keys: MemoryKeyStore) -> Path:
    """The same journal, its first line from before there was a key store."""
    journal = Journal(path)
    first, *rest = [entry for record in log_of(plain()) if (entry := entry_of(record, 0)) is not None]
    journal.append(0, [first, *[await seal_entry(entry, keys) for entry in rest]])
    journal.close()
    return path


async def opened(path: Path, keys: MemoryKeyStore) -> list[JournalEntry | None]:
    return [await open_entry(entry, keys) for entry in entries_of(path)]


async def test_sealed_lines_are_read_as_they_were_and_hold_no_word(tmp_path: Path) -> None:
    keys = MemoryKeyStore()
    path = await sealed_journal(tmp_path / "sealed", keys)
    plain_entries = entries_of(journal_at(tmp_path / "plain"))
    assert await opened(path, keys) == plain_entries
    first, *rest = (path / "0.jsonl").read_bytes().splitlines()
    assert b"utterance" in JournalEntry.from_json(first[9:]).value
    assert not any(b"Clara" in entry.value or b"utterance" in entry.value for entry in entries_of(path)[1:])
    assert len(rest) == len(plain_entries) - 1


async def test_a_sealed_line_that_was_moved_or_has_no_key_store_is_refused(tmp_path: Path) -> None:
    keys = MemoryKeyStore()
    last = entries_of(await sealed_journal(tmp_path, keys))[-1]
    for line, given in ((last.model_copy(update={"offset": 99}), keys), (last, None)):
        with pytest.raises(Refused):
            await open_entry(line, given)
    with pytest.raises(Unavailable):
        await open_entry(last, MemoryKeyStore())


async def test_an_erasure_seals_the_rest_of_the_journal_anew_and_destroys_its_key(tmp_path: Path) -> None:
    keys = MemoryKeyStore()
    path = await sealed_journal(tmp_path / "sealed", keys)
    stolen = entries_of(path)
    part = ErasedPart.of(await erase(log_of(plain()), "u2"))
    assert part is not None
    await erase_from_journal(journal_at(tmp_path / "plain"), {KEY: part})
    # killed before the file was replaced: the next start does it again
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(journal_erasing, "write_entries", killed)
        with pytest.raises(OSError, match="killed"):
            await erase_from_journal(path, {KEY: part}, keys)
    assert await erase_from_journal(path, {KEY: part}, keys) == 1
    assert await opened(path, keys) == entries_of(tmp_path / "plain")
    assert await erase_from_journal(path, {KEY: part}, keys) == 0
    assert await opened(path, keys) == entries_of(tmp_path / "plain")
    assert [await open_entry(line, keys) for line in stolen[1:]] == [None] * (len(stolen) - 1)


async def test_records_without_a_conversation_are_sealed_with_a_key_of_their_month() -> None:
    keys = MemoryKeyStore()
    entry = JournalEntry(epoch=1, offset=1, log_time=None, key=None, value=b"Leo", headers=(("a", b"\xff"),))
    sealed = await seal_entry(entry, keys)
    assert b"Leo" not in sealed.to_json()
    assert await open_entry(JournalEntry.from_json(sealed.to_json()), keys) == entry
    assert len(await keys.keys("journal~month-1970-01")) == 1
