"""Benchmarks eunoe and mem0 in turn, on the same conversations and the same stub of a model.

    make bench-peers PEERS=FOLDER

FOLDER holds ``stub_llm.py`` (an OpenAI-compatible server that answers by schema after a delay) and ``peer_mem0.py``,
which prints one JSON object. mem0 is installed in a virtual environment of its own (``--peer-python``). Its vectors
stand in the Qdrant server that `eunoe up` starts: its embedded one is not safe for threads, and fails most runs.
"""

import argparse
import asyncio
import json
import os
import statistics
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from eunoe.deploy.local.ports import HOST, free_port
from eunoe.deploy.local.servers import Server, ServerProcess, qdrant
from tests.bench.report import write_report

ROWS = {
    "sessions/s": ("sessions_per_s", "sessions_per_s"),
    "model calls per session": ("model_calls_per_session", "chat_calls_per_session"),
    "correcting retries per session": ("correcting_retries_per_session", None),
    "prompt tokens per session": ("prompt_tokens_per_session", "prompt_tokens_per_session"),
    "in flight, peak": ("in_flight_peak", "peak_in_flight"),
}
"""Label → name in the figures of eunoe, name in those of mem0."""


PEER_TRIES = 20


async def run(command: Sequence[str], timeout_s: float, variables: Mapping[str, str] = os.environ) -> dict[str, Any]:
    """The last line of a command's output as JSON; raises ``SystemExit`` with the end of its errors where it fails."""
    process = await asyncio.create_subprocess_exec(
        *command, env=dict(variables), stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    try:
        out, err = await asyncio.wait_for(process.communicate(), timeout_s)
    except TimeoutError:
        process.kill()
        raise SystemExit(f"{' '.join(command)}: not done after {timeout_s:.0f} s") from None
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {process.returncode}:\n{err.decode()[-2000:]}")
    found: dict[str, Any] = json.loads(out.decode().strip().splitlines()[-1])
    return found


async def run_peer(command: Sequence[str], timeout_s: float) -> dict[str, Any]:
    """As `run`, for mem0, some of whose runs fail by races; retries and adds the number of failures."""
    its_own = {name: text for name, text in os.environ.items() if not name.startswith("PYTHON")}
    for failures in range(PEER_TRIES):
        try:
            return {**await run(command, timeout_s, its_own), "failed_runs": failures}
        except SystemExit as fault:
            sys.stderr.write(f"mem0 failed: {str(fault).strip().splitlines()[-1]}\n")
    raise SystemExit(f"mem0 failed {PEER_TRIES} times: there are no figures to compare")


def ours(base: str, asked: argparse.Namespace, reports: Path) -> list[str]:
    """The benchmark command of eunoe."""
    return [
        sys.executable, "-m", "tests.bench", "pipeline", "--json", "--base-url", f"{base}/v1",
        "--conversations", str(asked.conversations), "--sessions", str(asked.sessions), "--turns", str(asked.turns),
        "--talk", "topics", "--reports", str(reports), "--no-compare", "--workers", str(asked.workers),
    ]  # fmt: skip


def theirs(base: str, asked: argparse.Namespace, qdrant_port: int) -> list[str]:
    """The benchmark command of mem0."""
    return [
        str(asked.peer_python), str(asked.peers / "peer_mem0.py"), "--base", base,
        "--conversations", str(asked.conversations), "--sessions", str(asked.sessions), "--turns", str(asked.turns),
        "--qdrant", f"{HOST}:{qdrant_port}",
    ]  # fmt: skip


@asynccontextmanager
async def running(server: Server) -> AsyncIterator[Server]:
    """The server, started, and stopped at the end; raises `Unavailable` where it does not start."""
    process = ServerProcess(server)
    await process.start()
    try:
        yield server
    finally:
        await process.stop()


async def alternate(asked: argparse.Namespace) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """(figures of eunoe, figures of mem0), by round."""
    port = free_port()
    base = f"http://{HOST}:{port}"
    hello = f"GET /stats HTTP/1.1\r\nHost: {HOST}\r\nConnection: close\r\n\r\n".encode()
    command = (sys.executable, str(asked.peers / "stub_llm.py"), "--port", str(port), "--delay", str(asked.delay))
    us: list[dict[str, Any]] = []
    them: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as directory:
        logs = Path(directory)
        stub = Server("stub", port, command, logs / "stub.log", hello, lambda answer: b" 200 " in answer[:16])
        async with running(stub):
            for number in range(1, asked.rounds + 1):
                async with running(qdrant(free_port(), logs / f"qdrant-{number}", logs)) as vectors:
                    them.append(await run_peer(theirs(base, asked, vectors.port), asked.timeout))
                us.append(await run(ours(base, asked, logs), asked.timeout))
                sys.stderr.write(
                    f"round {number}: eunoe {us[-1]['sessions_per_s']}/s, mem0 {them[-1]['sessions_per_s']}/s\n"
                )
    return us, them


def summary(us: Sequence[dict[str, Any]], them: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Label → medians of both; and the ratios of sessions/s over the rounds."""
    rows = {
        name: {
            "eunoe": statistics.median(figures[mine] for figures in us),
            "mem0": None if theirs_ is None else statistics.median(figures[theirs_] for figures in them),
        }
        for name, (mine, theirs_) in ROWS.items()
    }
    ratios = [a["sessions_per_s"] / b["sessions_per_s"] for a, b in zip(us, them, strict=True)]
    spread = {"median": statistics.median(ratios), "least": min(ratios), "most": max(ratios)}
    rows["runs that failed"] = {"eunoe": 0, "mem0": sum(figures.get("failed_runs", 0) for figures in them)}
    return {"rows": rows, "ratio of sessions/s": {name: round(value, 3) for name, value in spread.items()}}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", type=Path, required=True, help="the folder of stub_llm.py and peer_mem0.py")
    parser.add_argument("--peer-python", type=Path, required=True, help="the Python that has mem0ai")
    parser.add_argument("--conversations", type=int, default=20)
    parser.add_argument("--sessions", type=int, default=20)
    parser.add_argument("--turns", type=int, default=10)
    parser.add_argument("--delay", type=float, default=0.2)
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="our worker processes")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--timeout", type=float, default=1800, help="seconds that one run may take")
    parser.add_argument("--reports", type=Path, default=Path("reports"))
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    us, them = asyncio.run(alternate(asked))
    figures = summary(us, them)
    write_report(asked.reports, "peers", vars(asked), {**figures, "eunoe": us, "mem0": them})
    if asked.json:
        print(json.dumps(figures))
        return
    table = Table("figure", "eunoe", "mem0", title=f"medians of {asked.rounds} rounds")
    for name, row in figures["rows"].items():
        table.add_row(name, str(row["eunoe"]), "–" if row["mem0"] is None else str(row["mem0"]))
    Console().print(table)
    Console().print("ratio of sessions/s:", figures["ratio of sessions/s"])


if __name__ == "__main__":
    main()
