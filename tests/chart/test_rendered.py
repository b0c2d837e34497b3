"""The chart as Helm renders it: valid by the schemas of Kubernetes, of KEDA and of the Prometheus operator.

`make test-chart` brings the programs.
"""

import copy
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from eunoe.deploy.settings import Settings, read_settings
from eunoe.streams.topics import TopicNames
from eunoe.workers.registry import STAGES
from tests.support.kubernetes import CRDS, VERSION, program

ROOT = Path(__file__).parents[2]
CHART = ROOT / "deploy" / "chart"
LEAST: Mapping[str, Any] = {
    "image": {"repository": "registry/eunoe"},
    "existingSecret": "eunoe",
    "kafka": {"bootstrap": "kafka-1:9092,kafka-2:9092"},
    "qdrant": {"url": "http://qdrant:6333"},
}
EVERYTHING: Mapping[str, Any] = {
    **LEAST,
    "image": {"repository": "registry/eunoe", "tag": "1", "pullSecrets": ["registry"]},
    "generations": [{"name": "v1", "log": 0}, {"name": "v2", "log": 1}],
    "settings": {"EUNOE_INTAKE__IDLE_SECONDS": "600", "OPENAI_BASE_URL": "https://models/v1"},
    "stages": {"tree": {"minReplicas": 0}, "respond": {"lagThreshold": 5, "resources": {"limits": {"memory": "2Gi"}}}},
    "autoscaling": {"enabled": True, "triggerAuthentication": "kafka", "metadata": {"sasl": "scram_sha512"}},
    "monitoring": {
        "serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}},
        "rules": {"enabled": True, "runbookBase": "https://docs.example/"},
        "dashboard": {"enabled": True},
    },
    "networkPolicy": {
        "gatewayFrom": [{"namespaceSelector": {"matchLabels": {"team": "chat"}}}],
        "egress": [{"to": [{"ipBlock": {"cidr": "10.0.0.0/8"}}]}],
    },
    "podAnnotations": {"team": "chat"},
    "podLabels": {"team": "chat"},
    "nodeSelector": {"disk": "fast"},
    "tolerations": [{"key": "spot", "operator": "Exists"}],
    "affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}},
    "topologySpreadConstraints": [
        {"maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "ScheduleAnyway"}
    ],
    "priorityClassName": "high",
    "extraVolumes": [{"name": "ca", "configMap": {"name": "ca"}}],
    "extraVolumeMounts": [{"name": "ca", "mountPath": "/ca"}],
}
NO_GATEWAY: Mapping[str, Any] = {
    **LEAST,
    "gateway": {"enabled": False},
    "eraser": {"enabled": False},
    "networkPolicy": {"enabled": False},
    "podDisruptionBudget": {"enabled": False},
    "topics": {"create": False},
}
Manifest = dict[str, Any]


def helm(*words: str, folder: Path, values: Mapping[str, Any]) -> subprocess.CompletedProcess[str]:
    """Run Helm with values; its caches go into ``folder``."""
    binary = program("helm")
    assert binary, "no helm: `make test-chart` brings it"
    path = folder / "values.yaml"
    path.write_text(yaml.safe_dump(dict(values)))
    own = {**os.environ, "HOME": str(folder), "HELM_CACHE_HOME": str(folder / "cache")}
    command = [binary, *words, "--values", path]
    return subprocess.run(command, env=own, capture_output=True, text=True, timeout=60, check=False)


def render(folder: Path, values: Mapping[str, Any]) -> list[Manifest]:
    """All manifests of a release ``memory``."""
    done = helm("template", "memory", str(CHART), "--namespace", "chat", folder=folder, values=values)
    assert done.returncode == 0, done.stderr
    return [document for document in yaml.safe_load_all(done.stdout) if document]


def check(folder: Path, *documents: Manifest) -> str:
    """The complaints of kubectl-validate; empty where there are none."""
    binary = program("kubectl-validate")
    assert binary, "no kubectl-validate: `make test-chart` brings it"
    path = folder / "manifests.yaml"
    path.write_text(yaml.safe_dump_all(documents))
    command = [binary, path, "--version", VERSION, "--local-crds", CRDS]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    return "" if done.returncode == 0 else done.stdout + done.stderr


def of_kind(documents: list[Manifest], kind: str) -> dict[str, Manifest]:
    """The manifests of a kind by name."""
    return {document["metadata"]["name"]: document for document in documents if document["kind"] == kind}


def pods(documents: list[Manifest]) -> Iterator[Manifest]:
    """The pods that the manifests make: ``metadata`` and ``spec``."""
    for document in documents:
        if document["kind"] == "Pod":
            yield document
        elif document["kind"] in ("Deployment", "Job"):
            yield document["spec"]["template"]


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> list[Manifest]:
    return render(tmp_path_factory.mktemp("everything"), EVERYTHING)


@pytest.fixture(scope="module")
def least(tmp_path_factory: pytest.TempPathFactory) -> list[Manifest]:
    return render(tmp_path_factory.mktemp("least"), LEAST)


# ---- valid


@pytest.mark.parametrize("values", [LEAST, EVERYTHING, NO_GATEWAY], ids=["least", "everything", "no gateway"])
def test_what_is_rendered_is_valid(values: Mapping[str, Any], tmp_path: Path) -> None:
    documents = render(tmp_path, values)
    names = [(document["kind"], document["metadata"]["name"]) for document in documents]
    assert len(set(names)) == len(names)
    assert check(tmp_path, *documents) == ""


@pytest.mark.parametrize("values", [LEAST, EVERYTHING], ids=["least", "everything"])
def test_helm_finds_nothing_wrong_with_it(values: Mapping[str, Any], tmp_path: Path) -> None:
    done = helm("lint", "--strict", str(CHART), folder=tmp_path, values=values)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_misspelt_probe_is_found(least: list[Manifest], tmp_path: Path) -> None:
    wrong = copy.deepcopy(of_kind(least, "Deployment")["memory-eunoe-v1-intake"])
    container = wrong["spec"]["template"]["spec"]["containers"][0]
    container["livenesProbe"] = container.pop("livenessProbe")
    assert "livenesProbe" in check(tmp_path, wrong)


def test_an_unknown_field_is_found(everything: list[Manifest], tmp_path: Path) -> None:
    wrong = copy.deepcopy(of_kind(everything, "ServiceMonitor")["memory-eunoe"])
    wrong["spec"]["endpoint"] = wrong["spec"].pop("endpoints")
    assert "endpoint" in check(tmp_path, wrong)


def test_a_threshold_that_is_no_text_is_found(everything: list[Manifest], tmp_path: Path) -> None:
    wrong = copy.deepcopy(of_kind(everything, "ScaledObject")["memory-eunoe-v1-intake"])
    wrong["spec"]["triggers"][0]["metadata"]["lagThreshold"] = 20
    assert "lagThreshold" in check(tmp_path, wrong)


def test_values_that_are_missing_are_named(tmp_path: Path) -> None:
    done = helm("template", "memory", str(CHART), folder=tmp_path, values={**LEAST, "existingSecret": ""})
    assert done.returncode != 0
    assert "existingSecret" in done.stderr


# ---- what it makes


def test_each_generation_has_a_worker_of_each_stage_that_reads_what_the_code_reads(everything: list[Manifest]) -> None:
    deployments, scaled = of_kind(everything, "Deployment"), of_kind(everything, "ScaledObject")
    wanted = {f"memory-eunoe-{generation}-{stage}" for generation in ("v1", "v2") for stage in STAGES}
    assert deployments.keys() == wanted | {"memory-eunoe-gateway", "memory-eunoe-eraser"}
    assert scaled.keys() == wanted
    for generation, log in (("v1", 0), ("v2", 1)):
        names = TopicNames(generation=generation, log=log)
        for stage, spec in STAGES.items():
            name = f"memory-eunoe-{generation}-{stage}"
            (trigger,) = scaled[name]["spec"]["triggers"]
            assert trigger["metadata"]["consumerGroup"] == names.group(stage)
            assert [trigger["metadata"]["topic"]] == [names.name(topic) for topic in spec.inputs]
            assert all(isinstance(value, str) for value in trigger["metadata"].values())
            assert scaled[name]["spec"]["scaleTargetRef"]["name"] in deployments
            assert scaled[name]["spec"]["minReplicaCount"] >= (0 if stage == "tree" else 1)
            assert "replicas" not in deployments[name]["spec"]
            (container,) = deployments[name]["spec"]["template"]["spec"]["containers"]
            assert container["args"] == ["worker", stage]


def test_the_thresholds_are_those_of_replies_and_of_memory(everything: list[Manifest]) -> None:
    found = {
        name.removeprefix("memory-eunoe-v1-"): one["spec"]["triggers"][0]["metadata"]["lagThreshold"]
        for name, one in of_kind(everything, "ScaledObject").items()
    }
    assert [found[stage] for stage in ("intake", "blend", "respond")] == ["20", "20", "5"]
    assert {found[stage] for stage, spec in STAGES.items() if not spec.answers} == {"200"}


@pytest.mark.parametrize("kind", ["least", "everything"])
def test_every_process_reads_its_settings(
    kind: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    documents = request.getfixturevalue(kind)
    for pod in pods(documents):
        for container in pod["spec"]["containers"]:
            with monkeypatch.context() as patched:
                for name in [name for name in os.environ if name.startswith("EUNOE_")]:
                    patched.delenv(name)
                for variable in container["env"]:
                    patched.setenv(variable["name"], variable["value"])
                settings = read_settings()
            if container["name"] in ("worker", "gateway") and "args" in container:
                assert settings.health == "0.0.0.0:8081"
                assert settings.shutdown_seconds < pod["spec"]["terminationGracePeriodSeconds"]
                assert container["envFrom"] == [{"secretRef": {"name": "eunoe"}}]
                assert settings.kafka_settings.servers == ["kafka-1:9092", "kafka-2:9092"]
                assert settings.partitions == Settings().partitions
            if container["name"] == "worker":
                assert settings.generation == pod["metadata"]["labels"]["eunoe/generation"]


def test_every_pod_is_nobody_special_and_writes_nowhere_but_tmp(everything: list[Manifest]) -> None:
    found = list(pods(everything))
    assert len(found) == 2 * len(STAGES) + 4
    for pod in found:
        spec = pod["spec"]
        assert spec["securityContext"]["runAsUser"] == 10001
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert spec["automountServiceAccountToken"] is False
        assert spec["enableServiceLinks"] is False, "a Service named eunoe-… would set EUNOE_… in each pod"
        for container in spec["containers"]:
            assert container["securityContext"]["readOnlyRootFilesystem"] is True
            assert container["securityContext"]["allowPrivilegeEscalation"] is False
            writable = [mount["mountPath"] for mount in container["volumeMounts"] if not mount.get("readOnly")]
            assert writable == ["/tmp", "/ca"]


def test_selectors_choose_their_own_pods_and_no_others(everything: list[Manifest]) -> None:
    labels = [pod["metadata"]["labels"] for pod in pods(everything)]

    def chosen(selector: Mapping[str, str]) -> int:
        return sum(selector.items() <= found.items() for found in labels)

    for kind in ("Deployment", "PodDisruptionBudget"):
        for name, document in of_kind(everything, kind).items():
            assert chosen(document["spec"]["selector"]["matchLabels"]) == 1, name
    services = of_kind(everything, "Service")
    assert chosen(services["memory-eunoe-gateway"]["spec"]["selector"]) == 1
    (monitor,) = of_kind(everything, "ServiceMonitor").values()
    watched = monitor["spec"]["selector"]["matchLabels"]
    matching = [name for name, one in services.items() if watched.items() <= one["metadata"]["labels"].items()]
    assert matching == ["memory-eunoe-metrics"]
    assert services["memory-eunoe-metrics"]["spec"]["publishNotReadyAddresses"] is True


def test_a_limited_egress_lets_the_test_of_the_release_reach_the_gateway(everything: list[Manifest]) -> None:
    policies = of_kind(everything, "NetworkPolicy")
    (pod,) = of_kind(everything, "Pod").values()
    gateway = of_kind(everything, "Deployment")["memory-eunoe-gateway"]["spec"]["template"]

    def chooses(selector: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
        return bool(selector["matchLabels"].items() <= labels.items())

    own = [one["spec"] for one in policies.values() if chooses(one["spec"]["podSelector"], pod["metadata"]["labels"])]
    rules = [rule for spec in own for rule in spec.get("egress", ())]
    reached = [peer["podSelector"] for rule in rules for peer in rule["to"] if "podSelector" in peer]
    assert [chooses(selector, gateway["metadata"]["labels"]) for selector in reached] == [True]
    (container,) = gateway["spec"]["containers"]
    (port,) = [one["containerPort"] for one in container["ports"] if one["name"] == "http"]
    assert {"port": port} in [one for rule in rules for one in rule.get("ports", ())]


def test_one_pod_erases_with_the_settings_of_all(least: list[Manifest]) -> None:
    deployments = of_kind(least, "Deployment")
    spec = deployments["memory-eunoe-eraser"]["spec"]
    assert (spec["replicas"], spec["strategy"]) == (1, {"type": "Recreate"})
    (eraser,) = spec["template"]["spec"]["containers"]
    assert eraser["args"] == ["erase", "serve"]
    (worker,) = deployments["memory-eunoe-v1-intake"]["spec"]["template"]["spec"]["containers"]
    assert eraser["envFrom"] == worker["envFrom"]
    # its probe asks it from within, and nothing scrapes it
    assert [one for one in eraser["env"] if one not in worker["env"]] == [
        {"name": "EUNOE_HEALTH", "value": "127.0.0.1:8081"}
    ]


def test_topics_are_made_before_anything_starts(everything: list[Manifest]) -> None:
    (job,) = of_kind(everything, "Job").values()
    assert job["metadata"]["annotations"]["helm.sh/hook"] == "pre-install,pre-upgrade"
    containers = job["spec"]["template"]["spec"]["containers"]
    assert [container["args"] for container in containers] == [["topics", "create"]] * 2
    named = {found for one in containers for env in one["env"] for found in ("valueFrom",) if found in env}
    assert not named, "a hook comes before what the chart makes"


def test_topics_are_made_for_each_generation_whatever_the_first_is_called(
    everything: list[Manifest], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    only = render(tmp_path, {**LEAST, "generations": [{"name": "v7"}]})
    for documents in (everything, only):
        (job,) = of_kind(documents, "Job").values()
        made = [_names(container, monkeypatch) for container in job["spec"]["template"]["spec"]["containers"]]
        wanted = [
            _names(deployment["spec"]["template"]["spec"]["containers"][0], monkeypatch)
            for name, deployment in of_kind(documents, "Deployment").items()
            if name.endswith("-intake")
        ]
        assert sorted(made, key=str) == sorted(wanted, key=str)
    assert [names.generation for names in made] == ["v7"]


def _names(container: Manifest, monkeypatch: pytest.MonkeyPatch) -> TopicNames:
    """The topics that the process of a container uses."""
    with monkeypatch.context() as patched:
        for name in [name for name in os.environ if name.startswith("EUNOE_")]:
            patched.delenv(name)
        for variable in container["env"]:
            patched.setenv(variable["name"], variable["value"])
        return read_settings().names


def test_rules_are_the_shipped_ones_with_the_address_of_the_runbook(everything: list[Manifest]) -> None:
    shipped = yaml.safe_load((ROOT / "deploy" / "observability" / "alerts.yaml").read_text())
    for group in shipped["groups"]:
        for rule in group["rules"]:
            rule["expr"] = rule["expr"].replace(' or absent(eunoe_events_total{stage="tree"})', "")  # minReplicas: 0
            rule["annotations"]["runbook_url"] = "https://docs.example/" + rule["annotations"]["runbook_url"]
    (rules,) = of_kind(everything, "PrometheusRule").values()
    assert rules["spec"] == shipped
    (dashboard,) = of_kind(everything, "ConfigMap").values()
    assert yaml.safe_load(dashboard["data"]["eunoe.json"])["uid"] == "eunoe"


@pytest.mark.parametrize(("hours", "seconds"), [("8", "7200"), ("1.5", "1350"), ("72", "64800"), (None, "21600")])
def test_the_rule_about_the_door_has_a_quarter_of_its_hours(tmp_path: Path, hours: str | None, seconds: str) -> None:
    settings = {} if hours is None else {"EUNOE_KEYS__DOOR_HOURS": hours}
    values = {**LEAST, "settings": settings, "monitoring": {"rules": {"enabled": True}}}
    (rules,) = of_kind(render(tmp_path, values), "PrometheusRule").values()
    (rule,) = [one for one in rules["spec"]["groups"][0]["rules"] if one["alert"] == "EunoeDoorNearsEnd"]
    assert rule["expr"] == f'max(eunoe_lag_seconds{{stage="intake"}}) > {seconds}'


def test_a_gateway_that_is_not_wanted_is_not_missed(tmp_path: Path) -> None:
    values = {**NO_GATEWAY, "monitoring": {"rules": {"enabled": True}}, "stages": {"tree": {"minReplicas": 0}}}
    (rules,) = of_kind(render(tmp_path, values), "PrometheusRule").values()
    assert [group["name"] for group in rules["spec"]["groups"]] == ["eunoe"]
    expressions = {rule["alert"]: rule["expr"] for rule in rules["spec"]["groups"][0]["rules"]}
    assert 'stage="tree"' in expressions["EunoeStageAbsent"], "without autoscaling nothing goes to zero"


def test_the_notes_show_the_first_request(tmp_path: Path) -> None:
    """Helm shows notes at an installation only, and in a cluster; here they are rendered as a manifest."""
    made = tmp_path / "chart"
    shutil.copytree(CHART, made)
    notes = (made / "templates" / "NOTES.txt").read_text()
    shown = f'{{{{- define "notes" }}}}{notes}{{{{ end }}}}\nkind: Notes\ntext: {{{{ include "notes" . | quote }}}}\n'
    (made / "templates" / "notes.yaml").write_text(shown)
    done = helm("template", "memory", str(made), "--show-only", "templates/notes.yaml", folder=tmp_path, values=LEAST)
    assert done.returncode == 0, done.stderr
    text = yaml.safe_load(done.stdout)["text"]
    assert "curl http://127.0.0.1:8700/v1/conversations/ann/recall" in text
    assert "create secret generic memory-eunoe-keys --from-file keys.json" in text
    assert "1 generation(s) of 9 stages" in text
