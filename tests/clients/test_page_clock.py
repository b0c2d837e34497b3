"""The time that the page sends with a question: by the clock of the browser."""

import os
import subprocess
from pathlib import Path

import pytest

pytestmark = [pytest.mark.needs("node")]

CLOCK = Path(__file__).parents[2] / "deploy" / "gateway" / "page" / "clock.js"


@pytest.mark.parametrize(
    ("zone", "told"),
    [
        ("America/Los_Angeles", "2026-06-01T20:00:00.000-07:00"),
        ("Asia/Kolkata", "2026-06-02T08:30:00.000+05:30"),
        ("America/St_Johns", "2026-06-02T00:30:00.000-02:30"),
        ("UTC", "2026-06-02T03:00:00.000+00:00"),
    ],
)
def test_a_question_has_the_time_of_the_browsers_clock(zone: str, told: str, tmp_path: Path) -> None:
    module = tmp_path / "clock.mjs"
    module.write_bytes(CLOCK.read_bytes())
    script = f"import {{ byOwnClock }} from {str(module)!r}; console.log(byOwnClock(new Date('2026-06-02T03:00:00Z')))"
    done = subprocess.run(
        ["node", "--input-type=module", "-e", script],
        env={**os.environ, "TZ": zone}, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.stdout.strip() == told, done.stderr
