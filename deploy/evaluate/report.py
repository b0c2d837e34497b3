"""Reports of evaluations: JSON for scripts, Markdown for people, a plot; with versions, settings and data hashes."""

import hashlib
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import orjson

from eunoe.deploy.evaluate.extras import extra
from eunoe.schemas.errors import Refused

Row = Mapping[str, Any]

OFFLINE = "offline"
"""Stands for the model's name where the offline implementations decide."""


@dataclass(frozen=True, slots=True)
class BarChart:
    """A plot of grouped bars; of lines where all groups are numbers."""

    title: str
    unit: str
    groups: tuple[str, ...]
    series: Mapping[str, Sequence[float]]
    """Name → a value for each group."""


@dataclass(frozen=True, slots=True)
class EvalReport:
    """The rows of an evaluation, with its settings, models and data."""

    name: str
    """Name of the command, for instance ``retrieval``."""
    rows: Sequence[Row]
    settings: Mapping[str, Any]
    models: Mapping[str, str]
    """Role → name of the model; ``offline`` where no language model was called."""
    data: Mapping[str, str]
    """File name → SHA-256 of its content."""
    bars: BarChart
    notes: tuple[str, ...] = ()
    details: tuple[str, ...] = ()
    """Paragraphs below the table in the Markdown."""
    about: Mapping[str, Any] = field(default_factory=dict)
    """Further entries of the JSON: prompts, costs."""


def check_folder(folder: Path | None) -> None:
    """Check before a long run that a report can be written; raises `Refused` where it cannot."""
    if folder is None:
        return
    extra("matplotlib")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Refused(f"{folder}: cannot be created for reports: {error.strerror}") from None


def hashes(*paths: Path) -> dict[str, str]:
    """File name → SHA-256 of its content; raises `Refused` for a file that cannot be read."""
    found = {}
    for path in paths:
        try:
            found[path.name] = hashlib.sha256(path.read_bytes()).hexdigest()
        except OSError as error:
            raise Refused(f"{path}: cannot be read: {error.strerror}") from None
    return found


def code_version() -> str:
    """The commit of the checkout that runs, else the version of the package."""
    git = Path(__file__).resolve().parents[2] / ".git"
    head = _read(git / "HEAD")
    if head.startswith("ref: "):
        ref = head.removeprefix("ref: ")
        head = _read(git / ref) or _packed(_read(git / "packed-refs"), ref)
    if head:
        return head
    try:
        return version("eunoe")
    except PackageNotFoundError:
        return "unknown"


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8").strip() if path.is_file() else ""


def _packed(text: str, ref: str) -> str:
    return next((line.partition(" ")[0] for line in text.splitlines() if line.endswith(f" {ref}")), "")


def write_report(folder: Path, report: EvalReport) -> list[Path]:
    """Write NAME.json, NAME.md and NAME.png into a folder; returns their paths."""
    head = {
        "name": report.name,
        "code": code_version(),
        "made": datetime.now(UTC).isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "models": dict(report.models),
        "data": dict(report.data),
        "settings": dict(report.settings),
    }
    paths = [folder / f"{report.name}.{kind}" for kind in ("json", "md", "png")]
    body = {**head, "notes": report.notes, "rows": [dict(row) for row in report.rows], **report.about}
    paths[0].write_bytes(orjson.dumps(body, option=orjson.OPT_INDENT_2 | orjson.OPT_NON_STR_KEYS))
    paths[1].write_text(_markdown(head, report), encoding="utf-8")
    draw(report.bars, paths[2])
    return paths


def _markdown(head: Mapping[str, Any], report: EvalReport) -> str:
    lines = [f"# eunoe eval {report.name}", ""]
    lines += [f"- {key}: {_field(value)}" for key, value in head.items() if key != "name"]
    lines += ["", *(f"{note}\n" for note in report.notes), f"![{report.bars.title}]({report.name}.png)", ""]
    if report.rows:
        fields = filled_columns(report.rows)
        lines += [f"| {' | '.join(fields)} |", f"|{'---|' * len(fields)}"]
        lines += [f"| {' | '.join(_cell(row.get(name)) for name in fields)} |" for row in report.rows]
    lines += [line for detail in report.details for line in ("", detail)]
    return "\n".join(lines) + "\n"


def _field(value: object) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key} = {_field(one)}" for key, one in value.items()) or "–"
    return _cell(value)


def _cell(value: object) -> str:
    if value is None:
        return "–"
    if isinstance(value, list | tuple):
        return " / ".join(map(_cell, value))
    text = _number(value) if isinstance(value, float) else str(value)
    return text.replace("|", "\\|").replace("\n", " ")


def _number(value: float) -> str:
    """A number with three decimals; a smaller one with two significant digits."""
    return f"{value:.2g}" if 0 < abs(value) < 0.0095 else f"{value:.3f}".rstrip("0").rstrip(".")


def filled_columns(rows: Sequence[Row]) -> list[str]:
    """The names of the columns that have a value in any row."""
    return [name for name in (rows[0] if rows else ()) if any(row.get(name) is not None for row in rows)]


def draw(bars: BarChart, path: Path) -> None:
    """Draw a plot as PNG."""
    extra("matplotlib").use("Agg")
    plt = extra("matplotlib.pyplot")
    is_lines = len(bars.groups) > 1 and all(group.isdecimal() for group in bars.groups)
    height = 5.0 if is_lines else max(5.0, 1.5 + 0.12 * len(bars.groups) * (len(bars.series) + 1))
    figure, axes = plt.subplots(figsize=(9, height), dpi=120, layout="constrained")
    if is_lines:
        for name, values in bars.series.items():
            axes.plot(bars.groups, values, marker="o", label=name)
    else:
        _draw_bars(axes, bars)
    (axes.set_ylabel if is_lines else axes.set_xlabel)(bars.unit)
    axes.set_title(bars.title)
    axes.legend(fontsize=7, ncols=2)
    figure.savefig(path)
    plt.close(figure)


def _draw_bars(axes: Any, bars: BarChart) -> None:  # noqa: ANN401 - matplotlib
    width = 0.8 / max(len(bars.series), 1)
    for place, (name, values) in enumerate(bars.series.items()):
        axes.barh([group + place * width for group in range(len(bars.groups))], values, height=width, label=name)
    axes.set_yticks([group + 0.4 - width / 2 for group in range(len(bars.groups))], bars.groups, fontsize=7)
    axes.margins(y=0.5 / max(len(bars.groups), 1))
    axes.invert_yaxis()
