"""Findings of the doctor: levels, texts, settings to set."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from eunoe.deploy.exits import Exit
from eunoe.schemas.errors import Refused, Unavailable

ReportStep = Callable[[str, int, int, str], None]
"""Called with a part, the steps done, the steps in all (0: not known yet) and the name of the present step."""


class Level(StrEnum):
    """Weights of a finding, the lightest first."""

    OK = "ok"
    NOTE = "note"
    """Worth knowing; nothing to do."""
    WARNING = "warning"
    """Works, but loses something or is slow."""
    AWAY = "away"
    """No answer."""
    FAULT = "fault"
    """Does not work until somebody acts."""


@dataclass(frozen=True, slots=True)
class CheckResult:
    """One finding: a fact about one part."""

    part: str
    """The part that was checked, one of `eunoe.deploy.doctor.checks.PARTS`."""
    level: Level
    text: str
    settings: Mapping[str, str] = field(default_factory=dict)
    """Environment variables to set, with their values."""


def _ignore_step(text: str) -> None:
    """Show nothing."""


@dataclass(slots=True)
class Findings:
    """Collects the findings of one part; what was found before a time limit is kept."""

    part: str
    found: list[CheckResult] = field(default_factory=list)
    step: Callable[[str], None] = _ignore_step
    """Called with the name of each step, before it begins."""

    def add(self, level: Level, text: str, settings: Mapping[str, str] | None = None) -> None:
        """Add a finding."""
        self.found.append(CheckResult(self.part, level, text, settings or {}))

    def ok(self, text: str) -> None:
        """Add a fact that is as it should be."""
        self.add(Level.OK, text)

    def note(self, text: str, settings: Mapping[str, str] | None = None) -> None:
        """Add a fact worth knowing."""
        self.add(Level.NOTE, text, settings)

    def warn(self, text: str, settings: Mapping[str, str] | None = None) -> None:
        """Add a weakness."""
        self.add(Level.WARNING, text, settings)

    def fault(self, text: str, settings: Mapping[str, str] | None = None) -> None:
        """Add a fault."""
        self.add(Level.FAULT, text, settings)


@dataclass(frozen=True, slots=True)
class Check:
    """The check of one part, with its time limit in seconds."""

    part: str
    run: Callable[[Findings], Awaitable[None]]
    limit_s: float


async def run_checks(checks: Sequence[Check], report: ReportStep) -> list[CheckResult]:
    """Run all checks at once, each within its limit; returns the findings in the order of the checks."""
    parts = await asyncio.gather(*(_run(check, report) for check in checks))
    return [finding for found in parts for finding in found]


async def _run(check: Check, report: ReportStep) -> list[CheckResult]:
    steps = 0

    def show(text: str) -> None:
        nonlocal steps
        report(check.part, steps, 0, text)
        steps += 1

    findings = Findings(check.part, step=show)
    show("connecting")
    try:
        async with asyncio.timeout(check.limit_s):
            await check.run(findings)
    except TimeoutError:
        findings.add(Level.AWAY, f"the check did not finish within {check.limit_s:g} s")
    except Refused as fault:  # also of an endpoint that refuses the key: it is Unavailable, too
        findings.fault(str(fault))
    except Unavailable as fault:
        findings.add(Level.AWAY, str(fault))
    report(check.part, steps, steps, "done")
    return findings.found


def exit_of(findings: Iterable[CheckResult]) -> Exit:
    """`Exit.FAILED` with a fault, else `Exit.UNAVAILABLE` where something did not answer, else `Exit.OK`."""
    levels = {finding.level for finding in findings}
    if Level.FAULT in levels:
        return Exit.FAILED
    return Exit.UNAVAILABLE if Level.AWAY in levels else Exit.OK
