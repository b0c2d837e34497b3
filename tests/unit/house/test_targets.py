"""The targets of the Makefile leave no test out, run none twice, and pre-commit checks what they check."""

import os
import re
import shlex
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest
import yaml

from tests.support.slow_files import NOT_SLOW, SLOW, selects_none, unnamed

ROOT = Path(__file__).parents[3]
TESTS = ROOT / "tests"
OWN_TARGET = {
    "tests/alerts": "test-alerts",
    "tests/browser": "test-browser",
    "tests/chart": "test-chart",
    "tests/examples": "test-examples",
    "tests/llmlingua": "test-llmlingua",
    "tests/openapi": "test-openapi",
}
"""Folder → the only target that runs it: its environment has what it needs, or it takes long to be collected."""


def commands(target: str) -> list[list[str]]:
    """The command lines that ``make TARGET`` runs, in order, but for the installation."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}  # not a make within make
    dry = ["make", "--dry-run", "--no-print-directory", target]
    shown = subprocess.run(dry, cwd=ROOT, env=own, capture_output=True, text=True, timeout=60, check=True).stdout
    lines = [shlex.split(line) for line in shown.splitlines() if line.startswith(".venv/bin/")]
    return [words for words in lines if "pip" not in words]  # the installation, where it is due


def selections(target: str) -> list[tuple[str, str]]:
    """The (folder, marker expression) pairs that a target gives to pytest; the expression is empty where all run."""
    return [pair for command in commands(target) if command[1:3] == ["-m", "pytest"] for pair in _selected(command[3:])]


def _selected(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    expression = words[words.index("-m") + 1] if "-m" in words else ""
    return ((word, expression) for word in words if word.startswith("tests/"))


def folders() -> set[str]:
    """Every folder of `TESTS` that holds test modules, itself or below."""
    return {f"tests/{path.relative_to(TESTS).parts[0]}" for path in TESTS.rglob("test_*.py")}


def test_every_test_is_in_a_target_and_in_one_only() -> None:
    """A folder is run whole, or its slow tests by one target and the others by another."""
    selected: Mapping[str, list[str]] = {folder: [] for folder in folders() - OWN_TARGET.keys()}
    for folder, expression in selections("test") + selections("test-slow"):
        selected[folder].append(expression)
    assert all(sorted(found) == [NOT_SLOW, SLOW] for found in selected.values()), selected


@pytest.mark.parametrize(("folder", "target"), OWN_TARGET.items())
def test_a_folder_with_a_target_of_its_own_is_run_by_it(folder: str, target: str) -> None:
    recipe = re.search(rf"^{target}:.*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert recipe is not None
    assert f"pytest {folder}" in recipe[1].replace("$(PYTEST)", "pytest")


def test_test_all_is_test_and_what_it_leaves_out() -> None:
    assert selections("test-all") == selections("test") + selections("test-slow") + selections("test-openapi")
    assert selections("test")[: len(selections("check"))] == selections("check")


def test_pre_commit_runs_the_checks_of_make_lint_and_make_type() -> None:
    (local,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    assert local["repo"] == "local"
    assert [shlex.split(hook["entry"]) for hook in local["hooks"]] == commands("lint") + commands("type")
    assert all(hook["language"] == "system" and not hook["pass_filenames"] for hook in local["hooks"])


ONE_IS_SLOW = b"import pytest\n\n@pytest.mark.slow\ndef test_it(): ...\n\ndef test_that(): ...\n"
ALL_ARE_SLOW = b"import pytest\n\npytestmark = [pytest.mark.broker, pytest.mark.slow]\n\ndef test_it(): ...\n"
NONE_IS_SLOW = b"import pytest\n\npytestmark = pytest.mark.broker\nslow = 1\n\ndef test_it(): ...\n"


@pytest.mark.parametrize(
    ("expression", "text", "none"),
    [
        (SLOW, ONE_IS_SLOW, False),
        (SLOW, ALL_ARE_SLOW, False),
        (SLOW, NONE_IS_SLOW, True),
        (NOT_SLOW, ONE_IS_SLOW, False),
        (NOT_SLOW, ALL_ARE_SLOW, True),
        (NOT_SLOW, NONE_IS_SLOW, False),
        ("", ALL_ARE_SLOW, False),
        ("slow or broker", NONE_IS_SLOW, False),
    ],
)
def test_a_file_is_passed_over_only_where_none_of_its_tests_is_selected(
    expression: str, text: bytes, none: bool
) -> None:
    assert selects_none(expression, text) is none


def test_a_slow_test_whose_file_does_not_name_the_mark_is_found(tmp_path: Path) -> None:
    named, hidden = tmp_path / "test_named.py", tmp_path / "test_hidden.py"
    named.write_bytes(ONE_IS_SLOW)
    hidden.write_bytes(NONE_IS_SLOW)
    assert unnamed([hidden, named, hidden]) == [hidden]
