"""The files of the deployment agree with each other and with the code."""

import ast
import json
import os
import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from eunoe.deploy.exits import Exit
from eunoe.deploy.gateway.meter import LABELS as GATEWAY_LABELS
from eunoe.deploy.gateway.meter import SECONDS
from eunoe.deploy.observability.histograms import HISTOGRAMS
from eunoe.deploy.observability.metrics import METRICS
from eunoe.deploy.settings import Settings
from eunoe.schemas.base import Value
from eunoe.schemas.events import Utterance
from eunoe.schemas.records import DeadLetterReason
from eunoe.schemas.versions import read_contract
from eunoe.workers.registry import STAGES
from tests.support.derived.dashboard import dashboard, expressions
from tests.support.kafka.jars import POM

ROOT = Path(__file__).parents[3]
DEPLOY = ROOT / "deploy"
ALERTS = DEPLOY / "observability" / "alerts.yaml"
PIN = re.compile(r"^([A-Za-z0-9][A-Za-z0-9._-]*)==([^ ;\\]+)", re.MULTILINE)


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    return dict(yaml.safe_load((DEPLOY / "compose.yaml").read_text()))


@pytest.fixture(scope="module")
def makefile() -> str:
    return (ROOT / "Makefile").read_text()


@pytest.fixture(scope="module")
def pyproject() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def instructions(path: Path) -> list[tuple[str, str]]:
    text = re.sub(r"\\\n", " ", path.read_text())
    lines = (line.strip() for line in text.splitlines())
    pairs = (line.split(maxsplit=1) for line in lines if line and not line.startswith("#"))
    return [(name.upper(), rest) for name, rest in pairs]


def settings() -> set[str]:
    """The names of all settings, those of the rooms (``EUNOE_ROOM__NAME``) included."""
    names = {"OPENAI_BASE_URL", "OPENAI_API_KEY"}
    for name, field in Settings.model_fields.items():
        room = field.annotation if isinstance(field.annotation, type) and issubclass(field.annotation, Value) else None
        inner = [f"{name}__{of_room}" for of_room in room.model_fields] if room else [name]
        names |= {f"EUNOE_{full.upper()}" for full in inner}
    return names


def pins(path: Path) -> dict[str, str]:
    return dict(PIN.findall(path.read_text()))


# ---- compose


def test_compose_has_the_servers_and_one_service_per_stage(compose: dict[str, Any]) -> None:
    assert set(compose["services"]) == {"kafka", "redis", "qdrant", "topics", "gateway", "eraser", *STAGES}
    for stage in STAGES:
        assert compose["services"][stage]["command"] == ["worker", stage]
        assert compose["services"][stage]["restart"] == "unless-stopped"


def test_compose_opens_ports_to_this_machine_only(compose: dict[str, Any]) -> None:
    ports = [port for service in compose["services"].values() for port in service.get("ports", ())]
    assert len(ports) == 4
    assert all(port.startswith("127.0.0.1:") for port in ports)


def test_compose_carries_out_erasures_whose_ledger_every_process_has(compose: dict[str, Any]) -> None:
    services = compose["services"]
    assert services["eraser"]["command"] == ["erase", "serve"]
    assert services["eraser"]["restart"] == "unless-stopped"
    assert services["eraser"]["healthcheck"] == services["intake"]["healthcheck"]
    for name in ("eraser", "gateway", "topics", *STAGES):
        assert services[name]["environment"]["EUNOE_ERASURES"] == "${EUNOE_ERASURES:-/erasures/ledger.sqlite}"
        assert "erasures:/erasures" in services[name]["volumes"], name


def test_data_keys_and_cold_conversations_of_compose_outlive_a_container_and_are_the_image_users(
    compose: dict[str, Any],
) -> None:
    for name in ("eraser", "gateway", "topics", *STAGES):
        assert {"datakeys:/datakeys", "cold:/cold"} <= set(compose["services"][name]["volumes"]), name
    assert compose["volumes"].keys() >= {"keys", "erasures", "datakeys", "cold"}
    (made,) = (rest for key, rest in instructions(DEPLOY / "Dockerfile") if key == "RUN" and "useradd" in rest)
    assert made.endswith(
        "&& mkdir --mode 700 /keys /erasures /datakeys /cold && chown 10001 /keys /erasures /datakeys /cold"
    )


