"""Writes the derived parts of files that people write: ``python -m tests.support.derived.files [CHECKOUT]``."""

import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from tests.support.derived.chart import CHART_FILES
from tests.support.derived.dashboard import with_dashboard
from tests.support.derived.settings_page import with_tables
from tests.support.derived.stages import with_absent_alert, with_compose_services, with_stage_tables

DERIVED: Mapping[str, Callable[[str], str]] = {
    "deploy/compose.yaml": with_compose_services,
    "deploy/observability/alerts.yaml": with_absent_alert,
    "deploy/docs/architecture.md": with_stage_tables,
    "deploy/docs/settings.md": with_tables,
    "deploy/observability/dashboard.json": with_dashboard,
    **CHART_FILES,  # copies of some of those above
}
"""File of a checkout → what brings its derived parts up to date."""


def write_derived(checkout: Path) -> list[Path]:
    """Bring the files up to date; returns those that changed. Raises ``OSError``, ``ValueError`` for a missing mark."""
    changed = []
    for name, update in DERIVED.items():
        path = checkout / name
        before = path.read_text()
        after = update(before)
        if after != before:
            path.write_text(after)
            changed.append(path)
    return changed


if __name__ == "__main__":
    for written in write_derived(Path(sys.argv[1] if len(sys.argv) > 1 else ".")):
        sys.stdout.write(f"wrote {written}\n")
