"""The sessions of days that a question names, found where neither words nor sense lead to them."""

from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta

import pytest

from eunoe.schemas.decisions import Commit, Put, Scope
from eunoe.schemas.events import Ask, Line, Provenance
from eunoe.schemas.memory import Segment
from eunoe.workers.compress.segments import segment_id
from eunoe.workers.compress.tables import NAME as COMPRESS
from eunoe.workers.compress.tables import SEGMENTS
from eunoe.workers.registry import StageSettings
from eunoe.workers.respond.fused.day_sessions import MAX_SESSIONS, sessions_of_days, spread
from eunoe.workers.respond.settings import RespondSettings
from eunoe.workers.stores.state.memory_store import MemoryStore
from eunoe.workers.text.periods import Period
from tests.support.in_memory import ended, make_pipeline, utterance

KEY = "default/c"
FIRST = datetime(2026, 1, 1, 12, tzinfo=UTC)


async def shelf(numbers: Sequence[int]) -> MemoryStore:
    """Sessions of these numbers, each on a day of its own: that of its number, counted from New Year's Eve."""
    store = MemoryStore()
    made_by = Provenance(code="x", model="y")
    writes = []
    for number in numbers:
        line = Line(utterance_id=f"u{number}", speaker="Ann", text="Hello.", at=FIRST + timedelta(days=number - 1))
        one = Segment(
            segment_id=segment_id(KEY, number, 0), session=number, index=0, lines=(line,), denoised="",
            known_from=FIRST, made_by=made_by,
        )  # fmt: skip
        writes.append(Put.of(SEGMENTS, one.segment_id, one))
    assert await store.commit(Scope(COMPRESS, KEY), Commit(expect=0, applied=1, writes=tuple(writes)))
    return store


def period(first: int, last: int) -> Period:
    """From the day of one session to the day of another."""
    return Period(0, 1, *(date(2026, 1, 1) + timedelta(days=number - 1) for number in (first, last)))


@pytest.mark.parametrize("last", [1, 2, 15, 16, 17, 40, 300])
async def test_the_session_of_each_day_is_found(last: int) -> None:
    store = await shelf(range(1, last + 1))
    for number in {1, last // 2, last - 1, last} - {0}:
        found = await sessions_of_days(store, KEY, last, [period(number, number)])
        assert found == [one for one in (number - 1, number) if one]


async def test_sessions_of_which_nothing_is_kept_are_passed_over() -> None:
    store = await shelf([number for number in range(1, 101) if number % 7])
    assert 50 in await sessions_of_days(store, KEY, 100, [period(50, 50)])
    assert await sessions_of_days(MemoryStore(), KEY, 100, [period(50, 50)]) == []


async def test_of_a_long_period_so_many_sessions_are_read_as_lie_evenly() -> None:
    store = await shelf(range(1, 101))
    found = await sessions_of_days(store, KEY, 100, [period(21, 60)])
    assert len(found) == MAX_SESSIONS
    assert (found[0], found[-1]) == (20, 60)
    assert spread(range(3)) == [0, 1, 2]


async def test_days_at_the_ends_of_the_calendar_are_none_of_these() -> None:
    store = await shelf(range(1, 4))
    assert await sessions_of_days(store, KEY, 3, [Period(0, 1, date.min, date.min)]) == []
    assert await sessions_of_days(store, KEY, 3, [Period(0, 1, date.max, date.max)]) == [3]


async def test_what_was_said_on_a_day_is_recalled_though_it_shares_no_word_with_the_question() -> None:
    few = StageSettings.model_validate({"respond": RespondSettings(candidates=2)})
    pipeline = make_pipeline(few)
    for number in range(1, 31):
        at = FIRST + timedelta(days=number - 1)
        text = "We bought a red bicycle" if number == 12 else f"I say what I did say on the hill of Town{number}"
        await pipeline.produce(utterance(number, text, speaker="Ann", at=at), ended(at=at + timedelta(hours=1)))
    asked = utterance(
        99, "What did I say on 12 January?", speaker="Ann", at=FIRST + timedelta(days=31),
        ask=Ask(request_id="r", record=False),
    )  # fmt: skip
    await pipeline.produce(asked)
    (reply,) = pipeline.replies()
    assert "red bicycle" in reply.text
