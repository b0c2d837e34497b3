"""Questions about many things: which are, what they are about, and what is shown and quoted for them."""

import re
from datetime import UTC, datetime, timedelta

import pytest

from eunoe.schemas.events import Line
from eunoe.workers.respond.breadth import Breadth, read_breadth, topic_of
from eunoe.workers.respond.context import line_row, make_context, write_row
from eunoe.workers.respond.offline.line_choice import MANY
from eunoe.workers.respond.offline.replier import OfflineReplier
from eunoe.workers.respond.replier import ReplyTask
from eunoe.workers.text.intent import instructs
from tests.support.in_memory import HashEmbedder

START = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "breadth", "topic"),
    [
        ("Can you list the order in which I brought up aspects of my boat?", Breadth.EVENTS, "boat"),
        ("In what order did I visit the islands?", Breadth.EVENTS, "islands"),
        ("Tell me all the times that I missed the ferry.", Breadth.EVENTS, "missed ferry"),
        ("Please summarize our discussions about the roof over the past few weeks.", Breadth.SUMMARY, "roof"),
        ("Give me an overview of the harbour plan", Breadth.SUMMARY, "harbour plan"),
        ("What do I need in order to sail?", Breadth.ONE, None),
        ("When did John resume playing drums?", Breadth.ONE, None),
        ("How should I design my resume?", Breadth.ONE, None),
        ("Where is my boat?", Breadth.ONE, None),
    ],
)
def test_broad_questions_are_known_and_so_is_what_they_are_about(text: str, breadth: Breadth, topic: str | None):
    assert read_breadth(text) is breadth
    found = topic_of(text, breadth)
    assert found == text if topic is None else set(topic.split()) <= set(found.rstrip(".?").split())
    assert "order" not in found.split() or breadth is Breadth.ONE


def test_a_broad_question_without_a_topic_stays():
    assert topic_of("Can you summarize our conversations?", Breadth.SUMMARY) == "Can you summarize our conversations?"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("Always include version numbers when I ask about libraries.", True),
        ("Please never use tables.", True),
        ("From now on, answer in German.", True),
        ("I prefer short answers.", True),
        ("I've never sailed before.", False),
        ("Always loved the sea!", False),
        ("We always go there in June.", False),
    ],
)
def test_instructions_for_all_replies_are_told_from_what_is_said_in_passing(text: str, told: bool):
    assert instructs(text, frozenset(re.findall(r"\w+", text.lower()))) is told


async def test_a_broad_question_is_answered_by_lines_of_several_days_in_their_order():
    days = [(day, f"I painted the boat in colour {day}.") for day in range(7)]
    days += [(day, "The weather is fine.") for day in range(7)]
    lines = [
        Line(utterance_id=f"u{place}", speaker="Ann", text=text, at=START + timedelta(days=day, minutes=place))
        for place, (day, text) in enumerate(sorted(days))
    ]
    rows = [line_row(number, line) for number, line in enumerate(lines, 1)]
    asked = Line(
        utterance_id="q", speaker="Ann", text="In what order did I paint the boat?", at=START + timedelta(days=90)
    )
    task = ReplyTask("Ben", asked, (), make_context(list(map(write_row, rows)), (), rows), ("Ann", "Ben"))
    reply = await OfflineReplier(HashEmbedder()).reply(task)
    assert len(reply.cited) == MANY
    assert all("boat" in row.text for row in reply.cited)
    assert [row.at for row in reply.cited] == sorted(row.at for row in reply.cited)
    assert len({row.at.date() for row in reply.cited}) == MANY
