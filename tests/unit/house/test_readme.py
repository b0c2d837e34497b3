"""What the documents say is so: commands, flags, targets, files, links, settings."""

import importlib
import re
import shlex
import sys
import tomllib
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
import typer
from typer.core import TyperGroup

from eunoe.deploy.cli.main import COMMANDS, build_app
from eunoe.schemas.base import Tier
from eunoe.schemas.decisions import Commit, Scope, Work
from eunoe.schemas.events import CloseReason, Line, SessionClosed
from eunoe.workers.registry import STAGES, StageSettings, stages_of
from eunoe.workers.stores.state.memory_store import MemoryStore
from tests.bench.commands import app as bench
from tests.papers.__main__ import app as papers
from tests.support.derived.settings_page import settings_rows
from tests.support.in_memory import Stores, make_dependencies

ROOT = Path(__file__).parents[3]
README = ROOT / "README.md"
DOCS = ROOT / "deploy" / "docs"
SETTINGS = DOCS / "settings.md"
DOCUMENTS = sorted([*ROOT.glob("*.md"), *DOCS.glob("*.md")])
LAYERS = ("schemas", "streams", "workers", "deploy", "tests", ".ci")
PROGRAM = re.compile(r"^( *)```(?:python|java|js|json|yaml|toml)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
NOW = datetime(2026, 3, 1, tzinfo=UTC)
EXAMPLE = "tally"
"""The stage that the documents add; there is none of this name."""

each_document = pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())


# ---- what a document names


