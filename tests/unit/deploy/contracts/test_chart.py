"""The Helm chart and the code name the same: stages, groups, topics, settings, commands, versions."""

import os
import re
import subprocess
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson
import pytest
import typer
import yaml
from jsonschema import Draft7Validator
from jsonschema.exceptions import ValidationError

from eunoe.deploy.cli.main import build_app
from eunoe.deploy.doctor.checks import PARTS
from eunoe.deploy.settings import Settings
from eunoe.streams.topics import Topic, TopicNames
from eunoe.workers.registry import STAGES
from tests.support.derived.chart import OWN_VALUES, chart_settings, chart_stages, secret_settings
from tests.support.derived.settings_page import settings_rows

ROOT = Path(__file__).parents[4]
CHART = ROOT / "deploy" / "chart"
TEMPLATES = {path.name: path.read_text() for path in CHART.glob("templates/**/*.*")}
ALL = "\n".join(TEMPLATES.values())
SETTINGS = {row.name for row in settings_rows()}
NEEDED: Mapping[str, Any] = {
    "image": {"repository": "registry/eunoe"},
    "existingSecret": "eunoe",
    "kafka": {"bootstrap": "kafka-1:9092,kafka-2:9092"},
    "qdrant": {"url": "http://qdrant:6333"},
}
"""The values without a default."""


@pytest.fixture(scope="module")
def schema() -> Draft7Validator:
    document = orjson.loads((CHART / "values.schema.json").read_bytes())
    Draft7Validator.check_schema(document)
    return Draft7Validator(document)


@pytest.fixture(scope="module")
def defaults() -> dict[str, Any]:
    return dict(yaml.safe_load((CHART / "values.yaml").read_text()))


# ---- values


def test_the_default_values_are_valid_once_the_servers_are_named(
    schema: Draft7Validator, defaults: dict[str, Any]
) -> None:
    schema.validate({**defaults, **NEEDED, "image": {**defaults["image"], **NEEDED["image"]}})
    for name in NEEDED:
        with pytest.raises(ValidationError):
            schema.validate({**defaults, **NEEDED, name: defaults[name]})


@pytest.mark.parametrize(
    "wrong",
    [
        {"replica": 3},
        {"settings": {"EUNOE_MODLE": "x"}},
        {"settings": {"EUNOE_SLOTS": 64}},
        {"settings": {"EUNOE_REDIS_URL": "redis://:password@redis:6379"}},
        {"settings": {"EUNOE_HEALTH": "0.0.0.0:1"}},
        {"stages": {"summarise": {"replicas": 2}}},
        {"stages": {"intake": {"minReplicas": 0}}},
        {"stages": {"respond": {"replicas": 0}}},
        {"autoscaling": {"minReplicas": 0}},
        {"autoscaling": {"metadata": {"version": 3}}},
        {"generations": [{"name": "V_2"}]},
        {"qdrant": {"url": "http://user:password@qdrant:6333"}},
        {"kafka": {"bootstrap": "kafka"}},
    ],
    ids=str,
)
def test_values_that_would_not_work_are_refused(schema: Draft7Validator, wrong: dict[str, Any]) -> None:
    schema.validate({**NEEDED, "stages": {"tree": {"minReplicas": 0}}, "settings": {"EUNOE_SLOTS": "64"}})
    with pytest.raises(ValidationError):
        schema.validate({**NEEDED, **wrong})


def test_the_schema_knows_every_default_value(schema: Draft7Validator, defaults: dict[str, Any]) -> None:
    assert schema.schema["properties"].keys() - {"global"} == defaults.keys()


def test_defaults_are_those_of_the_settings(defaults: dict[str, Any]) -> None:
    for value, setting in {
        "prefix": "prefix",
        "partitions": "partitions",
        "shutdownSeconds": "shutdown_seconds",
    }.items():
        assert defaults[value] == Settings.model_fields[setting].default


