"""`eunoe ask` on a terminal: the reply in short, and the memory in the prompt where it is wanted."""

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from io import StringIO
from typing import ClassVar

import pytest
import typer
from rich.console import Console
from typer.testing import CliRunner

from eunoe.deploy.cli import ask as command
from eunoe.deploy.settings import Settings
from eunoe.schemas.events import Provenance, Strategy
from eunoe.schemas.replies import Reply

app = typer.Typer()
app.command()(command.ask)

CONTEXT = "\n".join(f"2026-03-{day:02}: Mina said [/b] to Jonas" for day in range(1, 31))
REPLY = Reply(
    conversation_id="c", reply_id="r1", request_id="q", speaker="agent", text="In Porto.", cited=("u1", "[/u2]"),
    context=CONTEXT, context_tokens=270, strategy=Strategy.FUSED, known_session=1,
    made_by=Provenance(code="1", model="m"),
)  # fmt: skip


class Client:
    """Answers every ask."""

    asked: ClassVar[list[dict[str, object]]] = []

    def __init__(self, *_: object, **__: object) -> None: ...

    async def __aenter__(self) -> "Client":
        return self

    async def __aexit__(self, *_: object) -> None: ...

    async def ask(self, _text: str, **options: object) -> Reply:
        self.asked.append(options)
        return REPLY


def shown(monkeypatch: pytest.MonkeyPatch, *options: str) -> str:
    async def live(settings: Settings) -> Settings:
        return settings

    monkeypatch.setattr(command, "connected_settings", lambda: Settings(kafka="127.0.0.1:1"))
    monkeypatch.setattr(command, "client_settings", live)
    monkeypatch.setattr(command, "MemoryClient", Client)
    monkeypatch.setattr(command, "console", Console(file=(out := StringIO()), width=80))
    done = CliRunner().invoke(app, ["c", "Where does Mina live?", *options])
    assert done.exception is None
    return out.getvalue()


def test_a_reply_is_short_and_names_the_option_for_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    assert shown(monkeypatch).splitlines() == [
        "In Porto.",
        "memory in the prompt: 270 tokens; --context prints it",
        "cites: u1, [/u2]",
        "why: eunoe explain r1",
    ]


def test_the_memory_in_the_prompt_is_printed_where_it_is_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    said = shown(monkeypatch, "--context")
    assert all(line in said for line in CONTEXT.splitlines())
    assert "memory in the prompt (270 tokens)" in said


@pytest.fixture
def _in_tokyo(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as patched:
        patched.setenv("TZ", "Asia/Tokyo")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.usefixtures("_in_tokyo")
def test_an_ask_is_of_now_by_the_clock_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    Client.asked.clear()
    shown(monkeypatch)
    (asked,) = Client.asked
    at = asked["at"]
    assert isinstance(at, datetime)
    assert at.utcoffset() == timedelta(hours=9)
    assert abs(at - datetime.now(UTC)) < timedelta(minutes=5)
