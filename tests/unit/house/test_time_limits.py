"""The time limit of a test holds wherever the test stands when it is over."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
WAITING = """
import asyncio
import pytest

async def compute():
    while True:
        sum(range(100_000))
        await asyncio.sleep(0)

@pytest.mark.timeout(0.5)
def test_that_waits_for_ever():
    async def wait():
        computing = asyncio.create_task(compute())
        await asyncio.Event().wait()

    asyncio.run(wait())
"""


def test_a_limit_that_ends_a_task_of_the_test_ends_the_test_too(tmp_path: Path) -> None:
    (tmp_path / "test_waiting.py").write_text(WAITING)
    plugins = ["-p", "pytest_timeout", "-p", "tests.support.time_limits", "-p", "no:cacheprovider"]
    words = (*plugins, "-c", os.devnull, "--rootdir", str(tmp_path))
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *words, "test_waiting.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},  # imports take longer
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == pytest.ExitCode.TESTS_FAILED, done.stdout
    assert "1 failed" in done.stdout
    assert "Timeout (>0.5s) from pytest-timeout" in done.stdout
