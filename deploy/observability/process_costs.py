"""Processor time and memory of a process and of all that it started, from ``/proc`` (Linux; elsewhere nothing)."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_PROC: Final = Path("/proc")
_MEGABYTE: Final = 2**20


@dataclass(frozen=True, slots=True)
class ProcessSample:
    """Processor time and memory of one process."""

    pid: int
    command: str
    cpu_s: float
    """Processor seconds since its start, of all threads."""
    pss_mb: float
    """Memory now; a page that several processes map counts for each by its share. 0 for a process of another user."""


_NAMES: Final = (
    ("tansu", "broker"),
    ("local.qdrant", "Qdrant"),
    ("valkey", "Valkey"),
    ("worker replies", "worker replies"),
    ("worker memory", "worker memory"),
    ("cli gateway", "gateway"),
    ("eunoe gateway", "gateway"),
    ("fork server", "fork server"),
    (" up ", "eunoe up"),
    (" soak ", "load and journal"),
)
"""Part of a command line → name of the process."""


def process_name(command: str) -> str:
    """The name of a process of the embedded stack, by its command line; of any other the begin of that."""
    return next((name for part, name in _NAMES if part in f"{command} "), command[:60])


def sample_tree(pid: int) -> list[ProcessSample]:
    """The process and all its descendants, the process first; without those that end meanwhile."""
    return [sample for one in _tree(pid) if (sample := _sample(one)) is not None]


def _tree(pid: int) -> Iterator[int]:
    yield pid
    for thread in _listed(_PROC / str(pid) / "task"):
        for child in _read(thread / "children").split():
            yield from _tree(int(child))


def _listed(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError:
        return []


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


def _sample(pid: int) -> ProcessSample | None:
    folder = _PROC / str(pid)
    fields = _read(folder / "stat").rpartition(")")[2].split()
    if len(fields) < 13:
        return None
    ticks = int(fields[11]) + int(fields[12])
    command = _read(folder / "cmdline").replace("\0", " ").strip()
    lines = _read(folder / "smaps_rollup").splitlines()
    pss_kb = next((int(line.split()[1]) for line in lines if line.startswith("Pss:")), 0)
    return ProcessSample(pid, command, ticks / os.sysconf("SC_CLK_TCK"), pss_kb * 1024 / _MEGABYTE)
