"""The places where the tasks of an event loop wait: what an operator wants to know of a process that does not end."""

import asyncio
from collections.abc import Iterable
from types import CodeType
from typing import Any

MOST = 40
"""Tasks that are named."""


def waiting_places(tasks: "Iterable[asyncio.Task[Any]]") -> list[str]:
    """One line for each unfinished task, `MOST` at most: what it began with, and where it waits; functions first.

    Methods are mostly those of the servers' clients, which wait for their connections all the time. The lines name
    functions, files and line numbers, and nothing of the data.
    """
    left = [task for task in tasks if not task.done()]
    lines = sorted(filter(None, map(_place, left)), key=lambda line: ("." in line.partition(" ")[0], line))[:MOST]
    return [*lines, *([f"and {len(left) - MOST} more"] if len(left) > MOST else [])]


def _place(task: "asyncio.Task[Any]") -> str:
    """The outermost and the innermost coroutine of a task, and the innermost one's line."""
    awaited: Any = task.get_coro()
    names: list[str] = []
    where = ""
    while (code := _code_of(awaited)) is not None:
        names.append(code.co_qualname if hasattr(code, "co_qualname") else code.co_name)
        frame = getattr(awaited, "cr_frame", None) or getattr(awaited, "gi_frame", None)
        if frame is not None:
            where = f"{code.co_filename.rpartition('/')[2]}:{frame.f_lineno}"
        awaited = getattr(awaited, "cr_await", None) or getattr(awaited, "gi_yieldfrom", None)
    return f"{names[0]} waits in {names[-1]} ({where})" if names else ""


def _code_of(awaited: object) -> CodeType | None:
    code = getattr(awaited, "cr_code", None) or getattr(awaited, "gi_code", None)
    return code if isinstance(code, CodeType) else None
