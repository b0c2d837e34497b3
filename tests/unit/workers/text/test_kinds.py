"""The kind of a sentence, and the end that it names, by rules."""

from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eunoe.schemas.events import Line
from eunoe.schemas.memory import MemoryKind
from eunoe.workers.text.day_words import WEEKDAYS
from eunoe.workers.text.expiry import end_of_day, expiry_of
from eunoe.workers.text.extraction import choose, draft_of
from eunoe.workers.text.kinds import kind_of
from eunoe.workers.text.periods import periods_in
from eunoe.workers.text.statements import statements_in

SAID = datetime(2026, 3, 4, 10, tzinfo=UTC)
"""A Wednesday."""
STATE, EVENT, PREFERENCE, PLAN = MemoryKind

TIMES = st.datetimes(min_value=datetime(1900, 1, 1), max_value=datetime(2200, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001
WORDS = st.lists(
    st.sampled_from(
        [
            "I",
            "Ann",
            "is",
            "was",
            "will",
            "until",
            "till",
            "for",
            "the",
            "next",
            "in",
            "on",
            "by",
            "at",
            "least",
            "Friday",
            "May",
            "March",
            "5",
            "12th",
            "2026-04-01",
            "week",
            "month",
            "year",
            "end",
            "of",
            "two",
            "weeks",
            "tomorrow",
            "going",
            "to",
            "plan",
            "loves",
            "moved",
            ".",
            "?",
            "'",
            "starting",
            "since",
            "this",
            "weekend",
        ]
    ),
    max_size=14,
).map(" ".join)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("Ann lives in Lyon.", STATE),
        ("Ann moved to Lyon last week.", STATE),
        ("I have quit smoking.", STATE),
        ("I have a dog named Rex.", STATE),
        ("Ann has been working at a bakery for three years.", STATE),
        ("Ann is allergic to nuts.", STATE),
        ("Ann turned vegetarian.", STATE),
        ("Ann is getting married in June.", PLAN),
        ("We're moving to Wales in March.", PLAN),
        ("I've been moving boxes in May.", STATE),
        ("Since we last chatted, I'm volunteering at a school.", STATE),
        ("Ann went to the zoo with Tom.", EVENT),
        ("I was in Rome until Friday.", EVENT),
        ("Ann has been to Paris.", EVENT),
        ("In February Ann couldn't get off the sofa.", EVENT),
        ("In May Ann went to Rome.", EVENT),
        ("On 2 May Ann went to Rome.", EVENT),
        ("Ann bought a car yesterday.", EVENT),
        ("Ann loves hiking.", PREFERENCE),
        ("I don't like mushrooms.", PREFERENCE),
        ("Ann's favourite colour is green.", PREFERENCE),
        ("She's really into jazz.", PREFERENCE),
        ("Ann plans to visit her sister.", PLAN),
        ("I'm going to run a marathon.", PLAN),
        ("I'd love to see Japan.", PLAN),
        ('Ann said: "We\'re flying to Oslo tomorrow!"', PLAN),
        ("I'm going to the gym.", STATE),
        ("Ann has a room in a shared flat.", STATE),
        ("Ann's sister works at the harbour.", STATE),
        ('Ann said: "From August I\'m at the workshop."', STATE),
        ("Ann went to Oslo because she wants to see the fjords.", EVENT),
        ("Ann got stuff like canned food.", EVENT),
        ("Ann can't stand the noise.", PREFERENCE),
        ("Ann will start a new job on Monday.", PLAN),
        ("Ann is planning a trip to the coast.", PLAN),
        ("Ann wants to learn Portuguese.", PLAN),
        ("Ann is cooking for Tom tonight.", PLAN),
        ("Ann is moving from Oslo to Cork on 1 March.", PLAN),
        ("Ann is cooking tonight. Ann is allergic to nuts.", STATE),
        ("Ann is working at a bakery.", STATE),
        ("There is nothing on tonight.", STATE),
        ("It looks like rain.", STATE),
        ("Ich fahre morgen nach Berlin.", STATE),
    ],
)
def test_the_kind_of_a_sentence(text: str, kind: MemoryKind):
    assert kind_of(text) is kind


