"""What `eunoe produce` refuses of a file before it sends anything, and what it leaves to intake."""

import json
from pathlib import Path

import pytest

from eunoe.deploy.cli.produce import produce
from eunoe.deploy.datasets.load import read_numbered_events
from eunoe.deploy.datasets.taken import check_taken
from eunoe.deploy.datasets.unmarked import unmarked_line, unmarked_replies
from eunoe.schemas.errors import Refused

PATH = Path("events.jsonl")
TEXT = {"type": "utterance", "conversation_id": "c", "speaker": "Ann", "text": "Hi", "at": "2026-01-01T10:00:00Z"}


def lines(*events: dict[str, str]) -> bytes:
    return b"\n".join(json.dumps({**TEXT, **event}).encode() for event in events)


@pytest.mark.parametrize(
    ("event", "said"),
    [
        ({"text": "é" * 51}, "line 3: text: has 102 bytes of UTF-8, limit is 100 (EUNOE_INTAKE__MAX_TEXT_BYTES)"),
        ({"at": "1500-01-01T00:00:00Z"}, "line 3: at: 1500-01-01T00:00:00Z is over 200 years from now"),
        ({"utterance_id": "u1", "text": "Ho"}, "line 3: utterance_id 'u1' is that of line 1, with another content"),
    ],
)
def test_a_line_that_intake_would_refuse_is_named(event, said):
    rows = lines({"utterance_id": "u1"}, {"utterance_id": "u2"}, {"utterance_id": "u3", **event})
    with pytest.raises(Refused) as refused:
        check_taken(list(read_numbered_events([rows], PATH)), PATH, 100)
    assert str(refused.value).startswith(f"events.jsonl, {said}")


def test_a_repetition_the_same_id_elsewhere_and_a_text_at_the_limit_are_none():
    rows = lines(
        {"utterance_id": "u1"},
        {"utterance_id": "u1"},
        {"utterance_id": "u1", "conversation_id": "d", "text": "x" * 100},
    )
    check_taken(list(read_numbered_events([rows], PATH)), PATH, 100)


def test_the_command_sends_nothing_of_such_a_file(tmp_path, monkeypatch):
    monkeypatch.setenv("EUNOE_KAFKA", "127.0.0.1:1")  # nobody listens there: to reach it is another error
    file = tmp_path / "events.jsonl"
    file.write_bytes(lines({"utterance_id": "u1"}, {"utterance_id": "u2", "text": "x" * 40_000}))
    with pytest.raises(Refused, match="line 2: text: has 40,000 bytes"):
        produce(file)


def test_words_of_an_assistant_are_marked_by_a_reply_id():
    rows = lines(
        {"utterance_id": "u1", "speaker": "Assistant"},
        {"utterance_id": "u2", "speaker": "Assistant", "reply_id": "p1"},
        {"utterance_id": "u3"},
        {"utterance_id": "u4", "speaker": "agent"},
    )
    unmarked = unmarked_replies(event for _, event in read_numbered_events([rows], PATH))
    assert unmarked == {"Assistant": 1, "agent": 1}
    assert "1 of 'Assistant', 1 of 'agent'" in unmarked_line(unmarked)