def test_no_secret_is_a_value_and_every_setting_has_its_place() -> None:
    assert set(secret_settings()) & set(chart_settings()) == set()
    assert {"EUNOE_REDIS_URL", "EUNOE_QDRANT_API_KEY", "OPENAI_API_KEY"} <= set(secret_settings())
    assert set(chart_settings()) - {"OPENAI_BASE_URL", "SSL_CERT_FILE"} <= SETTINGS
    assert OWN_VALUES <= SETTINGS
    assert "EUNOE_INTAKE__IDLE_SECONDS" in chart_settings()


# ---- names in the templates


def test_processes_are_given_settings_that_exist_by_values_of_the_chart() -> None:
    assert set(re.findall(r"\{name: ((?:EUNOE|OPENAI)_\w+),", ALL)) == OWN_VALUES


def test_stages_of_the_chart_are_those_of_the_code_with_their_topics() -> None:
    stages = yaml.safe_load((CHART / "files" / "stages.yaml").read_text())
    assert stages == yaml.safe_load(chart_stages())
    assert [stage["name"] for stage in stages] == list(STAGES)
    for stage in stages:
        assert [Topic(stage["topic"])] == list(STAGES[stage["name"]].inputs)
        for log in (0, 3):
            names = TopicNames(prefix="p", generation="v7", log=log)
            assert topic_of(stage, "p", {"name": "v7", "log": log}) == names.name(stage["topic"])


def topic_of(stage: Mapping[str, Any], prefix: str, generation: Mapping[str, Any]) -> str:
    """What the template ``eunoe.topic`` gives."""
    found = re.search(
        r'define "eunoe.topic" -}}\n{{- if .stage.derived }}(.*?){{ else }}(.*?)'
        r"{{ with .generation.log }}(.*?){{ end }}",
        TEMPLATES["_helpers.tpl"],
    )
    assert found is not None
    derived, kept, log = found.groups()
    text = derived if stage["derived"] else kept + (log if generation["log"] else "")
    for name, value in {
        ".root.Values.prefix": prefix, ".generation.name": generation["name"], ".stage.topic": stage["topic"],
        ".": generation["log"],
    }.items():  # fmt: skip
        text = text.replace(f"{{{{ {name} }}}}", str(value))
    return text


def test_what_may_be_scaled_to_zero_is_cut_out_of_the_alert_about_absent_stages() -> None:
    """Helm is not needed: the line that the template removes is there once for each stage but the first."""
    found = re.search(r'replace \(printf "(.*?)\\n" \$stage.name\) ""', TEMPLATES["monitoring.yaml"])
    assert found is not None
    shipped = (CHART / "files" / "alerts.yaml").read_text()
    first, *others = STAGES
    assert STAGES[first].answers, "it is never scaled to zero"
    for stage in others:
        assert shipped.count(found[1].replace("%q", f'"{stage}"') + "\n") == 1
    cut = re.search(r'regexReplaceAll "(.*?)" \$rules', TEMPLATES["monitoring.yaml"])
    assert cut is not None
    assert [group["name"] for group in yaml.safe_load(re.sub(cut[1], "", shipped))["groups"]] == ["eunoe"]


def test_the_trigger_watches_the_group_of_the_stage_and_every_value_of_it_is_a_text() -> None:
    group = re.search(
        r'consumerGroup: {{ printf "(.*?)" \$root.Values.prefix \$generation.name \$stage.name \| quote }}',
        TEMPLATES["stages.yaml"],
    )
    assert group is not None
    assert group[1] % ("p", "v7", "link") == TopicNames(prefix="p", generation="v7").group("link")
    block = re.search(
        r"      metadata:\n        bootstrapServers(.*?)      \{\{- with .trigger", TEMPLATES["stages.yaml"], re.DOTALL
    )
    assert block is not None
    values = re.findall(r"^ {8}[\w{} $.]+: (.*)$", block[0], re.MULTILINE)
    assert len(values) == 7
    assert all(re.fullmatch(r'\{\{.* \| quote }}|"[^"]*"', value) for value in values), values