def code_of(document: Path) -> list[str]:
    """What stands in code: the lines of its blocks, and what is between backticks; programs are left out."""
    text = PROGRAM.sub("", document.read_text())
    blocks = re.findall(r"^```\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    spans = re.findall(r"`([^`\n]+)`", re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL))
    return [line.split("#")[0].strip() for block in blocks for line in block.splitlines()] + spans


def calls_of(document: Path, program: str) -> Iterator[list[str]]:
    """The words after each call of a program."""
    for code in code_of(document):
        for part in re.split(r"\s*(?:;|&&|\|)\s*", code):
            words = re.sub(r"^(?:\w+=\S+\s+)*", "", part)
            if words.startswith(f"{program} "):
                yield shlex.split(words.removeprefix(program))


def links_of(document: Path) -> list[str]:
    return re.findall(r"\]\(([^)\s]+)\)", PROGRAM.sub("", document.read_text()))


def anchors_of(document: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", PROGRAM.sub("", document.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


@cache
def command_of(name: str) -> Any:
    return group_of(build_app(name)).commands[name]


# ---- and whether it is there


def test_the_readme_is_short():
    assert len(README.read_text().split()) <= 1000


def test_the_readers_of_documents_find_what_they_look_for():
    assert {"up", "produce", "ask"} <= {words[0] for words in calls_of(README, "eunoe")}
    assert {"demo", "test"} <= {words[0] for words in calls_of(README, "make")}
    assert {"-m"} <= {words[0] for path in DOCUMENTS for words in calls_of(path, "python")}
    assert "deploy/docs/architecture.md" in links_of(README)


@each_document
def test_every_link_leads_somewhere(document: Path):
    for link in links_of(document):
        if re.match(r"https?://", link):
            continue
        path, _, anchor = link.partition("#")
        target = document.parent / path if path else document
        assert target.exists(), link
        assert not anchor or anchor in anchors_of(target), link


@each_document
def test_every_file_that_it_names_is_there(document: Path):
    for code in code_of(document):
        for word in code.split():
            name = re.sub(r"<[^>]+>", "*", word.removeprefix("./").rstrip(",;:"))
            if EXAMPLE in name:
                continue
            is_path = name.split("/")[0] in LAYERS and "/" in name
            is_root = re.fullmatch(r"\.?[\w-]+\.(?:md|toml|lock|yaml|yml|py)", name) and "*" not in name
            if is_path:
                assert any(ROOT.glob(name.rstrip("/"))), word
            elif is_root:
                assert any((folder / name).exists() for folder in (ROOT, document.parent)) or is_in_a_package(name), (
                    word
                )


def is_in_a_package(name: str) -> bool:
    """A bare file name stands for one file of many packages: ``stage.py``."""
    return any(path.name == name for layer in LAYERS for path in (ROOT / layer).rglob(name))


@each_document
def test_every_module_that_it_names_is_there(document: Path):
    for name in re.findall(r"\beunoe(?:\.[a-z_]+)+", " ".join(code_of(document))):
        if re.match(r"eunoe\.(?:schemas|streams|workers|deploy)\b", name) and EXAMPLE not in name:
            assert find_spec(name), name


@each_document
def test_every_command_and_flag_that_it_shows_is_there(document: Path):
    for program in ("eunoe", ".venv/bin/eunoe"):
        for words in calls_of(document, program):
            if words[0] in ("…", "X", "--help"):
                continue
            assert words[0] in COMMANDS, words
            command, rest = command_of(words[0]), words[1:]
            if hasattr(command, "commands"):
                assert not rest or rest[0].startswith("-") or rest[0] in command.commands, words
                command, rest = (command.commands[rest[0]], rest[1:]) if rest else (command, [])
            known = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
            flags = {word.partition("=")[0] for word in rest if word.startswith("-")}
            assert flags <= known | {"--help", "-h"}, words


@each_document
def test_every_target_of_make_that_it_shows_is_there(document: Path):
    targets = set(re.findall(r"^([a-z-]+):.*?## ", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for words in calls_of(document, "make"):
        named = [word for word in words if re.fullmatch(r"[a-z-]+", word)]
        assert set(named) <= targets, words


@each_document
def test_every_module_that_it_runs_is_there(document: Path):
    for python in ("python", ".venv/bin/python"):
        for flag, *words in calls_of(document, python):
            if flag != "-m":
                continue
            module, *rest = words
            assert find_spec(module), module
            if module in ("tests.bench", "tests.papers") and rest and not rest[0].startswith("-"):
                assert rest[0] in ("X", "NAME") or rest[0] in commands_of(module), words


def commands_of(module: str) -> set[str]:
    app = bench if module == "tests.bench" else papers
    return set(group_of(app).commands)


def group_of(app: typer.Typer) -> TyperGroup:
    group = typer.main.get_command(app)
    assert isinstance(group, TyperGroup)
    return group


@each_document
def test_every_setting_that_it_names_is_there(document: Path):
    known = {row.name for row in settings_rows()} | {"EUNOE_TEST_BROKER", "EUNOE_CHROMIUM"}
    for name in re.findall(r"EUNOE_[A-Z_]+\*?", document.read_text()):
        start = name.removesuffix("*")
        assert name in known or (name != start and any(one.startswith(start) for one in known)), name


@each_document
def test_every_extra_that_it_names_is_there(document: Path):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for of, named in re.findall(r"pip install '([^'\[]*)\[([\w,]+)\]'", document.read_text()):
        assert of == "eunoe", "`.` would put a copy in the place of the linked checkout"
        assert set(named.split(",")) <= set(project["optional-dependencies"]), named


def test_every_version_of_what_is_derived_stands_in_the_changelog():
    code = "\n".join(path.read_text() for path in sorted((ROOT / "workers").rglob("*.py")))
    versions = set(re.findall(r"\"([a-z]+(?:-[a-z]+)?/\d+)\"", code))
    assert versions
    told = set(re.findall(r"`([a-z-]+/\d+)`", (ROOT / "CHANGELOG.md").read_text()))
    assert versions - told == set()


# ---- the example of a stage


async def test_the_stage_that_the_architecture_adds_decides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    section = (DOCS / "architecture.md").read_text().partition("## Adding a stage")[2]
    stage, spec = (dedent(program) for _, program in PROGRAM.findall(section))
    (tmp_path / EXAMPLE).mkdir()
    (tmp_path / EXAMPLE / "stage.py").write_text(stage)
    (tmp_path / EXAMPLE / "spec.py").write_text(spec)
    workers = importlib.import_module("eunoe.workers")
    monkeypatch.setattr(workers, "__path__", [*workers.__path__, str(tmp_path)])
    try:
        added = import_module(f"eunoe.workers.{EXAMPLE}.spec").SPEC
    finally:
        for name in [name for name in sys.modules if name.startswith(f"eunoe.workers.{EXAMPLE}")]:
            del sys.modules[name]
    others = [spec for name, spec in STAGES.items() if name != EXAMPLE]
    assert EXAMPLE in stages_of([*others, added])

    store = MemoryStore()
    decide = added.build(make_dependencies(Stores(state=store), StageSettings())).decide
    lines = tuple(Line(utterance_id=id_, speaker="Ann", text="Hello.", at=NOW) for id_ in ("1", "2"))
    for session, total in ((1, 2), (2, 4)):
        event = SessionClosed(
            conversation_id="c", session=session, lines=lines, known_from=NOW, reason=CloseReason.ENDED
        )
        decision = await decide(Work(key=event.key, events=(event,), number=session, log_time=NOW))
        assert [write.text for write in decision.writes] == [f'{{"utterances":{total}}}']
        await store.commit(Scope(EXAMPLE, event.key), Commit(session - 1, session, decision.writes))


# ---- the settings


def test_every_setting_stands_in_one_table():
    named = [line.split("`")[1] for line in SETTINGS.read_text().splitlines() if line.startswith("| `EUNOE_")]
    assert sorted(named) == sorted(row.name for row in settings_rows())
    assert {row.tier for row in settings_rows()} == set(Tier)


def test_every_setting_is_explained():
    assert [row.name for row in settings_rows() if not row.meaning] == []
