"""Kind and end of memories through the update of what is remembered."""

from dataclasses import dataclass
from datetime import datetime, timedelta

import pytest

from eunoe.schemas.events import InsightKind
from eunoe.schemas.memory import MemoriesFormed, Memory, MemoryKind, MemoryOrigin
from eunoe.workers.text.expiry import end_of_day
from eunoe.workers.update.applying import RENEWED
from eunoe.workers.update.reads import all_memories
from tests.support.in_memory import START
from tests.support.updates import KEY, Updates, formed, insight, proposed

SAYS = "Ann is in Rome."


def day(session: int) -> datetime:
    return START + timedelta(days=session)


def until(event: MemoriesFormed, expires_at: datetime | None, kind: MemoryKind = MemoryKind.STATE) -> MemoriesFormed:
    """The summary with this kind and end on each sentence."""
    drafts = [draft.model_copy(update={"kind": kind, "expires_at": expires_at}) for draft in event.drafts]
    return event.model_copy(update={"drafts": tuple(drafts)})


async def remembered(updates: Updates) -> list[Memory]:
    return await all_memories(updates.store, KEY)


@dataclass(frozen=True)
class Said:
    """The ends of a sentence and of its repetition, by days, and whether the old memory goes on."""

    first: int | None
    again: int | None
    passes: bool


@pytest.mark.parametrize(
    "said",
    [
        Said(None, None, passes=True),
        Said(9, 9, passes=True),
        Said(9, None, passes=True),
        Said(9, 12, passes=False),
        Said(None, 9, passes=False),
        Said(3, None, passes=False),
        Said(3, 9, passes=False),
    ],
)
async def test_what_is_said_again_is_a_new_memory_where_the_old_one_ends_otherwise(said: Said):
    updates = Updates()
    first, again = (None if one is None else day(one) for one in (said.first, said.again))
    await updates.hear(until(formed(1, SAYS), first), until(formed(4, SAYS).model_copy(update={"session": 2}), again))
    old, new = await remembered(updates)
    assert (old.ending is None) is said.passes
    assert (new.ending is None) is not said.passes
    assert [old.expires_at, new.expires_at] == [first, again]
    if not said.passes:
        assert old.ending is not None
        assert (old.ending.by, old.ending.because) == (new.memory_id, RENEWED)


async def test_a_memory_that_replaces_another_has_its_own_kind():
    texts = ("Ann plans to move to Rome.", "Ann has moved to Rome.")
    updates = Updates(script={texts: "REPLACE"})
    await updates.hear(until(formed(1, texts[0]), day(30), MemoryKind.PLAN), until(formed(2, texts[1]), None))
    old, new = await remembered(updates)
    assert old.ending is not None
    assert [(m.kind, m.expires_at) for m in (old, new)] == [(MemoryKind.PLAN, day(30)), (MemoryKind.STATE, None)]


async def test_a_merged_memory_has_the_kind_and_the_end_of_the_newest():
    texts = ("Ann likes Rome.", "Ann stays in Trastevere.")
    updates = Updates(script={texts: "FUSE: Ann likes Rome and stays in Trastevere."})
    await updates.hear(until(formed(1, texts[0]), None, MemoryKind.PREFERENCE), until(formed(2, texts[1]), day(9)))
    (merged,) = [memory for memory in await remembered(updates) if memory.origin is MemoryOrigin.FUSION]
    assert (merged.kind, merged.expires_at) == (MemoryKind.STATE, day(9))


async def test_an_insight_has_its_kind_and_end_by_the_rules():
    updates = Updates()
    told = insight(InsightKind.NEW, "Ann stays in Rome for the next two weeks.", 1)
    await updates.hear(proposed(1, 1, told), formed(1, turns=(1,)))
    (memory,) = await remembered(updates)
    assert (memory.kind, memory.expires_at) == (MemoryKind.STATE, end_of_day(memory.at.date() + timedelta(weeks=2)))


async def test_an_insight_in_the_words_of_a_memory_that_is_over_takes_its_place():
    text = "Ann stays in Rome for the next two days."
    updates = Updates()
    await updates.hear(until(formed(1, text), day(3)))
    (old,) = await remembered(updates)
    told = insight(InsightKind.REDUNDANT, text, 9, old.memory_id)
    await updates.hear(proposed(2, 1, told), formed(2, turns=(1,)))
    old, new = await remembered(updates)
    assert old.ending is not None
    assert (old.ending.by, new.ending) == (new.memory_id, None)
    assert new.expires_at == end_of_day(day(11).date())


def test_an_older_document_reads_without_kind_or_end():
    (memory,) = (Memory.model_validate(_without(formed(1, SAYS))),)
    assert (memory.kind, memory.expires_at, memory.has_expired(day(99))) == (None, None, False)
    assert "kind" not in memory.to_json().decode()


def _without(event: MemoriesFormed) -> dict[str, object]:
    draft = event.drafts[0].model_dump()
    own = {"memory_id": "m", "session": 1, "index": 0, "at": day(1), "known_from": day(1), "made_by": event.made_by}
    return {**draft, **own}
