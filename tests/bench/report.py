"""Reports of benchmarks: JSON for scripts, Markdown for people, and a plot where matplotlib is installed."""

import os
import platform
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import orjson
import psutil

Figures = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Series:
    """A line of a plot."""

    label: str
    x: Sequence[float]
    y: Sequence[float]


LOGARITHMIC_FROM = 20
"""The last x by the first one from which the axis is logarithmic."""


@dataclass(frozen=True, slots=True)
class Plot:
    """Lines over an x axis that is logarithmic where it spans much."""

    title: str
    x: str
    y: str
    series: Sequence[Series]

    @property
    def scale(self) -> str:
        """The scale of the x axis, as matplotlib names it."""
        values = [value for one in self.series for value in one.x]
        return "log" if values and max(values) >= LOGARITHMIC_FROM * min(values) > 0 else "linear"


def surroundings() -> dict[str, Any]:
    """The time, version, machine and settings of a measurement."""
    return {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "version": version("eunoe") if _is_installed() else None,
        "commit": _commit(),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memory_gb": round(psutil.virtual_memory().total / 2**30, 1),
        "load_1min": round(os.getloadavg()[0], 2),
        "variables": {name: value for name, value in sorted(os.environ.items()) if _is_public(name)},
    }


def write_report(directory: Path, name: str, settings: Figures, figures: Figures, *plots: Plot) -> Path:
    """Write ``<name>.json``, ``<name>.md`` and, where they can be drawn, the plots; returns the Markdown's path.

    All plots are in ``<name>.png``, below each other.
    """
    directory.mkdir(parents=True, exist_ok=True)
    document = {"benchmark": name, "surroundings": surroundings(), "settings": settings, "figures": figures}
    options = orjson.OPT_INDENT_2 | orjson.OPT_NON_STR_KEYS
    (directory / f"{name}.json").write_bytes(orjson.dumps(document, option=options, default=str))
    drawn = bool(plots) and draw(plots, directory / f"{name}.png")
    path = directory / f"{name}.md"
    path.write_text(as_markdown(document, f"{name}.png" if drawn else None))
    return path


def as_markdown(document: Figures, picture: str | None) -> str:
    """A report as Markdown headings and tables."""
    where = document["surroundings"]
    lines = [f"# {document['benchmark']}", ""]
    lines.append(
        f"{where['at']}, commit {where['commit'] or 'unknown'}, Python {where['python']} on {where['system']},"
        f" {where['cores']} cores ({where['processor']}), {where['memory_gb']} GB, load {where['load_1min']}."
    )
    lines += ["", f"Settings: `{orjson.dumps(document['settings'], default=str).decode()}`", ""]
    if picture:
        lines += [f"![]({picture})", ""]
    lines += tables(document["figures"])
    return "\n".join(lines) + "\n"


def tables(figures: Figures) -> list[str]:
    """Single figures as one table, each table of figures as a table of its own."""
    flat = {name: value for name, value in figures.items() if not isinstance(value, Mapping | list)}
    rows = [f"| {name} | {value} |" for name, value in flat.items()]
    lines = ["| figure | value |", "|---|---|", *rows, ""] if rows else []
    for name, value in figures.items():
        if isinstance(value, Mapping | list) and value:
            lines += [f"## {name}", "", *_table(value), ""]
    return lines


def _table(value: Mapping[str, Any] | Sequence[Any]) -> list[str]:
    heads, rows = grid(value)
    lines = ["| | " + " | ".join(heads) + " |", "|---" * (len(heads) + 1) + "|"]
    return lines + [f"| {name} | " + " | ".join(cells) + " |" for name, cells in rows.items()]


def grid(value: Mapping[str, Any] | Sequence[Any]) -> tuple[list[str], dict[str, list[str]]]:
    """(heads, row → cells) of a table of figures; a row with a single figure has it in the first column."""
    rows = value if isinstance(value, Mapping) else {str(place): row for place, row in enumerate(value, 1)}
    heads = list(dict.fromkeys(head for row in rows.values() if isinstance(row, Mapping) for head in row)) or ["value"]
    return heads, {name: _cells(row, heads) for name, row in rows.items()}


def _cells(row: object, heads: Sequence[str]) -> list[str]:
    if isinstance(row, Mapping):
        return [str(row.get(head, "")) for head in heads]
    return [str(row), *[""] * (len(heads) - 1)]


def draw(plots: Sequence[Plot], path: Path) -> bool:
    """Draw plots below each other; returns whether matplotlib is installed."""
    try:
        from matplotlib.figure import Figure  # noqa: PLC0415 - an extra
    except ImportError:
        return False
    figure = Figure(figsize=(8, 5 * len(plots)), layout="constrained")
    for plot, (axes,) in zip(plots, figure.subplots(len(plots), 1, squeeze=False), strict=True):
        for series in plot.series:
            axes.plot(series.x, series.y, marker="o", markersize=3, label=series.label)
        axes.set(title=plot.title, xlabel=plot.x, ylabel=plot.y, xscale=plot.scale)
        axes.set_ylim(bottom=0)
        axes.grid(visible=True, alpha=0.3)
        axes.legend(fontsize=8)
    figure.savefig(path, dpi=120)
    return True


def _is_installed() -> bool:
    try:
        version("eunoe")
    except Exception:
        return False
    return True


def _commit() -> str | None:
    """The commit of the running checkout, with ``-dirty`` where files differ from it."""
    here = Path(__file__).resolve().parent
    command = ["git", "-C", str(here), "describe", "--always", "--dirty", "--abbrev=10", "--exclude=*"]
    try:
        found = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return found.stdout.strip() or None


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or "unknown"
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown")


def _is_public(name: str) -> bool:
    return name.startswith("EUNOE_") and not any(part in name for part in ("KEY", "PASSWORD", "URL", "USERNAME"))
