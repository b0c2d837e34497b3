"""Progress bars on standard error."""

from typing import Self

from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from eunoe.deploy.cli.output import errors
from eunoe.deploy.progress import Advance


class ProgressBars:
    """One bar for each phase of a command, from its first report on; nothing is drawn where ``quiet``.

    An instance is a `eunoe.deploy.progress.ReportProgress`. With ``transient`` the bars vanish at the end; they are not
    drawn into a file or a pipe.
    """

    def __init__(self, *, quiet: bool = False, transient: bool = False) -> None:
        self._bars = Progress(
            TextColumn("{task.description:>14}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[detail]}"),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
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
            self._tasks[phase] = self._bars.add_task(phase, total=None, detail="")
        return self._tasks[phase]
