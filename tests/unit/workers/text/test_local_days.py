"""Days by the clock of who speaks: what "tomorrow" means, when a plan ends, and the day that is told."""

from datetime import UTC, date, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eunoe.deploy.inspect.drawing import memory_line
from eunoe.schemas.events import Line, Provenance, Strategy
from eunoe.schemas.memory import Memory, MemoryDraft, MemoryKind
from eunoe.schemas.profile import line_of
from eunoe.schemas.replies import Recalled
from eunoe.streams.topics import Topic
from eunoe.workers.derive.in_memory import InMemoryPipeline
from eunoe.workers.intake.clocks import by_one_clock
from eunoe.workers.intake.known_ids import digest_of
from eunoe.workers.intake.turns import line_of as said_line
from eunoe.workers.models.questions.answer_forms import MemoriesForm, MemoryRow
from eunoe.workers.models.questions.asking import numbered
from eunoe.workers.respond.context import line_row, same_day, write_day
from eunoe.workers.summarize.answer import Window, drafts_of
from eunoe.workers.text.expiry import end_of_day, expiry_of
from eunoe.workers.text.extraction import draft_of
from eunoe.workers.text.statements import statements_in
from eunoe.workers.update.person import profile_item
from eunoe.workers.update.reads import all_memories
from tests.support.in_memory import closed, ended, letter_reasons, make_pipeline, utterance

LOS_ANGELES = timezone(-timedelta(hours=7))
MONDAY_EVENING = datetime(2026, 6, 1, 20, tzinfo=LOS_ANGELES)
"""The second of June in UTC."""
CLOCKS = st.integers(-12 * 60, 14 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))
LOCAL = st.datetimes(datetime(1970, 1, 2), datetime(2200, 1, 1))  # noqa: DTZ001 - each test gives them a clock
PHRASES = st.sampled_from(
    [
        "I will meet my sister tomorrow at the lake.",
        "I moved to Lyon yesterday with my aunt.",
        "I am in Rome with my aunt until Friday.",
        "I have a job in Oslo for the next two weeks.",
        "I started a course in Prague last Monday.",
        "I will marry my girlfriend next month in Lisbon.",
        "I bought a red bicycle two days ago in Ghent.",
        "I will visit my brother in Bergen in two days.",
    ]
)


def line(text: str, at: datetime, number: int = 1, reply_id: str | None = None) -> Line:
    return Line(utterance_id=f"u{number}", speaker="Ann", text=text, at=at, reply_id=reply_id)


def drafts(text: str, at: datetime) -> list[MemoryDraft]:
    return [draft_of(one) for one in statements_in([line(text, at)])]


def memory(text: str, at: datetime, expires_at: datetime | None = None) -> Memory:
    fields = {"memory_id": "m1", "session": 1, "index": 0, "speaker": "Ann", "text": text, "known_from": at, "at": at}
    made_by = Provenance(code="test", model="test")
    return Memory(**fields, evidence=(line(text, at),), made_by=made_by, kind=MemoryKind.PLAN, expires_at=expires_at)


async def remembered(*texts: str, at: datetime = MONDAY_EVENING) -> tuple[InMemoryPipeline, list[Memory]]:
    pipeline = make_pipeline()
    said = [utterance(number, text, speaker="Ann", at=at) for number, text in enumerate(texts, 1)]
    await pipeline.produce(*said, ended())
    return pipeline, await all_memories(pipeline.store, "default/c")


async def test_tomorrow_is_the_day_after_the_speakers_day():
    pipeline, (plan,) = await remembered("I will meet Bob at the lake tomorrow.")
    assert not letter_reasons(pipeline.log)
    assert "tomorrow (2 June 2026)" in plan.text
    assert plan.expires_at == datetime(2026, 6, 3, tzinfo=LOS_ANGELES)
    assert write_day(plan.at) == "1 June 2026"


@given(PHRASES, LOCAL, CLOCKS)
def test_what_a_phrase_means_depends_on_the_day_of_the_speaker_alone(text: str, told: datetime, clock: timezone):
    there, here = drafts(text, told.replace(tzinfo=clock)), drafts(text, told.replace(tzinfo=UTC))
    assert [one.text for one in there] == [one.text for one in here]
    for one, other in zip(there, here, strict=True):
        ends = None if other.expires_at is None else other.expires_at.replace(tzinfo=clock)
        assert one.expires_at == ends
        assert one.at == told.replace(tzinfo=clock)


@given(LOCAL, CLOCKS)
def test_a_day_ends_at_midnight_of_the_speaker(told: datetime, clock: timezone):
    at = told.replace(tzinfo=clock)
    ends = expiry_of("I am in Rome until tomorrow.", at, MemoryKind.STATE)
    assert ends == end_of_day(at.date() + timedelta(days=1), clock)
    assert at < ends <= at + timedelta(days=2)


def test_an_end_that_a_model_names_is_that_of_the_speakers_day():
    said = line("I am in Rome until the tenth.", MONDAY_EVENING)
    row = MemoryRow(speaker=1, text="Ann is in Rome.", kind="state", until="2026-06-10", own=1)
    (draft,) = drafts_of(MemoriesForm(memories=(row,)), Window(lines=(said,), first=1), 5)
    assert draft.expires_at == datetime(2026, 6, 11, tzinfo=LOS_ANGELES)


