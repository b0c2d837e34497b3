"""Hostile words on every command line: one line on standard error, exit code 2, before anything else happens.

The parser is walked, so a new command or option is in the table by itself.
"""

import inspect
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import pytest
from rich.progress import Progress
from typer.main import get_group

from eunoe.deploy.cli.arguments import MAX_BYTES
from eunoe.deploy.cli.main import COMMANDS, _run, _run_called, build_app
from eunoe.deploy.cli.progress import ProgressBars
from eunoe.deploy.local.stack import LocalStack
from tests.support.command import ROOT
from tests.support.wrong_arguments import ELSEWHERE, WRONG

NOT_UTF8 = b"caf\xe9".decode(errors="surrogateescape")
"""As Python reads such bytes from a command line."""
TOO_LONG = "x" * (MAX_BYTES + 1)
ANY = ("", "  ", NOT_UTF8, TOO_LONG)
NUMBERS = (*ANY, "-1", "99999999999999999999", "x", "nan", "inf")
BY_NAME = {
    "conversation": ("x" * 201, "a\nb"),
    "tenant": ("x" * 201, "a\0b"),
    "speaker": ("x" * 101, "a\nb"),
    "speak_as": ("x" * 101,),
    "generation": ("a b", "../x", "x" * 41, "ß"),
    "into": ("a b", "x" * 41),
    "log_level": ("nonsense",),
    "stages": ("nonsense",),
    "kafka_port": ("65536",),
}


@dataclass(frozen=True)
class Word:
    """One argument or option of a command."""

    path: tuple[str, ...]
    name: str
    option: str | None
    """`None` for an argument."""
    kind: Any


