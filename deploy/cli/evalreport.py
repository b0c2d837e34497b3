"""Options and reports of the commands of `eunoe eval`: settings that differ, rows as tables."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from eunoe.deploy.cli.output import console, note, print_json
from eunoe.deploy.evaluate.fallbacks import model_name
from eunoe.deploy.evaluate.report import EvalReport, filled_columns, write_report
from eunoe.deploy.settings import Settings, read_settings
from eunoe.schemas.model_ports import LanguageModel

Samples = Annotated[
    list[str] | None, typer.Option("--sample", help="Only this conversation of the file; repeatable. Default: all.")
]
Embedding = Annotated[
    str | None,
    typer.Option(
        "--embedder", help="Embedder: wordllama, fastembed:MODEL or endpoint:MODEL:SIZE; default: EUNOE_EMBEDDING."
    ),
]
ReportFolder = Annotated[
    Path | None,
    typer.Option("--report", help="Folder for a report: JSON, Markdown and a plot; default: none is written."),
]
Seed = Annotated[int, typer.Option(help="Seed of the random draws; the same seed draws the same.")]


def settings_with(embedding: str | None) -> Settings:
    """The settings of the environment, with the embedder of the command line."""
    settings = read_settings()
    return settings if embedding is None else settings.model_copy(update={"embedding": embedding})


def stage_settings(settings: Settings) -> dict[str, Any]:
    """For a report: the settings of stages that are not the default."""
    return {"stages": settings.stages.model_dump(mode="json", exclude_defaults=True)}


def models_of(settings: Settings, language: LanguageModel | None, judge: LanguageModel | None = None) -> dict[str, str]:
    """For a report: the models by role, language, embedder and judge."""
    named = {"language": model_name(language), "embedder": settings.embedding}
    return named if judge is None else {**named, "judge": judge.name}


def cores() -> int:
    """The number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def finish(report: EvalReport, folder: Path | None, *, as_json: bool) -> None:
    """Print the rows, and write the report where a folder is given."""
    if as_json:
        print_json([dict(row) for row in report.rows])
    else:
        console.print(table(report.rows))
        for line in report.notes:
            console.print(line, style="dim", markup=False)
    if folder is not None:
        paths = write_report(folder, report)
        note(f"report: {', '.join(map(str, paths))}", quiet=as_json)


def table(rows: Sequence[Mapping[str, Any]]) -> Table:
    """Rows as a table without empty columns: transposed, or one below the other, where the screen is too narrow."""
    names = filled_columns(rows)
    lines = [names, *([_cell(row[name]) for name in names] for row in rows)]
    turned = [list(column) for column in zip(*lines, strict=True)]
    if _width(lines) <= console.width:
        return _headed(lines)
    return _headed(turned) if _width(turned) <= console.width else _stacked(lines)


def _headed(lines: Sequence[Sequence[str]]) -> Table:
    """A table with its first line as header."""
    shown = Table(*(map(escape, lines[0]) if lines else []))
    for column in shown.columns[:1]:
        column.no_wrap = True
    for line in lines[1:]:
        shown.add_row(*map(escape, line))
    return shown


def _stacked(lines: Sequence[Sequence[str]]) -> Table:
    """A section for each line but the first, which names the values in all of them."""
    shown = Table("", "", show_header=False)
    shown.columns[0].no_wrap = True
    for line in lines[1:]:
        for name, value in zip(lines[0], line, strict=True):
            shown.add_row(escape(name), escape(value))
        shown.add_section()
    return shown


def _width(lines: Sequence[Sequence[str]]) -> int:
    """Columns of the screen that a table needs."""
    return sum(3 + max(map(len, column)) for column in zip(*lines, strict=True))


def _cell(value: object) -> str:
    if value is None:
        return "–"
    if isinstance(value, tuple | list):
        return " / ".join(map(_cell, value))
    return f"{value:g}" if isinstance(value, float) else str(value)


def fields(rows: Sequence[Any]) -> list[dict[str, Any]]:
    """Dataclass instances as dictionaries."""
    return [asdict(row) for row in rows]
