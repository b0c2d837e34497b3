"""The journal is written anew without erased utterances, and plays back to the same memory."""

from pathlib import Path

import pytest

from eunoe.deploy.local.journal import Journal, JournalEntry, entry_of
from eunoe.deploy.local.journal_erasing import erase_from_journal
from eunoe.schemas.decisions import Ledger
from eunoe.schemas.erasure import ErasedPart
from eunoe.workers.derive.erased import start_of
from eunoe.workers.derive.pipeline import TABLES
from eunoe.workers.registry import MEMORY_STAGES
from tests.support.in_memory import ended, make_pipeline, utterance
from tests.unit.test_erasure import EVERY_TURN, KEY, derive, erase, log_of, plain


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
    assert erase_from_journal(path, {KEY: part}) == 1
    after = entries_of(path)
    assert [entry.offset for entry in after] == [entry.offset for entry in before]
    assert [a == b for a, b in zip(before, after, strict=True)].count(False) == 1
    assert not any(b"Clara is getting" in entry.value or b'"u2"' in entry.value for entry in after)
    assert erase_from_journal(path, {KEY: part}) == 0


async def test_a_whole_conversation_leaves_no_record_and_others_stay(tmp_path: Path) -> None:
    (other,) = [entry for record in log_of([utterance(1, conversation="d")]) if (entry := entry_of(record, 0))]
    path = journal_at(tmp_path, other.model_copy(update={"key": b"default/d", "offset": 90}))
    part = ErasedPart.of(await erase(log_of(plain())))
    assert part is not None
    assert erase_from_journal(path, {KEY: part}) == len(plain())
    assert [entry.key for entry in entries_of(path)] == [b"default/d"]


@pytest.mark.parametrize("ids", [(), ("u2", "u4")])
async def test_a_replay_of_the_journal_makes_the_same_memory(tmp_path: Path, ids: tuple[str, ...]) -> None:
    path = journal_at(tmp_path)
    part = ErasedPart.of(await erase(log_of(plain()), *ids))
    assert part is not None
    erase_from_journal(path, {KEY: part})
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
