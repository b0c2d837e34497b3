"""The registry: every stage's spec stands in its own package, and what is derived from the specs fits together."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import pytest

from eunoe.deploy.settings.deciding import DECIDING
from eunoe.schemas.base import Value
from eunoe.workers.derive.dependents import FIRST_STAGES, MODEL_SETTINGS, first_stages
from eunoe.workers.intake.settings import IntakeSettings
from eunoe.workers.link.settings import LinkSettings, TimelineSettings
from eunoe.workers.on_call import OnCall
from eunoe.workers.registry import GROUPS, MEMORY_STAGES, STAGES, StageSettings, settings_class, stages_of

BELOW = ("text", "models", "stores", "runner")
WORKERS = Path(__file__).parents[3] / "workers"


def test_every_package_with_a_spec_is_a_stage() -> None:
    assert {path.parent.name for path in WORKERS.glob("*/spec.py")} == set(STAGES)


def test_reading_the_specs_imports_no_stage_and_loading_them_all() -> None:
    shown = "print(*(name for name in sys.modules if name.endswith('.build')))"
    code = f"import sys; from eunoe.workers.registry import load_stages; {shown}; load_stages(); {shown}"
    done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, check=True)
    before, after = done.stdout.splitlines()
    assert before == ""
    assert {f"eunoe.workers.{stage}.build" for stage in STAGES} <= set(after.split())


@pytest.mark.parametrize("place", ["eunoe.workers.nowhere:build", "eunoe.workers.link.build:nowhere"])
def test_a_function_of_a_spec_that_is_not_there_is_told_when_the_stage_is_loaded(place: str) -> None:
    with pytest.raises((ImportError, AttributeError), match="nowhere"):
        replace(STAGES["link"], build=OnCall(place)).load()


@pytest.mark.parametrize("stage", STAGES)
def test_the_type_checker_reads_the_functions_that_a_spec_calls(stage: str) -> None:
    (choice,) = (node for node in ast.parse((WORKERS / stage / "spec.py").read_text()).body if isinstance(node, ast.If))
    checked = {
        alias.name: f"{node.module}:{alias.name}"
        for node in choice.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    spec = vars(import_module(f"eunoe.workers.{stage}.spec"))
    assert {name: value.place for name, value in spec.items() if isinstance(value, OnCall)} == checked


def imported(path: Path) -> Iterator[str]:
    """The modules that a file imports from."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


@pytest.mark.parametrize("stage", STAGES)
def test_a_stage_imports_only_reads_of_another_one_and_its_spec_names_it(stage: str) -> None:
    found: set[tuple[str, str]] = set()
    for path in (WORKERS / stage).rglob("*.py"):
        for name in imported(path):
            parts = name.split(".")
            if parts[:2] == ["eunoe", "workers"] and parts[2] in STAGES and parts[2] != stage:
                found.add((parts[2], parts[3]))
    assert {module for _, module in found} <= {"reads"}
    assert {other for other, _ in found} == set(STAGES[stage].reads)


def test_no_module_below_the_stages_knows_one() -> None:
    below = [WORKERS / "stage.py", *(path for name in BELOW for path in (WORKERS / name).rglob("*.py"))]
    for path in below:
        known = {name.split(".")[2] for name in imported(path) if name.startswith("eunoe.workers.")}
        assert not known & {*STAGES, "registry", "derive"}, path


def test_each_section_of_the_settings_belongs_to_one_stage() -> None:
    declared = [name for spec in STAGES.values() for name in (*spec.settings, *spec.reply_settings)]
    assert list(StageSettings.model_fields) == declared == [
        "intake", "blend", "segment", "compress", "summarize", "update", "link", "timeline", "tree", "tree_recall",
        "respond",
    ]  # fmt: skip


def test_settings_are_found_by_their_class() -> None:
    settings = StageSettings(link=LinkSettings(associative=2))
    assert settings.of(LinkSettings).associative == 2
    assert settings.of(TimelineSettings) == TimelineSettings()
    changed = settings.with_changes(IntakeSettings, idle_seconds=1.0)
    assert (changed.of(IntakeSettings).idle_seconds, changed.of(LinkSettings).associative) == (1.0, 2)
    assert settings.of(IntakeSettings) == IntakeSettings()
    with pytest.raises(LookupError, match="no stage has settings of Value"):
        settings.of(Value)


def test_groups_follow_from_the_order_that_stages_apply() -> None:
    assert GROUPS["replies"] == ("intake", "blend", "respond")
    assert (*MEMORY_STAGES, "respond") == GROUPS["all"] == tuple(STAGES)


def test_every_setting_that_a_rebuild_may_change_belongs_to_a_first_stage() -> None:
    assert FIRST_STAGES.keys() == DECIDING
    first = {name: FIRST_STAGES[name] for name in MODEL_SETTINGS}
    assert first == dict.fromkeys(MODEL_SETTINGS, "segment") | {"compression": "compress"}
    assert [name for name, stage in FIRST_STAGES.items() if stage is None] == ["timeline", "tree_recall", "respond"]


def test_a_model_that_no_stage_asks_changes_nothing() -> None:
    silent = {name: replace(spec, models=()) for name, spec in STAGES.items()}
    assert {first_stages(silent)[name] for name in MODEL_SETTINGS} == {None}


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"name": "link"}, "stages declared twice: link"),
        ({"settings": {"link": LinkSettings}}, "sections of the settings declared twice: link"),
        ({"reads": ("segment", "nowhere")}, "read that are not there: nowhere"),
    ],
)
def test_specs_that_contradict_each_other_are_refused(changes: dict[str, object], error: str) -> None:
    other = replace(STAGES["compress"], **{"name": "other", "settings": {}, **changes})
    with pytest.raises(ValueError, match=error):
        stages_of([*STAGES.values(), other])


def test_a_class_of_settings_has_the_sections_of_its_stages_alone() -> None:
    derived = settings_class(stages_of([STAGES["intake"], STAGES["segment"]]))
    assert list(derived.model_fields) == ["intake", "segment"]
