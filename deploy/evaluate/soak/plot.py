"""The plot of a soak test: asks, freshness, records left, memory and processor time over the run."""

from pathlib import Path
from typing import Any, Final

from eunoe.deploy.evaluate.extras import extra
from eunoe.deploy.evaluate.soak.samples import SoakRecord

_ASKS: Final = ("ask_p50_ms", "ask_p95_ms", "ask_p99_ms")
_FRESH: Final = ("freshness_p50_s", "freshness_p95_s")


def draw_soak(record: SoakRecord, path: Path) -> None:
    """Draw the figures as PNG; raises `Refused` where matplotlib is not installed."""
    extra("matplotlib").use("Agg")
    plt = extra("matplotlib.pyplot")
    rows = record.document()["samples"]
    figure, axes = plt.subplots(5, 1, figsize=(9, 12), dpi=110, sharex=True, layout="constrained")
    for name in _ASKS:
        _line(axes[0], rows, name, [row[name] for row in rows])
    for name in _FRESH:
        _line(axes[1], rows, name, [row[name] for row in rows])
    _line(axes[2], rows, "records left", [row["lag"] for row in rows])
    _line(axes[2], rows, "dead letters", [row["dead_letters"] for row in rows])
    for axis, key in ((axes[3], "memory_mb"), (axes[4], "cpu_percent")):
        for name in sorted({name for row in rows for name in row[key]}):
            _line(axis, rows, name, [row[key].get(name) for row in rows])
    labels = ("asks, ms", "session to memory, s", "records", "memory, MB", "CPU, % of a core")
    for axis, label in zip(axes, labels, strict=True):
        axis.set_ylabel(label)
        axis.set_ylim(bottom=0)
        axis.grid(visible=True, alpha=0.3)
        if axis.get_legend_handles_labels()[0]:
            axis.legend(fontsize=7, loc="center left", bbox_to_anchor=(1.0, 0.5))
    axes[-1].set_xlabel("minutes")
    figure.savefig(path)
    plt.close(figure)


def _line(axis: Any, rows: list[dict[str, Any]], name: str, values: list[float | None]) -> None:  # noqa: ANN401 - matplotlib
    points = [(row["at_s"] / 60, value) for row, value in zip(rows, values, strict=True) if value is not None]
    if points:
        axis.plot([at for at, _ in points], [value for _, value in points], label=name, linewidth=1)