# ---- what is told


def test_a_model_sees_the_day_of_the_speaker():
    assert numbered([line("Hi", MONDAY_EVENING)], 1) == "[1] Ann (Mon 2026-06-01): Hi"
    assert numbered([line("Hi", MONDAY_EVENING.astimezone(UTC))], 1) == "[1] Ann (Tue 2026-06-02): Hi"
    assert write_day(line_row(1, line("Hi", MONDAY_EVENING)).at) == "1 June 2026"


def test_a_reader_sees_the_day_of_the_speaker():
    plan = memory("Ann meets Bob.", MONDAY_EVENING, datetime(2026, 6, 3, tzinfo=LOS_ANGELES))
    stored = Memory.from_json(plan.to_json())
    assert "(2026-06-01, m1, until 2026-06-02)" in memory_line(stored)
    assert line_of(profile_item(stored)) == "- Ann meets Bob. (2026-06-01, until 2026-06-02)"


@pytest.mark.parametrize("strategy", list(Strategy))
async def test_a_recall_tells_the_day_of_the_speaker(strategy):
    pipeline, _ = await remembered("I will meet Bob at the lake tomorrow.")
    ask = {"request_id": "r1", "record": False, "wants": "memory", "strategy": strategy}
    asked = utterance(9, "When will Ann meet Bob at the lake?", ask=ask, at=MONDAY_EVENING + timedelta(hours=1))
    await pipeline.produce(asked)
    (found,) = pipeline.events(Topic.REPLIES)
    assert isinstance(found, Recalled)
    assert found.error is None
    assert "3 June" not in found.text
    assert not found.rows or "1 June 2026" in found.text
    assert {write_day(row.at) for row in found.rows} <= {"1 June 2026"}


# ---- clocks side by side


async def test_an_event_that_is_sent_again_by_another_clock_is_the_same_event():
    said = utterance(1, "I moved to Lyon.", at=MONDAY_EVENING)
    again = utterance(1, "I moved to Lyon.", at=MONDAY_EVENING.astimezone(UTC))
    assert digest_of(said) == digest_of(again)
    pipeline = make_pipeline()
    await pipeline.produce(said, again, said, ended())
    assert not letter_reasons(pipeline.log)
    (session,) = closed(pipeline)
    assert [one.utterance_id for one in session.lines] == ["u1"]
    assert session.lines[0].at.utcoffset() == timedelta(hours=-7)


def test_a_reply_stamped_in_utc_has_the_clock_of_the_line_before_it():
    told = [
        line("Hello", MONDAY_EVENING.astimezone(UTC), 1, "r1"),
        line("See you tomorrow", MONDAY_EVENING, 2),
        line("See you", MONDAY_EVENING.astimezone(UTC), 3, "r3"),
        line("Good night", MONDAY_EVENING.astimezone(UTC), 4),
    ]
    assert [write_day(one.at) for one in by_one_clock(told)] == [
        "2 June 2026", "1 June 2026", "1 June 2026", "2 June 2026"
    ]  # fmt: skip
    assert by_one_clock(told[:1]) == tuple(told[:1])


async def test_a_session_tells_its_replies_by_the_clock_of_its_user():
    pipeline = make_pipeline()
    reply = utterance(2, "See you", speaker="agent", reply_id="r", at=MONDAY_EVENING.astimezone(UTC))
    await pipeline.produce(utterance(1, "See you tomorrow", at=MONDAY_EVENING), reply, ended())
    (session,) = closed(pipeline)
    assert [write_day(one.at) for one in session.lines] == ["1 June 2026", "1 June 2026"]


def test_two_times_are_of_one_day_by_the_clock_of_the_first():
    late = datetime(2026, 6, 2, 4, tzinfo=UTC)
    assert same_day(MONDAY_EVENING, late)
    assert not same_day(late, MONDAY_EVENING - timedelta(hours=5))
    assert same_day(late, late.replace(hour=23))
    assert not same_day(late, late - timedelta(hours=5))


# ---- records that tell no offset


def test_what_is_sent_in_utc_is_stored_as_before():
    said = said_line(utterance(1, "I moved to Lyon.", at=datetime(2026, 6, 2, 3, tzinfo=UTC)))
    assert said.to_json() == (
        b'{"utterance_id":"u1","speaker":"Ann","text":"I moved to Lyon.","at":"2026-06-02T03:00:00Z","reply_id":null}'
    )
    assert said.at.date() == date(2026, 6, 2)


async def test_an_offset_needs_no_newer_version_of_a_record():
    """A stage or client that knows no offsets reads the time in UTC, and waits for no update."""
    pipeline, _ = await remembered("I will meet Bob at the lake tomorrow.")
    other, _ = await remembered("I will meet Bob at the lake tomorrow.", at=MONDAY_EVENING.astimezone(UTC))
    for topic in (Topic.CONVERSATIONS, Topic.SESSIONS, Topic.SEGMENTS, Topic.MEMORIES, Topic.CHANGES):
        there, here = pipeline.events(topic), other.events(topic)
        assert [one.schema_version for one in there] == [one.schema_version for one in here]
        assert [set(one.model_dump(exclude_none=True)) for one in there] == [
            set(one.model_dump(exclude_none=True)) for one in here
        ]