def test_compose_points_every_stage_to_its_servers_by_settings_that_exist(compose: dict[str, Any]) -> None:
    for stage in ("topics", *STAGES):
        environment = compose["services"][stage]["environment"]
        assert environment.keys() <= settings()
        assert environment["EUNOE_KAFKA"] == "kafka:19092"
        assert environment["EUNOE_REDIS_URL"].startswith("redis://redis:")
        assert environment["EUNOE_QDRANT_URL"] == "http://qdrant:6333"


def test_only_the_workers_of_compose_are_held_to_a_generation(compose: dict[str, Any]) -> None:
    services = compose["services"]
    for name in ("topics", *STAGES):
        assert services[name]["environment"]["EUNOE_GENERATION"] == "${EUNOE_GENERATION:-v1}", name
    for name in ("gateway", "eraser"):
        assert "EUNOE_GENERATION" not in services[name]["environment"], "it would not follow a promotion"
        assert services[name]["environment"].items() <= services["intake"]["environment"].items(), name


def test_the_stages_of_compose_start_when_the_topics_are_there(compose: dict[str, Any]) -> None:
    assert compose["services"]["topics"]["command"] == ["topics", "create"]
    assert compose["services"]["topics"]["depends_on"]["kafka"]["condition"] == "service_healthy"
    for stage in STAGES:
        needed = compose["services"][stage]["depends_on"]
        assert needed["topics"]["condition"] == "service_completed_successfully"
        grace = int(compose["services"][stage]["stop_grace_period"].removesuffix("s"))
        assert grace > Settings.model_fields["shutdown_seconds"].default


def test_the_servers_of_compose_keep_what_they_acknowledge(compose: dict[str, Any]) -> None:
    kafka, redis = compose["services"]["kafka"], compose["services"]["redis"]
    assert kafka["environment"]["KAFKA_AUTO_CREATE_TOPICS_ENABLE"] == "false"
    assert kafka["environment"]["KAFKA_LOG_DIRS"] in kafka["volumes"][0]
    assert redis["command"][1:] == [
        "--appendonly",
        "yes",
        "--appendfsync",
        "always",
        "--maxmemory-policy",
        "noeviction",
    ]
    for service in ("kafka", "redis", "qdrant"):
        (volume,) = compose["services"][service]["volumes"]
        assert volume.split(":")[0] in compose["volumes"]


def test_the_listeners_of_kafka_agree(compose: dict[str, Any]) -> None:
    environment = compose["services"]["kafka"]["environment"]
    listeners = dict(entry.split("://") for entry in environment["KAFKA_LISTENERS"].split(","))
    advertised = dict(entry.split("://") for entry in environment["KAFKA_ADVERTISED_LISTENERS"].split(","))
    protocols = dict(entry.split(":") for entry in environment["KAFKA_LISTENER_SECURITY_PROTOCOL_MAP"].split(","))
    assert listeners.keys() == protocols.keys() == advertised.keys() | {"CONTROLLER"}
    assert all(address.endswith(listeners[name]) for name, address in advertised.items())
    assert environment["KAFKA_INTER_BROKER_LISTENER_NAME"] in advertised


# ---- the image


def test_the_image_is_made_of_files_that_exist() -> None:
    copied = [rest.split()[:-1] for name, rest in instructions(DEPLOY / "Dockerfile") if name == "COPY"]
    own = [source for sources in copied for source in sources if not source.startswith(("--from", "/"))]
    assert {"schemas", "streams", "workers", "deploy", "deploy/runtime.lock"} <= set(own)
    assert not [source for source in own if not (ROOT / source).exists()]


