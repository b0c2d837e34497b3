"""A running embedded stack for tests; import the fixture where it is used."""

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from eunoe.deploy.local.stack import LocalStack


@pytest.fixture
async def stack() -> AsyncIterator[LocalStack]:
    """A throw-away stack of this test alone."""
    async with LocalStack(None) as running:
        yield running


def alive(pid: int) -> bool:
    """True: the process runs (one that ended and waits to be collected does not)."""
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False
