"""Commands of `eunoe` as processes of their own, and what they took."""

import asyncio
import os
import sys
from dataclasses import dataclass, field
from typing import Any

import orjson
import psutil

from tests.bench.checks import WrongResult
from tests.bench.counters import cpu_seconds, rss_mb
from tests.bench.rig import SAMPLE_S, Rig


@dataclass(slots=True)
class Spent:
    """Processor seconds and memory of the processes of a command."""

    cpu_s: dict[str, dict[int, float]] = field(default_factory=dict)
    """Role → process id → processor seconds, as last seen."""
    rss_mb: dict[str, float] = field(default_factory=dict)
    """Role → peak of its largest process."""

    def look(self, pid: int) -> None:
        """Read the counters of a process and of its children."""
        try:
            processes = [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]
        except psutil.NoSuchProcess:
            return
        for process in processes:
            role = "command" if process.pid == pid else "share"
            self.cpu_s.setdefault(role, {})[process.pid] = cpu_seconds(process.pid)
            self.rss_mb[role] = max(self.rss_mb.get(role, 0.0), rss_mb(process.pid))

    def cpu_of(self, role: str) -> float:
        """Processor seconds of all processes of a role."""
        return sum(self.cpu_s.get(role, {}).values())


async def run_eunoe(rig: Rig, *words: str, spent: Spent | None = None) -> dict[str, Any]:
    """The JSON that a command prints; raises `WrongResult` where it fails."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "eunoe.deploy.cli", *words, "--json"),
        cwd=rig.directory,
        env={**os.environ, **rig.variables},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    ended = asyncio.create_task(process.communicate())
    while not ended.done():
        if spent is not None:
            spent.look(process.pid)
        await asyncio.wait({ended}, timeout=SAMPLE_S)
    out, errors = ended.result()
    if process.returncode:
        raise WrongResult(
            f"eunoe {' '.join(words)} ended with {process.returncode}: {(errors or out).decode()[-2000:]}"
        )
    document: dict[str, Any] = orjson.loads(out)
    return document
