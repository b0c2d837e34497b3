"""`eunoe dead-letters list` and `show`: what a client wrote is printed as it is, and ids are whole."""

import sys
from datetime import UTC, datetime
from io import StringIO

import pytest
from rich.console import Console

from eunoe.deploy.cli import dead_letters, output
from eunoe.deploy.cli.main import _run, _run_called
from eunoe.deploy.exits import Exit
from eunoe.schemas.records import DeadLetter, DeadLetterReason
from eunoe.streams.dead_letters import Filed
from eunoe.streams.record import Record
from eunoe.streams.topics import Topic

ID = "summarize:conversations:11:123456"
HOSTILE = "no type '[/x]' and none '[red]'; \x1b[2J"


def letter_of(key: str, error: str) -> Filed:
    letter = DeadLetter(
        stage="summarize",
        topic="conversations",
        partition=11,
        offset=123_456,
        key=key,
        log_time=datetime(2026, 11, 1, tzinfo=UTC),
        reason=DeadLetterReason.NOT_JSON,
        error=error,
        attempts=1,
        size=1,
        sha256="0" * 32,
    )
    return Filed(Record(Topic.DEAD_LETTERS, 0, 0, key.encode(), HOSTILE.encode(), 0, {}), letter)


@pytest.fixture
def printed(monkeypatch: pytest.MonkeyPatch) -> StringIO:
    """What commands print on a terminal of 80 columns."""
    monkeypatch.setattr(dead_letters, "console", Console(file=(shown := StringIO()), width=80))
    return shown


def run(monkeypatch: pytest.MonkeyPatch, letters: list[Filed], *arguments: str) -> int:
    async def found(*_: object, **__: object) -> list[Filed]:
        return letters

    async def whole(_: str) -> tuple[Filed, bytes]:
        return letters[0], letters[0].record.value

    monkeypatch.setattr(dead_letters, "read_letters", found)
    monkeypatch.setattr(dead_letters, "_whole", whole)
    monkeypatch.setattr(sys, "argv", ["eunoe", "dead-letters", *arguments])
    return _run(_run_called)


def test_the_list_shows_ids_whole_and_takes_no_markup(monkeypatch: pytest.MonkeyPatch, printed: StringIO) -> None:
    letters = [letter_of("default/" + "k" * 60 + "[/b]", HOSTILE)]
    assert run(monkeypatch, letters, "list") == Exit.OK
    first, *rest = printed.getvalue().splitlines()
    assert first == f"{ID}  2026-11-01 00:00:00  not_json  default/{'k' * 60}[/b]"
    assert rest == [r"  no type '[/x]' and none '[red]'; \x1b[2J", "1 dead letter"]


def test_one_letter_is_shown_without_effect_on_the_terminal(monkeypatch: pytest.MonkeyPatch, printed: StringIO) -> None:
    assert run(monkeypatch, [letter_of("default/a", HOSTILE)], "show", ID) == Exit.OK
    text = printed.getvalue()
    assert text.count("[/x]") == 2, "its error and its record"
    assert text.count("\\x1b[2J") == 2
    assert "\x1b" not in text


def test_a_note_takes_no_markup(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "errors", Console(file=(shown := StringIO()), width=80))
    output.note("no such utterance: [/x]")
    assert shown.getvalue() == "no such utterance: [/x]\n"
