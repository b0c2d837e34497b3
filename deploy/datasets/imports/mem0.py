"""Reads memories exported from mem0: the answer of ``get_all``, or the list in it."""

from collections import Counter, defaultdict
from collections.abc import Mapping
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import Any, Final

from eunoe.deploy.datasets.imports.imported import (
    ImportFile,
    ImportSession,
    ImportTarget,
    KnownLines,
    SourceLine,
    check_time,
    cut,
    session_of,
)
from eunoe.schemas.errors import Refused

OWNERS: Final = ("user_id", "agent_id", "run_id")


def read_memories(document: object, path: Path, target: ImportTarget) -> ImportFile:
    """Each memory as something said when it was created: a conversation for each owner, a session for each day.

    Memories that an answer in pages has elsewhere are counted as left out; one that is there twice counts once. Raises
    `Refused` with the number of the entry that is no memory, or has the id of another one.
    """
    rows, left_out = document, Counter[str]()
    if isinstance(document, dict):
        rows = document.get("results", document.get("memories"))
    if not isinstance(rows, list):
        raise Refused(f"{path}: no list of memories; give what mem0's get_all() answered, as JSON")
    by_owner: dict[str, list[SourceLine]] = defaultdict(list)
    known = KnownLines()
    for number, row in enumerate(rows, 1):
        owner, line = _line(row, f"{path}, entry {number}", target)
        conversation_id = target.conversation_id or owner
        if known.is_new(conversation_id, line, path, f"entry {number}"):
            by_owner[conversation_id].append(line)
    if isinstance(document, dict) and (document.get("next") or document.get("previous")):
        count = document.get("count")
        if isinstance(count, int) and count > len(rows):
            left_out["of other pages"] = count - len(rows)
        else:
            left_out["or more of other pages"] = 1
    sessions = tuple(one for owner, lines in by_owner.items() for one in _sessions(owner, lines, target))
    return ImportFile(sessions, left_out)


def _sessions(owner: str, lines: list[SourceLine], target: ImportTarget) -> list[ImportSession]:
    days = groupby(sorted(lines, key=lambda line: (line.at, line.id)), key=lambda line: line.at.date())
    parts = ((day, part) for day, said in days for part in _cut(list(said)))
    return [session_of(f"mem0\n{owner}\n{day}\n{part[0].id}", part, target, owner) for day, part in parts]


def _cut(lines: list[SourceLine]) -> list[list[SourceLine]]:
    """The memories of a day in parts that are not too large; silences count for nothing."""
    at_once = [SourceLine(line.id, line.speaker, line.text, lines[0].at) for line in lines]
    sizes = [len(part) for part in cut(at_once)]
    ends = [sum(sizes[: number + 1]) for number in range(len(sizes))]
    return [lines[end - size : end] for size, end in zip(sizes, ends, strict=True)]


def _line(row: object, where: str, target: ImportTarget) -> tuple[str, SourceLine]:
    if not isinstance(row, dict):
        raise Refused(f"{where}: not an object with id, memory and created_at")
    text = str(row.get("memory") or row.get("text") or "").strip()
    if not text or not row.get("id"):
        raise Refused(f"{where}: has no {'memory' if row.get('id') else 'id'}; give what mem0's get_all() answered")
    owner = next((str(row[name]) for name in OWNERS if row.get(name)), "mem0")
    time = _time(row, where)
    check_time(time, where)
    return owner, SourceLine(f"mem0\n{row['id']}", target.speaker, text, time)


def _time(row: Mapping[str, Any], where: str) -> datetime:
    text = row.get("created_at")
    try:
        time = datetime.fromisoformat(str(text))
        return time.astimezone(UTC) if time.tzinfo else time.replace(tzinfo=UTC)
    except (ValueError, OverflowError):  # the latter: before the year 1 in UTC
        raise Refused(f"{where}: its created_at is no time like 2026-03-01T09:30:00Z: {text!r:.40}") from None
