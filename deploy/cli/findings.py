"""Findings of the doctor on a terminal."""

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from eunoe.deploy.cli.output import console
from eunoe.deploy.doctor.findings import CheckResult, Level

STYLES = {
    Level.OK: "green",
    Level.NOTE: "cyan",
    Level.WARNING: "yellow",
    Level.AWAY: "red",
    Level.FAULT: "red",
}


def to_set(found: Sequence[CheckResult]) -> dict[str, str]:
    """All settings that the findings name."""
    return {name: value for finding in found for name, value in finding.settings.items()}


def print_findings(found: Sequence[CheckResult], out: Console = console) -> None:
    """Print one line a finding, and then the settings to set."""
    for finding in found:
        line = Text(f"{finding.part:>10}  ")
        line.append(f"{finding.level.value:<8}", style=STYLES[finding.level])
        line.append(finding.text)
        out.print(line, soft_wrap=True)
    if settings := to_set(found):
        out.print("set:", highlight=False)
        for name, value in settings.items():
            out.print(f"  {name}={value}", markup=False, highlight=False, soft_wrap=True)
