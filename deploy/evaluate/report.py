"""Reports of evaluations: JSON for scripts, Markdown for people, a plot, each with what the numbers depend on."""

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
"""What stands where a language model would."""


@dataclass(frozen=True, slots=True)
class BarChart:
    """A plot: groups of bars, or where the groups are numbers lines over them."""

    title: str
    unit: str
    groups: tuple[str, ...]
    series: Mapping[str, Sequence[float]]
    """Name → a value for each group."""


@dataclass(frozen=True, slots=True)
class EvalReport:
    """What was measured, on what, with what."""

    name: str
    """The command: ``retrieval``."""
    rows: Sequence[Row]
    settings: Mapping[str, Any]
    models: Mapping[str, str]
    """What decided and embedded: role → name; ``offline`` where no language model was asked."""
    data: Mapping[str, str]
    """File name → sha256."""
    bars: BarChart
    notes: tuple[str, ...] = ()
    details: tuple[str, ...] = ()
    """What stands in the Markdown below the table."""
    about: Mapping[str, Any] = field(default_factory=dict)
    """More than rows: prompts, costs."""


def check_folder(folder: Path | None) -> None:
    """Before a long run: raises `Refused` where a report could not be written."""
    if folder is None:
        return
    extra("matplotlib")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Refused(f"{folder}: no folder for reports: {error.strerror}") from None


def hashes(*paths: Path) -> dict[str, str]:
    """File name → sha256 of what is in it; raises `Refused` for a file that cannot be read."""
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
    """Writes NAME.json, NAME.md and NAME.png; returns their paths."""
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
    said = [f"# eunoe eval {report.name}", ""]
    said += [f"- {key}: {_told(value)}" for key, value in head.items() if key != "name"]
    said += ["", *(f"{note}\n" for note in report.notes), f"![{report.bars.title}]({report.name}.png)", ""]
    if report.rows:
        fields = filled_columns(report.rows)
        said += [f"| {' | '.join(fields)} |", f"|{'---|' * len(fields)}"]
        said += [f"| {' | '.join(_cell(row.get(name)) for name in fields)} |" for row in report.rows]
    said += [line for detail in report.details for line in ("", detail)]
    return "\n".join(said) + "\n"


def _told(value: object) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key} = {_told(one)}" for key, one in value.items()) or "–"
    return _cell(value)


def _cell(value: object) -> str:
    if value is None:
        return "–"
    if isinstance(value, list | tuple):
        return " / ".join(map(_cell, value))
    text = _number(value) if isinstance(value, float) else str(value)
    return text.replace("|", "\\|").replace("\n", " ")


def _number(value: float) -> str:
    """Three digits behind the point; what is less than that, two that tell something."""
    return f"{value:.2g}" if 0 < abs(value) < 0.0095 else f"{value:.3f}".rstrip("0").rstrip(".")


def filled_columns(rows: Sequence[Row]) -> list[str]:
    """The columns that hold something in any row."""
    return [name for name in (rows[0] if rows else ()) if any(row.get(name) is not None for row in rows)]


def draw(bars: BarChart, path: Path) -> None:
    """The plot as PNG; lines where all groups are numbers, else bars."""
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
