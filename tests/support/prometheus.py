"""A Prometheus that scrapes workers and evaluates the shipped rules.

``python -m tests.support.prometheus`` fetches Debian's into ``.servers/prometheus`` where there is none on the path; it
needs no root. Exit code 69 means that it is not there and cannot be fetched.
"""

import json
import os
import shutil
import subprocess
import sys
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from eunoe.deploy.local.ports import free_port

ROOT: Final = Path(__file__).parents[2]
RULES: Final = ROOT / "deploy" / "observability" / "alerts.yaml"
FOLDER: Final = ROOT / ".servers" / "prometheus"
UNAVAILABLE: Final = 69


def program(name: str) -> str | None:
    """The path of ``prometheus`` or ``promtool``: the fetched one, else the machine's; `None` where there is none."""
    fetched = FOLDER / "usr" / "bin" / name
    return str(fetched) if os.access(fetched, os.X_OK) else shutil.which(name)


def fetch() -> None:
    """Download and unpack Debian's package; raises ``OSError`` and ``subprocess.SubprocessError``."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    subprocess.run(["apt-get", "download", "--quiet", "prometheus"], cwd=FOLDER, timeout=300, check=True)
    (package,) = FOLDER.glob("prometheus_*.deb")
    subprocess.run(["dpkg", "-x", package, FOLDER], timeout=60, check=True)
    package.unlink()


def main() -> int:
    """Fetch what is lacking; returns the exit code."""
    if program("prometheus") and program("promtool"):
        return 0
    try:
        fetch()
    except (OSError, subprocess.SubprocessError) as fault:
        sys.stderr.write(f"prometheus and promtool are not there, and Debian's package cannot be had: {fault}\n")
        return UNAVAILABLE
    return 0


@dataclass(frozen=True, slots=True)
class Prometheus:
    """A running server."""

    url: str

    def ask(self, path: str, **query: str) -> Any:
        """The ``data`` of an answer of its HTTP API; raises ``OSError`` where it does not answer."""
        with urllib.request.urlopen(f"{self.url}/api/v1/{path}?{urllib.parse.urlencode(query)}", timeout=10) as answer:
            return json.load(answer)["data"]

    def series(self, expression: str) -> list[dict[str, str]]:
        """The labels of each series that an expression gives now."""
        return [found["metric"] for found in self.ask("query", query=expression)["result"]]

    def healthy_targets(self) -> int:
        """The number of targets whose last scrape went well."""
        return sum(target["health"] == "up" for target in self.ask("targets")["activeTargets"])

    def alerts(self) -> list[tuple[str, str, Mapping[str, str]]]:
        """(alert, ``pending`` or ``firing``, labels) of all that are not silent."""
        return [
            (found["labels"]["alertname"], found["state"], found["labels"]) for found in self.ask("alerts")["alerts"]
        ]

    def ready(self) -> bool:
        """Whether it serves."""
        try:
            self.ask("targets")
        except OSError:
            return False
        return True


@contextmanager
def prometheus(directory: Path, targets: Sequence[str], every_s: float, rules: Path = RULES) -> Iterator[Prometheus]:
    """Scrapes ``targets`` (host:port) and evaluates ``rules`` at that interval; it may not serve yet."""
    binary = program("prometheus")
    assert binary, "no prometheus: `make test-alerts` fetches one"
    directory.mkdir(parents=True, exist_ok=True)
    port = free_port()
    config = {
        "global": {"scrape_interval": f"{every_s * 1000:.0f}ms", "evaluation_interval": f"{every_s * 1000:.0f}ms"},
        "rule_files": [str(rules)],
        "scrape_configs": [{"job_name": "eunoe", "static_configs": [{"targets": list(targets)}]}],
    }
    (directory / "prometheus.yml").write_text(yaml.safe_dump(config))
    command = [binary, f"--config.file={directory / 'prometheus.yml'}", f"--storage.tsdb.path={directory / 'data'}"]
    command += [f"--web.listen-address=127.0.0.1:{port}", "--log.level=warn"]
    with (directory / "prometheus.log").open("wb") as log, subprocess.Popen(command, stdout=log, stderr=log) as process:
        try:
            yield Prometheus(f"http://127.0.0.1:{port}")
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()


if __name__ == "__main__":
    sys.exit(main())
