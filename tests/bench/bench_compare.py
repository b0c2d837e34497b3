"""Runs the pipeline benchmark of this checkout and of another revision in turn and compares the figures.

    make bench-compare BASE=REVISION

On a busy machine single runs vary widely. Compare the ratios of adjacent runs, and counts (processor seconds, Redis
commands) rather than times. The digests differ where the revisions decide differently.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

FOLDERS = ("schemas", "streams", "workers", "deploy")
NAMES = (
    "sessions_per_s", "utterances_per_s", "session_latency_s_p50", "cpu_s_per_session", "redis_commands_per_session",
    "qdrant_requests_per_session", "model_calls_per_session", "prompt_tokens_per_session", "event_loop_lag_ms_p99",
    "event_loop_busy_ms_longest",
)  # fmt: skip


def git(*words: str) -> str:
    """The output of a git command; raises ``SystemExit`` with its error message."""
    done = subprocess.run(("git", *words), capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"git {' '.join(words)}: {done.stderr.strip()}")
    return done.stdout.strip()


def laid_out(checkout: Path, directory: Path) -> str:
    """Link the code of a checkout as ``eunoe`` and its ``tests`` into a directory; returns it for PYTHONPATH."""
    package = directory / "eunoe"
    package.mkdir(parents=True)
    (directory / "tests").symlink_to(checkout / "tests")
    for name in FOLDERS:
        (package / name).symlink_to(checkout / name)
    return str(directory)


def benchmarks(path: Path) -> tuple[str, ...]:
    """The module and arguments of the benchmarks at ``path``; raises ``SystemExit`` where there are none."""
    if (path / "tests/bench/pipeline.py").exists():
        return ("tests.bench",)
    if (path / "eunoe/deploy/bench/pipeline.py").exists():  # before they left the command
        return ("eunoe.deploy.cli", "bench")
    raise SystemExit("the revision has no benchmark of the pipeline: choose a later one")


def measure(path: str, words: Sequence[str], directory: Path, timeout_s: float) -> dict[str, Any]:
    """The figures of one benchmark run of the code at ``path``; raises ``SystemExit`` where it fails."""
    command = (sys.executable, "-m", *benchmarks(Path(path)), "pipeline", "--json", "--no-compare", *words)
    variables = {**os.environ, "PYTHONPATH": path}
    done = subprocess.run(command, cwd=directory, env=variables, capture_output=True, timeout=timeout_s, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}:\n{done.stderr.decode()[-2000:]}")
    figures: dict[str, Any] = json.loads(done.stdout)
    return figures


def compare(base: Sequence[Mapping[str, Any]], head: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Figure → medians of both, and the ratios here ÷ base of the rounds: median, least, most."""
    found: dict[str, Any] = {}
    for name in NAMES:
        if name not in base[0] or name not in head[0]:
            continue
        ratios = [there[name] and here[name] / there[name] for here, there in zip(head, base, strict=True)]
        found[name] = {
            "base": statistics.median(figures[name] for figures in base),
            "here": statistics.median(figures[name] for figures in head),
            "ratio": round(statistics.median(ratios), 3),
            "least": round(min(ratios), 3),
            "most": round(max(ratios), 3),
        }
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("base", help="the revision to compare with")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--timeout", type=float, default=1800, help="seconds that one run may take")
    parser.add_argument("--json", action="store_true")
    asked, words = parser.parse_known_args()
    root = Path(git("rev-parse", "--show-toplevel"))
    revision = git("rev-parse", "--verify", f"{asked.base}^{{commit}}")
    with tempfile.TemporaryDirectory(prefix="eunoe-compare-") as directory:
        there = Path(directory) / "base"
        git("worktree", "add", "--detach", str(there), revision)
        try:
            paths = {"base": laid_out(there, Path(directory) / "a"), "head": laid_out(root, Path(directory) / "b")}
            runs: dict[str, list[dict[str, Any]]] = {"base": [], "head": []}
            for number in range(1, asked.rounds + 1):
                for name in ("base", "head") if number % 2 else ("head", "base"):
                    runs[name].append(measure(paths[name], words, Path(directory), asked.timeout))
                    sys.stderr.write(f"round {number}, {name}: {runs[name][-1]['sessions_per_s']} sessions/s\n")
        finally:
            git("worktree", "remove", "--force", str(there))
    _show(compare(runs["base"], runs["head"]), runs, as_json=asked.json)


def _show(found: Mapping[str, Any], runs: Mapping[str, list[dict[str, Any]]], *, as_json: bool) -> None:
    same = {figures["digest"] for part in runs.values() for figures in part}
    if as_json:
        print(json.dumps({"figures": found, "same_digest": len(same) == 1}))
        return
    table = Table("figure", "base", "here", "ratio", "least", "most")
    for name, row in found.items():
        table.add_row(name, *map(str, row.values()))
    Console().print(table)
    Console().print(
        "the digests are equal" if len(same) == 1 else "the digests differ: the revisions decide differently"
    )


if __name__ == "__main__":
    main()
