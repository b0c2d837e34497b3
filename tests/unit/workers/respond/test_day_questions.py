"""Replies without a model to questions that name days by the words people use."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from eunoe.schemas.events import Line
from eunoe.workers.respond.context import Row, make_context, write_row
from eunoe.workers.respond.offline.replier import NOTHING, OfflineReplier
from eunoe.workers.respond.replier import ReplyTask
from tests.support.in_memory import HashEmbedder

WEST = timezone(timedelta(hours=-7))
SPEAKERS = ("Ann", "Bot")
SAID = [
    ("2026-05-04T20:00", "Ann", "I keep two dogs called Rex and Max."),
    ("2026-05-20T21:00", "Ann", "I tried a pottery class yesterday and loved it."),
    ("2026-05-20T21:01", "Ann", "Next week I fly to Lisbon with Marco."),
    ("2026-05-20T21:02", "Bot", "You could visit the tile museum."),
    ("2026-06-09T22:00", "Ann", "My flat is near the Navigli."),
    ("2026-06-09T22:01", "Ann", "I bought a red bicycle."),
    ("2026-06-09T22:02", "Ann", "The choir sings on Friday."),
]
ROWS = [
    Row(number, speaker, text, datetime.fromisoformat(at).replace(tzinfo=WEST), (f"u{number}",))
    for number, (at, speaker, text) in enumerate(SAID, 1)
]


async def answer(question: str, *rows: Row, at: datetime = datetime(2026, 6, 10, 9, tzinfo=WEST)) -> set[int]:
    """The numbers of the rows that the reply quotes."""
    rows = rows or tuple(ROWS)
    asked = Line(utterance_id="q", speaker="Ann", text=question, at=at)
    context = make_context(list(map(write_row, rows)), [], rows)
    reply = await OfflineReplier(HashEmbedder()).reply(ReplyTask("Bot", asked, (), context, SPEAKERS))
    assert bool(reply.cited) is (reply.text != NOTHING)
    return {row.number for row in reply.cited}


@pytest.mark.parametrize(
    ("question", "rows"),
    [
        ("What did I say yesterday?", {5, 6, 7}),
        ("What did I buy yesterday?", {6}),
        ("What did I do last week?", set()),
        ("What did I do on May 19?", {2}),
        ("What did I tell you on May 19?", set()),
        ("What did I tell you last month?", {1, 2, 3}),
        ("What happened in May?", {1, 2, 3, 4}),
        ("What did you say last month?", {4}),
        ("What did you suggest last month?", {4}),
        ("What did Bot tell me last month?", {4}),
        ("What did I tell Bot yesterday?", {5, 6, 7}),
        ("What do I have on Friday?", {7}),
        ("What are my plans for tomorrow?", set()),
    ],
)
async def test_a_question_for_a_day_is_answered_by_that_day(question: str, rows: set[int]) -> None:
    assert await answer(question) == rows


async def test_the_day_is_that_of_the_clock_of_the_one_who_asks() -> None:
    late = datetime(2026, 6, 11, 5, tzinfo=UTC)  # ten in the evening of 10 June in the west
    assert await answer("What did I say yesterday?", at=late.astimezone(WEST)) == {5, 6, 7}
    assert await answer("What did I say yesterday?", at=late) == set()


async def test_what_was_said_elsewhere_about_the_topic_is_still_found() -> None:
    assert 1 in await answer("What did I say about my dogs yesterday?")


async def test_each_day_of_a_period_has_its_turn() -> None:
    many = [
        Row(number, "Ann", f"I saw film number {number}.", datetime(2026, 5, 2, number, tzinfo=WEST), (f"u{number}",))
        for number in range(1, 10)
    ]
    one = Row(10, "Ann", "Rain.", datetime(2026, 5, 7, tzinfo=WEST), ("u10",))
    found = await answer("What happened in May?", *many, one)
    assert 10 in found
    assert len(found) == 5


async def test_a_memory_of_a_quoted_line_is_not_told_beside_it() -> None:
    memory = Row(9, "Ann", "Ann bought a red bicycle.", ROWS[5].at, ROWS[5].cites, is_memory=True)
    assert await answer("What did I say yesterday?", *ROWS, memory) == {5, 6, 7}
    assert await answer("What did I say yesterday?", *ROWS[:5], memory) == {5, 9}