def leaves(command: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    """All commands without subcommands."""
    if hasattr(command, "commands"):
        for name, inner in command.commands.items():
            yield from leaves(inner, (*path, name))
    else:
        yield path, command


def plain(kind: Any) -> Any:
    """A type without `None` and without the list around it."""
    if get_origin(kind) in (Union, UnionType):
        (kind,) = (one for one in get_args(kind) if one is not NoneType)
    return get_args(kind)[0] if get_origin(kind) in (list, tuple, Sequence) else kind


def words_of(path: tuple[str, ...], command: Any) -> list[Word]:
    """All that a command takes, flags left out."""
    hints = get_type_hints(inspect.unwrap(command.callback))
    found = []
    for parameter in command.params:
        kind = plain(hints.get(parameter.name, bool))
        if kind is not bool:
            option = next((word for word in parameter.opts if word.startswith("--")), None)
            found.append(Word(path, parameter.name, option, kind))
    return found


def every_command() -> Iterator[tuple[tuple[str, ...], list[Word], set[str]]]:
    """Each command with its words, and the names of those that it must have."""
    for name in COMMANDS:
        for path, command in leaves(get_group(build_app(name)).commands[name], (name,)):
            required = {parameter.name for parameter in command.params if parameter.required}
            yield path, words_of(path, command), required


def hostile(word: Word) -> tuple[str, ...]:
    """Values that no such word may have."""
    if word.kind in (int, float):
        return NUMBERS
    if get_origin(word.kind) is Literal or (isinstance(word.kind, type) and issubclass(word.kind, Enum)):
        return (*ANY, "nonsense")
    return ANY + BY_NAME.get(word.name, ())


def harmless(word: Word) -> str:
    """A value for a required word beside a hostile one."""
    return "1" if word.kind in (int, float) else "all" if word.name == "stages" else "x"


def lines_of(path: tuple[str, ...], words: list[Word], required: set[str]) -> Iterator[list[str]]:
    """Command lines with one hostile word each."""
    arguments = [word for word in words if word.option is None and word.name in required]
    for word in words:
        options = [
            part
            for other in words
            if other.option is not None and other.name in required and other != word
            for part in (other.option, harmless(other))
        ]
        for value in hostile(word):
            if word.option is not None:
                yield [*path, *options, word.option, value, *map(harmless, arguments)]
            else:
                given = [value if other == word else harmless(other) for other in arguments]
                yield [*path, *options, *(given if word in arguments else [*given, value])]


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No servers are set, none is found, and none may be started."""

    async def start(_: LocalStack) -> None:
        raise AssertionError("servers would have been started")

    monkeypatch.setattr(LocalStack, "_start", start)
    monkeypatch.chdir(tmp_path)


def said(line: Sequence[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    """The exit code of a command line, and what it prints on standard error."""
    monkeypatch.setattr(sys, "argv", ["eunoe", *line])
    code = _run(_run_called)
    return code, capsys.readouterr().err


TABLE = list(every_command())


@pytest.mark.parametrize(("path", "words", "required"), TABLE, ids=["-".join(path) for path, _, _ in TABLE])
def test_a_hostile_word_is_named_in_one_line(
    path: tuple[str, ...],
    words: list[Word],
    required: set[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for line in lines_of(path, words, required):
        code, err = said(line, monkeypatch, capsys)
        told = [word[:50] for word in line]
        assert (code, len(err.splitlines())) == (2, 1), (told, err)
        assert err.startswith("eunoe: "), (told, err)
        assert len(err) < 1_000, told
        assert "no servers" not in err, (told, "the word is wrong, whatever servers there are")


def test_the_table_has_every_command() -> None:
    paths = {path for path, _, _ in TABLE}
    assert {path[0] for path in paths} == set(COMMANDS)
    assert {("topics", "create"), ("dead-letters", "list"), ("eval", "retrieval")} <= paths


def test_each_command_has_wrong_lines_beside_a_pipeline_or_a_reason_for_none() -> None:
    said = {line[0] for line, _ in WRONG.values()}
    assert said.isdisjoint(ELSEWHERE)
    assert said | ELSEWHERE.keys() == set(COMMANDS)
    named = [path for reason in ELSEWHERE.values() for path in re.findall(r"tests/\S+?\.py", reason)]
    assert [path for path in named if not (ROOT / path).is_file()] == []


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (["ask", "c", ""], "argument 3, after 'c', is empty"),
        (["ask", "c", "hi", "--speaker="], "argument 4, after '--speaker', is empty"),
        (["ask", "c", NOT_UTF8], "argument 3, after 'c', is not UTF-8"),
        (["ask", "c", TOO_LONG], f"argument 3, after 'c', has {MAX_BYTES + 1} bytes; the limit is {MAX_BYTES}"),
        (["ask", "c", "hi", "--timeout", "nan"], "--timeout 'nan': must be a finite number"),
        (["ask", "c", "hi", "--timeout", "0"], "--timeout '0.0': must be over 0 seconds"),
        (["demo", "--timeout", "0"], "--timeout '0.0': must be over 0 seconds"),
        (["ask", "c", "hi", "--strategy", "best"], "Invalid value for '--strategy': 'best' is not one of 'segment'"),
        (["keys", "create", "--expires", "2020-01-01T00:00:00Z"], "--expires '2020-01-01T00:00:00Z': is past"),
        (["keys", "create", "--expires", "0d"], "--expires '0d': is past"),
        (
            ["keys", "create", "--tenant", "*"],
            "it cannot have ask, events:write, memory:read; give --scope dead-letters",
        ),
        (["shwo"], "No such command 'shwo'. Did you mean 'show'? (see `eunoe --help`)"),
        (["show"], "Missing argument 'conversation'. (see `eunoe show --help`)"),
        (["show", "c", "--nope"], "No such option: --nope"),
        (["show", "c", "--memories", "--tree"], "--memories and --tree are different views"),
        (["show", "c", "--profile", "--denoised"], "--denoised is about segments, which --profile does not show"),
        (["show", "c", "--denoised", "--dot", "x.dot"], "--denoised is about segments, which the graph does not show"),
        (["show", "c", "--memories", "--svg", "x.svg"], "--dot and --svg draw the graph or the tree, not --memories"),
        (["show", "c", "--memories", "--at", "soon"], "--at 'soon': expected a day"),
        (["promote", "../x"], "--generation '../x': use 1 to 40 letters"),
        (["schemas", "/dev/null"], "/dev/null: File exists"),
        (["produce", "/nowhere/events.jsonl"], "/nowhere/events.jsonl: no such file"),
        (["worker", "all", "--health", "nonsense"], "EUNOE_HEALTH is 'nonsense'"),
    ],
)
def test_the_line_says_what_is_wrong(
    line: list[str], expected: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code, err = said(line, monkeypatch, capsys)
    assert (code, len(err.splitlines())) == (2, 1), err
    assert expected in err


def test_help_and_no_words_print_the_help(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["eunoe", "ask", "--help"])
    assert _run(_run_called) == 0
    assert "--speaker" in capsys.readouterr().out
    monkeypatch.setattr(sys, "argv", ["eunoe"])
    assert _run(_run_called) == 2
    found = capsys.readouterr()
    assert all(name in found.out + found.err for name in COMMANDS)


def test_a_bar_without_a_known_total_shows_none(capsys: pytest.CaptureFixture[str]) -> None:
    with ProgressBars() as bars:
        bars("log", 463, 0)
        assert isinstance(bars._bars, Progress)
        (task,) = bars._bars.tasks
        assert (task.completed, task.total) == (463, None)
        bars("log", 463, 500)
        assert task.total == 500
    assert capsys.readouterr().out == ""
