"""What a command says where its output takes nothing, or not every character."""

import json
import os
import re
import subprocess
import sys
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from eunoe.deploy.cli import progress
from eunoe.deploy.cli.output import VisibleConsole
from eunoe.deploy.exits import Exit

SAYS = """
from eunoe.deploy.cli.entry import open_streams
open_streams()
from eunoe.deploy.cli.main import run_to_exit
from eunoe.deploy.cli.output import console, note, print_json
"""


def run(script: str, redirected: str = "", **more: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        ["bash", "-c", f'"$0" -c "$1" {redirected}', sys.executable, SAYS + script],
        env={**os.environ, **more},
        capture_output=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("locale", [{"LC_ALL": "POSIX", "PYTHONCOERCECLOCALE": "0"}, {"PYTHONIOENCODING": "latin-1"}])
def test_a_character_that_the_terminal_does_not_have_is_a_question_mark(locale: dict[str, str]):
    ran = run("run_to_exit(lambda: console.print('snow \\u2603 over Lyon'))", PYTHONUTF8="0", **locale)
    assert (ran.returncode, ran.stdout.decode("ascii")) == (Exit.OK, "snow ? over Lyon\n"), ran.stderr.decode()


def test_at_the_end_of_a_command_nothing_is_searched_for_garbage():
    ran = run("""
class Circle:
    def __init__(self):
        self.itself = self
    def __del__(self):
        os.write(1, b"collected")
import os
run_to_exit(Circle)""")
    assert (ran.returncode, ran.stdout, ran.stderr) == (Exit.OK, b"", b"")


UNSEEN = ("\x1b", "\x7f", "\x85", "\x9b", "\u202e", "\u200b", "\U000e0041")


def test_json_holds_no_character_that_commands_a_terminal_or_is_not_shown():
    values = [{f"I live{char} in": f"Ly{char}on ☃ 👩\u200d🚀"} for char in UNSEEN]
    ran = run(f"run_to_exit(lambda: print_json({values!r}))")
    told = ran.stdout.decode()
    assert [char for char in UNSEEN if char in told] == [], ran.stderr.decode()
    assert json.loads(told) == values
    assert told.count("☃ 👩\u200d🚀") == len(UNSEEN), "what is shown stands there as it is"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
@pytest.mark.parametrize("command", ["print_json({})", "print('memory')"])
def test_a_full_disk_is_told_in_one_line(command: str):
    ran = run(f"run_to_exit(lambda: {command})", "> /dev/full")
    assert (
        ran.stderr.decode()
        == "eunoe: cannot write: No space left on device (see standard output, the data and the temporary directory)\n"
    )
    assert ran.returncode == Exit.FAILED


@pytest.mark.parametrize(
    ("closed", "command"),
    [
        ("<&-", "note(str(sys.stdin.isatty()))"),
        (">&-", "console.print('memory')"),
        ("<&- >&- 2>&-", "print_json({})"),
    ],
)
def test_a_stream_that_is_closed_is_an_empty_one(closed: str, command: str):
    ran = run(f"import sys; run_to_exit(lambda: {command})", closed)
    assert b"Traceback" not in ran.stderr
    assert ran.returncode == Exit.OK


@pytest.mark.parametrize(
    ("quiet", "units", "lines"),
    [(False, 0, []), (True, 0, []), (False, 2, ["made"])],
)
def test_bars_that_show_nothing_print_nothing(
    monkeypatch: pytest.MonkeyPatch, quiet: bool, units: int, lines: list[str]
):
    written = StringIO()
    monkeypatch.setattr(progress, "errors", VisibleConsole(file=written, width=80))
    with progress.ProgressBars(quiet=quiet) as bars:
        bars("made", units, units)
    assert [line.split()[0] for line in written.getvalue().splitlines()] == lines


def test_of_many_bars_that_vanish_at_the_end_the_one_at_work_is_shown(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(progress, "errors", Console(file=StringIO(), width=80, height=24, force_terminal=True))
    with progress.ProgressBars(transient=True) as bars:
        bars("conversations", 0, 100)
        for number in range(100):
            for record in range(3):
                bars(f"acme/c{number}", record, 2)
        assert [task.description for task in bars._bars.tasks] == ["conversations", "acme/c99"]
    with progress.ProgressBars() as bars:
        for phase in ("log", "memory"):
            bars(phase, 1, 1)
        assert [task.description for task in bars._bars.tasks] == ["log", "memory"], "these stay"


@pytest.mark.parametrize("width", [60, 80, 200])
def test_the_count_and_the_times_of_a_bar_are_whole_on_a_narrow_terminal(monkeypatch: pytest.MonkeyPatch, width: int):
    written = StringIO()
    monkeypatch.setattr(progress, "errors", VisibleConsole(file=written, width=width))
    with progress.ProgressBars() as bars:
        bars("memory", 60_610, 1_000_000, "6 sessions, 1,073 events/s, no model calls")
    (line,) = written.getvalue().splitlines()
    assert re.search(r" memory .*60610/1000000 0:00:0\d -:--:-- 6", f" {line}")
