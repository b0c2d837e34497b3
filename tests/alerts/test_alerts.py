"""Each alert fires on what it is for, and is silent on what it is not for, as promtool evaluates the rules.

The expressions of the dashboard are ones that promtool can read.
"""

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from eunoe.workers.registry import STAGES
from tests.support.derived.dashboard import expressions
from tests.support.prometheus import RULES, program

PROMTOOL = program("promtool")

Series = dict[str, str]
"""Series → its values, one a minute, in the notation of promtool."""


@dataclass(frozen=True)
class Case:
    """An alert, and series that it is tried on."""

    alert: str
    after: str
    """The time at which it is looked at."""
    labels: dict[str, str]
    fires: tuple[Series, ...]
    silent: tuple[Series, ...]


def freshness(within: str, late: str) -> Series:
    """Sessions that were remembered within five minutes, and within a quarter of an hour."""
    name = 'eunoe_freshness_seconds_bucket{{stage="update",le="{}"}}'
    return {name.format("300.0"): within, name.format("900.0"): late, name.format("+Inf"): late}


def items(offline: str, model: str) -> Series:
    """Items that the offline rules decided for want of an answer, and those of the model."""
    name = 'eunoe_model_items_total{{stage="update",outcome="{}"}}'
    return {name.format("offline"): offline, name.format("model"): model}


def letters(reason: str, values: str) -> Series:
    """Dead letters of intake."""
    return {f'eunoe_dead_letters_total{{stage="intake",reason="{reason}"}}': values}


IGNORED, EVENTS = 'eunoe_ignored_total{stage="tree"}', 'eunoe_events_total{stage="tree"}'
LAG = 'eunoe_lag{stage="segment",topic="sessions",partition="0"}'
ALL_UP = {f'eunoe_events_total{{stage="{stage}"}}': "0+5x30" for stage in STAGES}
LINK_EVENTS = 'eunoe_events_total{stage="link"}'
UP = 'up{job="memory-eunoe-metrics",instance="w:1"}'


def requests(failed: str, well: str) -> Series:
    """Requests to the gateway."""
    name = 'eunoe_http_seconds_count{{route="/v1/events",method="POST",status="{}"}}'
    return {name.format("5xx"): failed, name.format("2xx"): well}


CASES = (
    Case(
        "EunoeStageAbsent", "20m", {"stage": "link"},
        (
            {**ALL_UP, LINK_EVENTS: "0+5x10 stale"},  # its processes ended
            {name: values for name, values in ALL_UP.items() if name != LINK_EVENTS},  # it never ran
        ),
        (ALL_UP, {**ALL_UP, LINK_EVENTS: "0+5x10 stale 0 5 10 15 20 25 30 35 40"}),  # started again
    ),
    Case(
        "EunoeProcessDown", "20m", {"job": "memory-eunoe-metrics", "instance": "w:1"},
        ({UP: "1x5 0x20"}, {UP: "1x5 0 0 0 1 0 0 0 1 0 0 0 1 0 0 0 1"}),  # down; it ends again and again
        ({UP: "1x20"}, {UP: "1x10 0 0 1x10"}, {'up{job="other",instance="w:1"}': "0x20"}),
    ),
    Case(
        "EunoeHeldConversations", "5m", {"stage": "intake"},
        (letters("held", "0 0 0 1 1 1"), {'eunoe_held{stage="intake"}': "0 0 0 2 2 2"}),
        (letters("held", "1 1 1 1 1 1"), {'eunoe_held{stage="intake"}': "0x6"}, letters("failed", "0 0 0 1 1 1")),
    ),
    Case(
        "EunoeStateWentBack", "5m", {"stage": "link"},
        ({'eunoe_went_back_total{stage="link"}': "0 0 1 1 1 1"},), ({'eunoe_went_back_total{stage="link"}': "3x5"},),
    ),
    Case(
        "EunoeRedisEvicts", "3m", {"server": "r:1"},
        ({'eunoe_evicted_keys{server="r:1"}': "0 0 7 7"}, {'eunoe_evicted_keys{server="r:1"}': "7 7 7 7"}),
        ({'eunoe_evicted_keys{server="r:1"}': "0 0 0 0"},),
    ),
    Case(
        "EunoeParkedConversations", "12m", {"stage": "update"},
        ({'eunoe_parked_oldest_seconds{stage="update"}': "840+60x12"},),
        ({'eunoe_parked_oldest_seconds{stage="update"}': "0+60x12"},),
    ),
    Case(
        "EunoeIgnoredRecords", "40m", {"stage": "tree"},
        ({IGNORED: "0+60x40", EVENTS: "0+80x40"},),
        ({IGNORED: "0+60x40", EVENTS: "0+200x40"}, {IGNORED: "0+1x40", EVENTS: "0+1x40"}),
    ),
    Case(
        "EunoeIndexIncomplete", "3m", {},
        ({"eunoe_index_incomplete": "0 1 1 1"},), ({"eunoe_index_incomplete": "0 0 0 1"},),
    ),
    Case(
        "EunoeDeadLetters", "5m", {"stage": "intake", "reason": "invalid"},
        (letters("invalid", "0 0 0 1 1 1"),), (letters("invalid", "1x5"), letters("held", "0 0 0 1 1 1")),
    ),
    Case(
        "EunoeStageStalled", "5m", {"instance": "w:1"},
        # a probe starts it anew within a minute, and ten minutes later again
        ({'eunoe_live{instance="w:1"}': "1 0 0 0 0 0"}, {'eunoe_live{instance="w:1"}': "1 1 0 stale 1 1"}),
        ({'eunoe_live{instance="w:1"}': "1x5"}, {'eunoe_live{instance="w:1"}': "1 1 stale 1 1 1"}),
    ),
    Case(
        "EunoeLagGrows", "40m", {"stage": "segment"},
        ({LAG: "1000+100x40"},), ({LAG: "9000-100x40"}, {LAG: "0+10x40"}),
    ),
    Case(
        "EunoeWaitsForServer", "7m", {"server": "Redis at r:1"},
        ({'eunoe_waiting{server="Redis at r:1"}': "0 4x7"},),
        ({'eunoe_waiting{server="Redis at r:1"}': "0 4 4 0 4 4 0 4"},),
    ),
    Case(
        "EunoeFenced", "4m", {"stage": "respond"},
        ({'eunoe_fenced_total{stage="respond"}': "0 0 5 5 5"},),
        ({'eunoe_fenced_total{stage="respond"}': "0 0 1 2 2"},),
    ),
    Case(
        "EunoeMemoryLate", "40m", {"stage": "update"},
        (freshness("0+5x40", "0+10x40"),), (freshness("0+10x40", "0+10x40"),),
    ),
    Case(
        "EunoeOldRecords", "9m", {"stage": "segment"},
        ({'eunoe_lag_seconds{stage="segment"}': "0 150x9"},),
        ({'eunoe_lag_seconds{stage="segment"}': "0 150 150 150 1 150x4"},),
    ),
    Case(
        "EunoeDoorNearsEnd", "9m", {},
        ({'eunoe_lag_seconds{stage="intake"}': "0 21700x9"},), ({'eunoe_lag_seconds{stage="segment"}': "0 21700x9"},),
    ),
    Case("EunoeModelFallsBack", "45m", {"stage": "update"}, (items("0+3x45", "0+7x45"),), (items("0+1x45", "0+9x45"),)),
    Case(
        "EunoeGatewayAbsent", "20m", {},
        ({"eunoe_gateway_streams": "3x5 stale"},), ({"eunoe_gateway_streams": "0x20"},),
    ),
    Case(
        "EunoeGatewayErrors", "20m", {},
        (requests("0+1x20", "0+10x20"), requests("0+1x20", "0x20")),
        (requests("0+1x20", "0+40x20"), requests("0 0 3x18", "0 0 4x18"), requests("0x20", "0x20")),
    ),
    Case(
        "EunoeErasuresWait", "80m", {},
        ({"eunoe_erasures_oldest_seconds": "0+60x80"},),
        ({"eunoe_erasures_oldest_seconds": "0+40x80"},),
    ),
)  # fmt: skip