def test_the_builder_is_given_all_that_the_image_copies() -> None:
    ignored = (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines()
    given = {line.removeprefix("!") for line in ignored if line.startswith("!")}
    copied = [rest.split()[:-1] for name, rest in instructions(DEPLOY / "Dockerfile") if name == "COPY"]
    own = {source.split("/")[0] for sources in copied for source in sources if not source.startswith(("--from", "/"))}
    assert own == given


def test_the_image_runs_the_command_as_nobody_special() -> None:
    last = dict(instructions(DEPLOY / "Dockerfile"))
    assert last["ENTRYPOINT"] == '["eunoe"]'
    assert int(last["USER"]) > 0
    assert last["FROM"] == "python:3.11-slim"


# ---- locks


def test_the_image_installs_what_was_tested() -> None:
    runtime, everything = pins(DEPLOY / "runtime.lock"), pins(ROOT / "requirements.lock")
    assert runtime.items() <= everything.items()
    assert "pytest" in everything
    assert "pytest" not in runtime


def test_the_locks_hold_every_declared_dependency(pyproject: dict[str, Any]) -> None:
    def names(requirements: list[str]) -> set[str]:
        found = (re.match(r"[A-Za-z0-9._-]+", requirement) for requirement in requirements)
        return {re.sub(r"[-_.]+", "-", match[0]).lower() for match in found if match}

    declared = names(pyproject["project"]["dependencies"])
    assert declared <= pins(DEPLOY / "runtime.lock").keys()
    assert declared | names(pyproject["dependency-groups"]["dev"]) <= pins(ROOT / "requirements.lock").keys()


# ---- make


def test_bare_make_lists_every_target_in_a_line(makefile: str) -> None:
    own = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}  # not a make within make
    command = subprocess.run(["make"], cwd=ROOT, env=own, capture_output=True, text=True, timeout=60, check=True)
    shown = command.stdout
    listed = {line.split()[0] + " " + line.split()[1] for line in shown.splitlines()}
    targets = set(re.findall(r"^\.PHONY: (\S+)$", makefile, re.MULTILINE)) - {"servers-given"}
    assert listed == {f"make {target}" for target in targets}
    assert {
        "fmt",
        "lint",
        "type",
        "test",
        "demo",
        "up",
        "bench-ask",
        "test-servers",
        "test-kafka",
        "test-kafka-brief",
    } <= targets


