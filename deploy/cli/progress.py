"""Progress bars on standard error."""

from typing import Final, Self

from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    Task,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Column
from rich.text import Text

from eunoe.deploy.cli.output import errors
from eunoe.deploy.progress import Advance

_WIDE: Final = 120
"""Columns of a terminal from which on a bar is long."""


class _Detail(TextColumn):
    """The detail behind a bar: where there is little room it is cut, before a count or a time is."""

    def __init__(self) -> None:
        super().__init__("{task.fields[detail]}", table_column=Column())

    def render(self, task: Task) -> Text:
        text = super().render(task)
        text.no_wrap, text.overflow = True, "ellipsis"
        return text


class ProgressBars:
    """One bar for each phase of a command, from its first report on; nothing is drawn where ``quiet``.

    An instance is a `eunoe.deploy.progress.ReportProgress`. With ``transient`` the bars vanish at the end, and finished
    ones when another begins: of hundreds a terminal shows the first. They are not drawn into a file or a pipe.
    """

    def __init__(self, *, quiet: bool = False, transient: bool = False) -> None:
        self._bars = Progress(
            TextColumn("{task.description}", justify="right"),
            BarColumn(40 if errors.width >= _WIDE else 10),
            MofNCompleteColumn(table_column=_whole()),
            TimeElapsedColumn(table_column=_whole()),
            TimeRemainingColumn(table_column=_whole()),
            _Detail(),
            console=errors,
            disable=quiet or (transient and not errors.is_terminal),
            transient=transient,
        )
        self._tasks: dict[str, TaskID] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._tasks:  # else it would still end a line
            self._bars.stop()

    def __call__(self, phase: str, done: int, total: int, detail: str = "") -> None:
        """Show that ``done`` of ``total`` units of a phase are done (0: the total is not known yet).

        A phase without any unit gets no bar.
        """
        if not done and not total:
            return
        self._bars.update(self._task(phase), completed=done, total=total or None, detail=detail)

    def counter(self, phase: str, total: int) -> Advance:
        """A bar over ``total`` units; returns the function that counts one more as done."""
        self(phase, 0, total)
        return lambda: self._bars.advance(self._task(phase))

    def _task(self, phase: str) -> TaskID:
        if phase not in self._tasks:
            self._bars.start()
            if self._bars.live.transient:
                self._drop_finished()
            self._tasks[phase] = self._bars.add_task(phase, total=None, detail="")
        return self._tasks[phase]

    def _drop_finished(self) -> None:
        done = {task.id for task in self._bars.tasks if task.finished}
        for phase, task in list(self._tasks.items()):
            if task in done:
                self._bars.remove_task(task)
                del self._tasks[phase]


def _whole() -> Column:
    """A column that is not cut as long as another one can be."""
    return Column(no_wrap=True)
