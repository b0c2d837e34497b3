"""Each alert leads to its page of the runbook, and each page is that of an alert."""

import re
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[3]
RULES = yaml.safe_load((ROOT / "deploy" / "observability" / "alerts.yaml").read_text())
ALERTS = {rule["alert"]: rule for group in RULES["groups"] for rule in group["rules"]}
RUNBOOK = ROOT / "deploy" / "docs" / "runbook.md"
PAGES = dict(re.findall(r"^## (Eunoe\w+)\n(.*?)(?=^## |\Z)", RUNBOOK.read_text(), re.MULTILINE | re.DOTALL))


def test_every_alert_has_a_page_and_every_page_an_alert() -> None:
    assert PAGES.keys() == ALERTS.keys()


@pytest.mark.parametrize("alert", ALERTS)
def test_an_alert_leads_to_its_page(alert: str) -> None:
    path, _, anchor = ALERTS[alert]["annotations"]["runbook_url"].partition("#")
    assert ROOT / path == RUNBOOK
    assert anchor == alert.lower()


@pytest.mark.parametrize("alert", PAGES)
def test_a_page_says_what_it_means_how_to_look_and_what_to_do(alert: str) -> None:
    parts = re.findall(r"^\*\*(\w+)\.\*\* (\S.*)$", PAGES[alert], re.MULTILINE)
    assert [name for name, _ in parts] == ["Means", "Look", "Do"]