def test_pods_run_commands_that_exist() -> None:
    commands = [words.split(", ") for words in re.findall(r"^ *args: \[(.*)\]$", ALL, re.MULTILINE)]
    assert sorted(words[0] for words in commands) == ["doctor", "erase", "gateway", "topics", "worker"]
    for name, *words in commands:
        command = typer.main.get_command(build_app(name)).commands[name]  # type: ignore[attr-defined]
        if name == "worker":
            assert words == ["{{ $stage.name }}"]
        elif name in ("topics", "erase"):
            assert words[0] in command.commands
        else:
            known = {option for parameter in command.params for option in parameter.opts}
            assert {word for word in words if word.startswith("-")} <= known
            assert {word for word in words if not word.startswith("-")} <= set(PARTS)


def test_one_process_carries_out_erasures(defaults: dict[str, Any], schema: Draft7Validator) -> None:
    template = TEMPLATES["eraser.yaml"]
    assert defaults["eraser"]["enabled"] is True
    assert "EUNOE_ERASURES" in secret_settings(), "it comes from the Secret"
    assert "replicas: 1\n  strategy: {type: Recreate}\n" in template
    assert '      exec eunoe "$@"\n            - eraser\n          args: [erase, serve]\n' in template
    with pytest.raises(ValidationError):
        schema.validate({**NEEDED, "eraser": {"replicas": 2}})


@pytest.mark.parametrize(("ledger", "code", "told"), [("redis://ledger", 0, "erase serve"), ("", -9, "")])
def test_an_eraser_without_a_ledger_rests_in_place_of_failing(
    ledger: str, code: int, told: str, tmp_path: Path
) -> None:
    found = re.search(r"            - \|\n(.*?)            - eraser\n", TEMPLATES["eraser.yaml"], re.DOTALL)
    assert found is not None
    eunoe = tmp_path / "eunoe"
    eunoe.write_text('#!/bin/sh\necho "$@"\n')
    eunoe.chmod(0o755)
    command = ["timeout", "--signal=KILL", "1", "sh", "-c", found[1], "eraser", "erase", "serve"]
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "EUNOE_ERASURES": ledger}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=20, check=False)
    assert done.stdout.strip() == told
    assert ("EUNOE_ERASURES" in done.stderr) is (not ledger)
    assert (done.returncode == 0) is (code == 0)


@pytest.mark.parametrize(("ledger", "asked"), [("redis://ledger", True), ("", False)])
def test_an_eraser_is_asked_whether_it_lives_where_it_has_a_ledger(ledger: str, asked: bool, tmp_path: Path) -> None:
    found = re.search(r"livenessProbe:\n.*?- '([^\n]*)'\n", TEMPLATES["eraser.yaml"], re.DOTALL)
    assert found is not None
    probe = tmp_path / "python"
    probe.write_text('#!/bin/sh\necho "$EUNOE_HEALTH" "$@"; exit 1\n')
    probe.chmod(0o755)
    (address,) = re.findall(r'EUNOE_HEALTH, value: "(.*)"', TEMPLATES["eraser.yaml"])
    own = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "EUNOE_ERASURES": ledger, "EUNOE_HEALTH": address}
    done = subprocess.run(["sh", "-c", found[1]], env=own, capture_output=True, text=True, timeout=20, check=False)
    assert done.stdout.strip() == (f"{address} -m eunoe.deploy.observability.probe live" if asked else "")
    assert (done.returncode == 1) is asked


def test_the_chart_is_of_the_version_of_the_code() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert (chart["version"], chart["appVersion"]) == (version, version)


def test_no_server_is_bundled() -> None:
    assert "dependencies" not in yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert not (CHART / "charts").exists()
    assert set(re.findall(r"^kind: (\w+)", ALL, re.MULTILINE)) == {
        "ConfigMap", "Deployment", "Job", "NetworkPolicy", "Pod", "PodDisruptionBudget", "PrometheusRule",
        "ScaledObject", "Service", "ServiceMonitor",
    }  # fmt: skip
    assert set(re.findall(r"^ *image: (.*)$", ALL, re.MULTILINE)) == {'{{ include "eunoe.image" . | quote }}'}