def make(*words: str, cwd: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """A run of make that knows nothing of the make, and of the servers, that this test runs under."""
    outer = ("EUNOE_", "MAKE", "MFLAGS")
    own = {name: value for name, value in os.environ.items() if not name.startswith(outer)}
    return subprocess.run(
        ["make", *words], cwd=cwd, env=own | variables, capture_output=True, text=True, timeout=60, check=False
    )


def test_make_refuses_servers_that_are_not_named() -> None:
    refused = make("servers-given", cwd=ROOT, EUNOE_KAFKA="k:9092")
    assert refused.returncode == 2
    assert "EUNOE_REDIS_URL is not set" in refused.stderr.splitlines()[0]


def test_make_refuses_a_python_that_is_missing_or_too_old(tmp_path: Path) -> None:
    old = tmp_path / "old-python"
    old.write_text("#!/bin/sh\nexit 1\n")
    old.chmod(0o755)
    needed = [ROOT / "Makefile", ROOT / "requirements.lock", ROOT / "pyproject.toml", ROOT / "setup.py"]
    for path in needed:
        (tmp_path / path.name).write_bytes(path.read_bytes())
    for folder in ("schemas", "streams", "workers", "deploy"):
        (tmp_path / folder).mkdir()
    refused = make("install", f"PYTHON={old} no-such-python", cwd=tmp_path)
    assert refused.returncode == 2
    assert refused.stderr.startswith("make: needs Python 3.11 or newer")


FIRST = {"run": ["docs", "test", "test-browser-brief"], "nightly": ["test-slow", "test-browser"]}
"""Script of `.ci` → the targets that it makes before it looks for Kafka."""
OTHERS = {"run": ["test-alerts", "test-openapi"], "nightly": []}
ON_KAFKA = {"run": "test-kafka-brief", "nightly": "test-kafka"}


@pytest.mark.parametrize("name", FIRST)
@pytest.mark.parametrize(("fetched", "code", "told"), [(0, 0, False), (2, 0, True), (69, 0, True), (1, 1, False)])
def test_kafka_is_tested_where_it_can_be_and_the_lack_is_told(
    tmp_path: Path, name: str, fetched: int, code: int, told: bool
) -> None:
    scripts = {f".ci/{part}": (ROOT / ".ci" / part).read_text() for part in (name, "kafka.sh")}
    scripts["bin/make"] = f'#!/bin/sh\necho "$@" >> {tmp_path}/made\n'
    scripts[".venv/bin/python"] = f"#!/bin/sh\nexit {fetched}\n"
    for path, text in scripts.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
        (tmp_path / path).chmod(0o755)
    paths = {"PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}"}
    done = subprocess.run([tmp_path / ".ci" / name], env=paths, capture_output=True, text=True, timeout=20, check=False)
    assert done.returncode == code
    then = [] if code else OTHERS[name] if told else [ON_KAFKA[name], *OTHERS[name]]
    made = (tmp_path / "made").read_text().split()
    assert [word for word in made if not word.startswith("-")] == FIRST[name] + then
    assert (f"NOT RUN: make {ON_KAFKA[name]} " in done.stderr) is told


def test_all_tests_of_test_all_are_in_one_of_the_two_runs() -> None:
    made = [word for name in FIRST for word in FIRST[name] + OTHERS[name]]
    assert {"test", "test-slow", "test-openapi"} <= set(made)
    assert all(os.access(ROOT / ".ci" / name, os.X_OK) for name in FIRST)


def test_what_is_not_repeated_on_kafka_asks_for_no_server() -> None:
    (left_out,) = re.findall(r"^BROKERLESS := (.+)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    for path in left_out.split():
        text = (ROOT / path).read_text()
        defined = [
            node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        ]
        asked = {argument.arg for function in defined for argument in function.args.args}
        assert not asked & {"pipeline", "standalone", "servers"}, path
        assert "mark.broker" not in text, path


def test_the_tested_kafka_is_that_of_compose(compose: dict[str, Any]) -> None:
    pinned = re.search(r"<artifactId>kafka_2.13</artifactId>\s*<version>(.*?)</version>", POM.read_text())
    assert pinned is not None
    assert compose["services"]["kafka"]["image"] == f"apache/kafka:{pinned[1]}"


def test_every_folder_with_modules_is_a_package() -> None:
    """``setup.py`` finds packages by their ``__init__.py``: a folder without one would be missing in the wheel."""
    layers = ("schemas", "streams", "workers", "deploy")
    found = {path.parent for layer in layers for path in (ROOT / layer).rglob("*.py")}
    found -= {
        DEPLOY / "docs",
        DEPLOY / "docs" / "examples",
        DEPLOY / "docs" / "producers",
    }  # of the site, and programs for clients: no part of eunoe
    assert not [folder for folder in found if not (folder / "__init__.py").exists()]


# ---- documents


def test_the_examples_for_clients_are_valid_events() -> None:
    shown = re.findall(r"```json\n(.*?)\n```", (DEPLOY / "docs" / "clients.md").read_text(), re.DOTALL)
    events = [read_contract(json.loads(example)) for example in shown]
    assert [event.type_tag() for event in events] == ["utterance", "session_ended", "utterance", "erase"]
    assert isinstance(events[0], Utterance)
    assert f"`{events[0].key}`" in (DEPLOY / "docs" / "clients.md").read_text()


# ---- what is watched


def labels_by_metric() -> dict[str, set[str]]:
    """Series → the labels that it has of the workers."""
    known = {definition.name: set(definition.labels) for definition in METRICS}
    parts = ("bucket", "count", "sum")
    known |= {f"{one.name}_{part}": {*one.labels, "le"} for one in HISTOGRAMS for part in parts}
    known |= {f"{SECONDS}_{part}": {*GATEWAY_LABELS[SECONDS], "le"} for part in parts}
    return known | {name: set(labels) for name, labels in GATEWAY_LABELS.items() if name != SECONDS}


def test_the_example_alerts_use_metrics_and_labels_that_exist() -> None:
    groups = yaml.safe_load((DEPLOY / "observability" / "alerts.yaml").read_text())["groups"]
    rules = [rule for group in groups for rule in group["rules"]]
    known = labels_by_metric()
    assert len({rule["alert"] for rule in rules}) == len(rules) >= 5
    for rule in rules:
        expression = rule["expr"]
        used = set(re.findall(r"eunoe_[a-z_]+", expression))
        assert used or "(up{job=" in expression, rule["alert"]
        assert used <= known.keys(), rule["alert"]
        named = {name.strip() for by in re.findall(r"by \(([^)]*)\)", expression) for name in by.split(",")}
        named |= set(re.findall(r"[{,]\s*(\w+)\s*[!=]", expression))
        labels = {"instance", "job"}.union(*(known[name] for name in used))
        assert named <= labels, rule["alert"]
        told = set(re.findall(r"\$labels\.(\w+)", str(rule["annotations"])))
        assert told <= named, rule["alert"]
        assert rule["annotations"]["action"]
        assert expression.count("(") == expression.count(")")


def test_a_stage_and_a_gateway_of_which_nothing_is_scraped_are_missed() -> None:
    groups = {group["name"]: group["rules"] for group in yaml.safe_load(ALERTS.read_text())["groups"]}
    assert list(groups) == ["eunoe", "eunoe-gateway"], "the chart cuts off the last one where there is no gateway"
    (absent,) = (rule["expr"] for rule in groups["eunoe"] if rule["alert"] == "EunoeStageAbsent")
    assert re.findall(r'absent\(eunoe_events_total\{stage="(\w+)"\}\)', absent) == list(STAGES)
    assert "absent(eunoe_gateway_streams)" in [rule["expr"] for rule in groups["eunoe-gateway"]]
    assert not [rule for rule in groups["eunoe"] if "gateway" in str(rule).lower()]


def test_the_dashboard_is_that_of_the_code_and_shows_metrics_and_labels_that_exist() -> None:
    panels = dashboard()["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    known = labels_by_metric()
    for expression in expressions():
        (metric,) = set(re.findall(r"eunoe_[a-z_]+", expression))
        named = {name.strip() for by in re.findall(r"by \(([^)]*)\)", expression) for name in by.split(",")}
        named |= set(re.findall(r"[{,]\s*(\w+)\s*[!=]", expression))
        assert named <= known[metric], expression
    legends = [target["legendFormat"] for panel in panels for target in panel.get("targets", ())]
    assert all("{{" in legend for legend in legends)


def test_reasons_that_alerts_name_exist() -> None:
    named = re.findall(r'reason!?="(\w+)"', (DEPLOY / "observability" / "alerts.yaml").read_text())
    assert set(named) <= {reason.value for reason in DeadLetterReason}
    assert named


def test_every_metric_and_every_exit_code_is_documented() -> None:
    text = (DEPLOY / "docs" / "operations.md").read_text()
    for definition in (*METRICS, *HISTOGRAMS):
        row = f"| `{definition.name}` | {', '.join(definition.labels) or '–'} | {definition.help} | "
        assert re.search(re.escape(row) + r"\S.* \|$", text, re.MULTILINE), definition.name
    told = set(re.findall(r"^\| `(eunoe_\w+)` \|", text, re.MULTILINE))
    assert told == {definition.name for definition in (*METRICS, *HISTOGRAMS)}
    documented = {int(code) for code in re.findall(r"^\| (\d+) \|", text, re.MULTILINE)}
    assert documented == {int(code) for code in Exit}


def test_every_metric_of_the_gateway_is_documented() -> None:
    text = (DEPLOY / "docs" / "gateway.md").read_text()
    told = dict(re.findall(r"^\| `(eunoe_\w+)` \| ([\w, –]+) \| .* \| \S.* \|$", text, re.MULTILINE))
    assert told == {name: ", ".join(labels) or "–" for name, labels in GATEWAY_LABELS.items()}


def test_the_stages_of_compose_are_probed_where_they_listen(compose: dict[str, Any]) -> None:
    for stage in STAGES:
        service = compose["services"][stage]
        host, _, port = service["environment"]["EUNOE_HEALTH"].rpartition(":")
        assert (host, service["expose"]) == ("0.0.0.0", [port])
        module = service["healthcheck"]["test"][service["healthcheck"]["test"].index("-m") + 1]
        assert (ROOT / (module.removeprefix("eunoe.").replace(".", "/") + ".py")).exists()


def test_the_image_is_probed_where_a_worker_in_it_listens() -> None:
    found = dict(instructions(DEPLOY / "Dockerfile"))
    assert "eunoe.deploy.observability.probe" in found["HEALTHCHECK"]
    environments = [rest for name, rest in instructions(DEPLOY / "Dockerfile") if name == "ENV"]
    assert any(rest.startswith("EUNOE_HEALTH=127.0.0.1:") for rest in environments)


def test_the_tests_that_guarantees_name_exist() -> None:
    named = re.findall(r"`(tests/[\w/.]+)`", (DEPLOY / "docs" / "guarantees.md").read_text())
    assert len(named) > 10
    assert not [path for path in named if not (ROOT / path).exists()]


def test_the_backup_names_each_place_that_cannot_be_derived_and_the_steps_of_a_restore() -> None:
    page = (DEPLOY / "docs" / "operations.md").read_text()
    backup = page.partition("## Backup\n")[2].partition("\n## ")[0]
    table, _, restore = backup.partition("### Restore\n")
    kept = {name for row in table.splitlines() if row.startswith("| ") for name in re.findall(r"`(\S+?)`", row)}
    stores = {"EUNOE_ERASURES", "EUNOE_KEYS__STORE", "EUNOE_KEYS__KEK", "EUNOE_GATEWAY__KEYS"}
    assert {"conversations", "answers", "log", "keys.json"} | stores <= kept
    steps = re.findall(r"^eunoe (.*?) +#", restore, re.MULTILINE)
    assert steps == ["keys replay", "erase replay", "repair --all-held", "reindex", "doctor"]