@pytest.mark.parametrize(
    ("text", "last"),
    [
        ("Ann is in Rome until Friday.", date(2026, 3, 6)),
        ("Ann is in Rome until Wednesday.", date(2026, 3, 4)),
        ("Ann is in Rome until next Wednesday.", date(2026, 3, 11)),
        ("I'm off work until the end of the month.", date(2026, 3, 31)),
        ("The gym is closed until May.", date(2026, 4, 30)),
        ("The gym is closed until next week.", date(2026, 3, 8)),
        ("The gym is closed through May.", date(2026, 5, 31)),
        ("She's on a diet till the end of April.", date(2026, 4, 30)),
        ("Ann works from home for the next two weeks.", date(2026, 3, 18)),
        ("My sister's visiting for another 3 days.", date(2026, 3, 7)),
        ("I can't run until 12 February.", date(2027, 2, 12)),
        ("I'll be away until March 20th, 2026.", date(2026, 3, 20)),
        ("Ann is away until 2026-03-20.", date(2026, 3, 20)),
        ("Ann plans to visit her sister on 12 May.", date(2026, 5, 12)),
        ("I am planning to go camping this weekend.", date(2026, 3, 8)),
        ("Ann is going to run a marathon in two weeks.", date(2026, 3, 18)),
        ("Ann keeps the car until 12 June.", date(2026, 6, 12)),
        ("Ann keeps the car until February 2.", date(2027, 2, 2)),
        ("Ann keeps the car until May 2030.", date(2030, 4, 30)),
        ("Ann is cooking for Tom tonight (4 March 2026).", date(2026, 3, 4)),
        ("Ann will call the dentist tomorrow.", date(2026, 3, 5)),
        ("Ann will call the dentist by next Wednesday.", date(2026, 3, 11)),
        ("Ann will go to Oslo in July.", date(2026, 7, 31)),
        ("Ann will go to Oslo next year.", date(2027, 12, 31)),
    ],
)
def test_an_end_is_resolved_against_the_day_of_the_utterance(text: str, last: date):
    assert expiry_of(text, SAID, kind_of(text)) == end_of_day(last)


@pytest.mark.parametrize(
    "text",
    [
        "Ann lives in Lyon.",
        "I was in Rome until Friday.",
        "Ann used to play chess until May.",
        "I'm staying with my parents at least until June.",
        "Ann wants to start a band next year.",
        "I will run every day starting next week.",
        "I'm thinking about adopting a cat next month.",
        "I'm away until 2026-03-01.",
        "I'm away until 30 February.",
        "I'm in Rome until I find a job.",
        "I've been ill for two weeks.",
        "Ann runs on Sundays.",
        "Ann lives in Cork since Friday.",
        "Ann keeps the car until 31 June.",
        "Ann kept it until May 2020.",
        "Ann will go to Oslo some day.",
        "Bis Freitag bin ich in Rom.",
    ],
)
def test_no_end_is_read_where_the_text_names_none(text: str):
    assert expiry_of(text, SAID, kind_of(text)) is None


@given(TIMES, st.sampled_from(WEEKDAYS))
def test_a_day_of_the_week_is_the_nearest_one(at: datetime, day: str):
    ends = expiry_of(f"Ann is away until {day.title()}.", at, STATE)
    assert ends is not None
    last = (ends - timedelta(days=1)).date()
    assert WEEKDAYS[last.weekday()] == day
    assert timedelta() <= last - at.date() < timedelta(days=7)


@given(TIMES, st.integers(1, 400))
def test_a_number_of_days_is_counted_from_the_utterance(at: datetime, days: int):
    ends = expiry_of(f"Ann is away for the next {days} days.", at, STATE)
    assert ends == end_of_day(at.date() + timedelta(days=days))


@given(WORDS, TIMES, st.sampled_from(MemoryKind))
def test_an_end_lies_after_the_utterance(text: str, at: datetime, kind: MemoryKind):
    ends = expiry_of(text, at, kind)
    assert ends is None or (ends > at and kind is not EVENT and list(periods_in(text, at.date())))


@given(st.text(max_size=300), TIMES)
def test_any_text_has_a_kind(text: str, at: datetime):
    kind = kind_of(text)
    ends = expiry_of(text, at, kind)
    assert isinstance(kind, MemoryKind)
    assert ends is None or ends > at


@given(WORDS, TIMES)
def test_an_utterance_said_later_by_whole_weeks_ends_later_by_as_many(text: str, at: datetime):
    plain = " ".join(word for word in text.split() if word not in ("May", "March", "month", "year", "2026-04-01"))
    kind, week = kind_of(plain), timedelta(weeks=1)
    first, later = expiry_of(plain, at, kind), expiry_of(plain, at + week, kind)
    assert later == (first + week if first else None)


def test_a_draft_without_a_model_has_its_kind_and_its_end():
    said = "I moved in with my parents in Lyon. I am on sick leave until the end of the month because of my knee."
    line = Line(utterance_id="u1", speaker="Ann", text=said, at=SAID)
    drafts = [draft_of(one) for one in choose(statements_in([line]), 3, 9)]
    assert [(draft.kind, draft.expires_at) for draft in drafts] == [
        (STATE, None),
        (STATE, end_of_day(date(2026, 3, 31))),
    ]
