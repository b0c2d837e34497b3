"""The list of commands, which is shown without importing them."""

import inspect
import json
import os
import signal
import subprocess
import sys
from importlib.metadata import version

import pytest
from pydantic import ValidationError
from typer.main import get_group

from eunoe.deploy.cli.entry import end_on_interrupt, raise_on_interrupt
from eunoe.deploy.cli.main import COMMANDS, _run, _run_called, build_app
from eunoe.deploy.exits import Exit
from eunoe.schemas.errors import Refused, Unavailable
from eunoe.schemas.memory import Ending

HEAVY = ("numpy", "faust", "openai", "qdrant_client", "aiokafka")


@pytest.mark.parametrize("name", COMMANDS)
def test_the_list_says_of_a_command_what_the_command_says(name: str):
    command = get_group(build_app(name)).commands[name]
    told = inspect.cleandoc(command.help or "").split("\n\n")[0]
    assert " ".join(told.split()) == COMMANDS[name]
    assert [parameter.name for parameter in command.params] or hasattr(command, "commands")


@pytest.mark.parametrize(("arguments", "code"), [(["--help"], 0), ([], 2), (["shwo"], 2)])
def test_help_and_a_wrong_word_wait_for_no_library(arguments: list[str], code: int):
    script = f"""
import sys
from eunoe.deploy.cli.main import main
sys.argv = ["eunoe", *{arguments!r}]
try:
    main()
finally:
    print([name for name in {HEAVY!r} if name in sys.modules])
"""
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert ran.returncode == code, ran.stderr
    assert ran.stdout.splitlines()[-1] == "[]"
    if arguments == ["shwo"]:
        assert "show" in ran.stderr
    else:
        assert all(name in ran.stdout + ran.stderr for name in COMMANDS)


def test_the_version_is_that_of_the_installation(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    monkeypatch.setattr(sys, "argv", ["eunoe", "--version"])
    assert _run(_run_called) == Exit.OK
    assert capsys.readouterr().out == f"eunoe {version('eunoe')}\n"


LOADED = {
    "commands that look and say": (
        ("deploy.cli.show", "deploy.cli.produce"),
        ("faust", "prometheus_client", "aiohttp", "starlette"),
    ),
    "an eraser and a check": (("deploy.cli.erase", "deploy.cli.doctor"), ("faust", "prometheus_client")),
    "a gateway": (("deploy.cli.gateway", "deploy.gateway.server"), ("faust", "mcp")),
    "a worker": (("deploy.cli.worker", "deploy.process.worker", "streams.client"), ()),
}
"""Processes, their modules and the libraries that they do not use, beside those that none of them uses.

From the one that needs least to the one that needs most: one process imports all of it, and is looked at in between.
"""
NEVER = ("qdrant_client", "openai", "opentelemetry.exporter", "eunoe.streams.tracer", "eunoe.deploy.observability.otlp")
LOADING = f"""
import importlib, json, sys
found = {{}}
for process, (modules, unused) in {LOADED!r}.items():
    for module in modules:
        importlib.import_module("eunoe." + module)
    found[process] = [name for name in (*{NEVER!r}, *unused) if name in sys.modules]
print(json.dumps(found))
"""


def test_a_process_does_not_load_libraries_that_it_does_not_use():
    ran = subprocess.run([sys.executable, "-c", LOADING], capture_output=True, text=True, timeout=100, check=True)
    assert json.loads(ran.stdout) == {process: [] for process in LOADED}


def test_a_shell_that_completes_a_line_is_told_the_options_of_its_command():
    words = {"_EUNOE_COMPLETE": "complete_bash", "COMP_WORDS": "eunoe\nshow\n--", "COMP_CWORD": "2"}
    script = "import sys; sys.argv = ['eunoe']; from eunoe.deploy.cli.main import main; main()"
    ran = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, **words},
    )
    assert "--help" in ran.stdout


def _side_by_side(*faults: Exception) -> None:
    raise ExceptionGroup("tasks", faults)


def test_a_fault_of_tasks_side_by_side_is_told_in_one_line(capsys: pytest.CaptureFixture[str]):
    assert _run(lambda: _side_by_side(Unavailable("no answer", "Redis"), Refused("never mind"))) == Exit.UNAVAILABLE
    assert capsys.readouterr().err == "eunoe: no answer\n"


def test_a_bug_in_one_of_them_is_told_as_a_bug(caplog: pytest.LogCaptureFixture):
    assert _run(lambda: _side_by_side(Refused("never mind"), ValueError("a bug"))) == Exit.SOFTWARE
    assert "this is a bug in eunoe" in caplog.text


@pytest.mark.parametrize(("given", "used"), [({}, "1"), ({"OPENBLAS_NUM_THREADS": "3"}, "3")])
def test_a_command_computes_on_one_thread_unless_told_otherwise(given: dict[str, str], used: str):
    script = "import eunoe.deploy.cli.main, os; print(os.environ['OPENBLAS_NUM_THREADS'])"
    variables = {name: value for name, value in os.environ.items() if name != "OPENBLAS_NUM_THREADS"} | given
    ran = subprocess.run(
        [sys.executable, "-c", script], env=variables, capture_output=True, text=True, timeout=60, check=True
    )
    assert ran.stdout.strip() == used


INTERRUPTED_AT = """
import os, signal, sys
from importlib.metadata import entry_points

class Interrupting:
    def find_spec(self, name, path, target=None):
        if name == {module!r}:
            os.kill(os.getpid(), signal.SIGINT)

signal.signal(signal.SIGINT, signal.default_int_handler)  # what runs in the background may ignore it
sys.meta_path.insert(0, Interrupting())
sys.argv = ["eunoe", "show", "ann"]
(command,) = entry_points(group="console_scripts", name="eunoe")
command.load()()
"""


@pytest.mark.parametrize("module", ["typer", "eunoe.schemas.errors", "eunoe.deploy.cli.show"])
def test_ctrl_c_while_a_command_is_imported_ends_it_without_a_traceback(module: str):
    script = INTERRUPTED_AT.format(module=module)
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert (ran.returncode, ran.stderr) == (Exit.INTERRUPTED, "")


def test_ctrl_c_raises_again_when_a_command_begins_and_ends_the_process_at_its_end():
    found: list[object] = []
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        for change in (end_on_interrupt, raise_on_interrupt):
            change()
            found.append(signal.getsignal(signal.SIGINT))
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        end_on_interrupt()
        found.append(signal.getsignal(signal.SIGINT))
    finally:
        signal.signal(signal.SIGINT, before)
    assert found[0] is not signal.default_int_handler
    assert found[1:] == [signal.default_int_handler, signal.SIG_IGN]


def test_state_of_a_newer_version_is_told_in_one_line_without_its_values(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(ValidationError) as raised:
        Ending.from_json(b'{"mood": "a secret"}')

    def read() -> None:
        raise raised.value

    def beside() -> None:
        _side_by_side(raised.value, Unavailable("no answer"))

    expected = (
        "eunoe: a newer version of eunoe wrote what is stored: use that one, or, where you went back for good,"
        " `eunoe repair CONVERSATION` (Ending: "
    )
    for command in (read, beside):
        assert _run(command) == Exit.UNAVAILABLE
        said = capsys.readouterr().err
        assert said.startswith(expected)
        assert "mood: Extra inputs are not permitted" in said
        assert "secret" not in said