def rules() -> dict[str, dict[str, Any]]:
    """The rules by alert."""
    groups = yaml.safe_load(RULES.read_text())["groups"]
    return {rule["alert"]: rule for group in groups for rule in group["rules"]}


def _told(rule: dict[str, Any], labels: dict[str, str]) -> dict[str, Any]:
    """The alert with its labels, and its texts with these filled in."""
    texts = {
        name: re.sub(r"\{\{ \$labels\.(\w+) \}\}", lambda found: labels[found[1]], text)
        for name, text in rule["annotations"].items()
    }
    return {"exp_labels": {**labels, **rule["labels"]}, "exp_annotations": texts}


def _tests(case: Case) -> list[dict[str, Any]]:
    alert = _told(rules()[case.alert], case.labels)
    tried = [(series, [alert]) for series in case.fires] + [(series, []) for series in case.silent]
    return [
        {
            "interval": "1m",
            "input_series": [{"series": name, "values": values} for name, values in series.items()],
            "alert_rule_test": [{"eval_time": case.after, "alertname": case.alert, "exp_alerts": expected}],
        }
        for series, expected in tried
    ]


def test_every_alert_has_a_case_on_which_it_fires_and_one_on_which_not() -> None:
    assert [case.alert for case in CASES] == list(rules())
    assert all(case.fires and case.silent for case in CASES)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.alert)
def test_an_alert_fires_on_what_it_is_for_and_on_nothing_else(case: Case, tmp_path: Path) -> None:
    assert PROMTOOL, "no promtool: `make test-alerts` fetches one"
    path = tmp_path / "cases.yaml"
    path.write_text(yaml.safe_dump({"rule_files": [str(RULES)], "evaluation_interval": "30s", "tests": _tests(case)}))
    done = subprocess.run([PROMTOOL, "test", "rules", path], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def _check(rules_file: Path) -> None:
    assert PROMTOOL, "no promtool: `make test-alerts` fetches one"
    command = [PROMTOOL, "check", "rules", rules_file]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_rules_are_ones_that_prometheus_takes() -> None:
    _check(RULES)


def test_the_expressions_of_the_dashboard_are_ones_that_prometheus_takes(tmp_path: Path) -> None:
    rules = [
        {"record": f"dashboard:{number}", "expr": expression.replace("$__rate_interval", "5m")}
        for number, expression in enumerate(expressions())
    ]
    path = tmp_path / "dashboard.yaml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": rules}]}))
    _check(path)
