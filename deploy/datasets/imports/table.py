"""Reads a table of messages: CSV whose first line names the columns."""

import csv
import io
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from eunoe.deploy.datasets.chunks import lines_of
from eunoe.deploy.datasets.imports.imported import ImportTarget, source_id
from eunoe.schemas.errors import Refused
from eunoe.schemas.events import DEFAULT_AGENT, Utterance
from eunoe.schemas.versions import describe

CONVERSATION: Final = "csv"
NEEDED: Final = ("at", "text")
COLUMNS: Final = (*NEEDED, "speaker", "role", "conversation_id", "session_id", "utterance_id")
_SEPARATORS: Final = (",", ";", "\t")
_ROLES: Final = ("", "user", "assistant")
_MAX_FIELD: Final = 64 * 2**20
"""Characters of a field; the library takes 128 Ki by itself, and a long text becomes several utterances here."""

Row = Mapping[str, str]


def read_table(
    chunks: Iterable[bytes], path: Path, target: ImportTarget
) -> tuple[list[tuple[int, Utterance]], Counter[str]]:
    """The utterances of the rows with the numbers of their lines, and what is left out: other columns, empty texts.

    ``chunks``: the bytes of the table. Raises `Refused` with the line that is wrong.
    """
    found: list[tuple[int, Utterance]] = []
    left_out: Counter[str] = Counter()
    same: Counter[tuple[str, ...]] = Counter()
    for number, row in _rows(chunks, path):
        left_out.update(f"of column {name!r:.60}" for name in row if name not in COLUMNS and row[name])
        if row.get("text") == "" and any(row.values()):  # a picture, or what was deleted
            left_out["without text"] += 1
        elif any(row.values()):
            found.append((number, _utterance(row, f"{path}, line {number}", target, same)))
    return found, left_out


def _rows(chunks: Iterable[bytes], path: Path) -> Iterator[tuple[int, Row]]:
    """Number of the last line and values of each row, by the names of the columns."""
    lines = _lines(chunks, path)
    first = next(lines, "")
    reader = csv.reader(chain((first,), lines), delimiter=max(_SEPARATORS, key=first.count), strict=True)
    before = csv.field_size_limit(_MAX_FIELD)
    try:
        names = [name.strip().lower() for name in next(reader)]
        _check_names(names, path)
        for values in reader:
            if len(values) > len(names):
                raise Refused(f"{path}, line {reader.line_num}: has {len(values)} values, but {len(names)} columns")
            yield reader.line_num, dict(zip(names, (value.strip() for value in values), strict=False))
    except csv.Error as error:
        raise Refused(f"{path}, line {reader.line_num}: not CSV: {error}") from None
    finally:
        csv.field_size_limit(before)


def _lines(chunks: Iterable[bytes], path: Path) -> Iterator[str]:
    """The lines with their ends, as the library wants them: quoted values may have some within."""
    for number, line in enumerate(lines_of(chunks), 1):
        try:
            yield from io.StringIO(line.decode(), newline="")
        except UnicodeDecodeError:
            raise Refused(f"{path}, line {number}: not in UTF-8; save the file in that encoding") from None


def _check_names(names: list[str], path: Path) -> None:
    missing = [name for name in NEEDED if name not in names]
    if missing:
        raise Refused(
            f"{path}, line 1: names no column {' and none '.join(map(repr, missing))}; the first line names the"
            f" columns: {', '.join(COLUMNS)}"
        )
    twice = next((name for name in COLUMNS if names.count(name) > 1), None)
    if twice is not None:
        raise Refused(f"{path}, line 1: names the column {twice!r} twice")


def _utterance(row: Row, where: str, target: ImportTarget, same: Counter[tuple[str, ...]]) -> Utterance:
    """The utterance of a row; without an id it gets one of its content, and of how many of the same came before."""
    role = row.get("role", "").lower()
    if role not in _ROLES:
        raise Refused(f"{where}: role: must be user or assistant, got {role!r:.40}")
    conversation_id = target.conversation_id or row.get("conversation_id") or CONVERSATION
    speaker = row.get("speaker") or (DEFAULT_AGENT if role == "assistant" else target.speaker)
    session_id = row.get("session_id") or None
    at = _time(row.get("at", ""), where)
    content = (conversation_id, session_id or "", at.astimezone(UTC).isoformat(), speaker, row.get("text", ""))
    id_ = row.get("utterance_id")
    if not id_:
        id_ = source_id("csv", *content, same[content])
        same[content] += 1
    try:
        return Utterance(
            tenant=target.tenant,
            conversation_id=conversation_id,
            utterance_id=id_,
            session_id=session_id,
            speaker=speaker,
            text=row.get("text", ""),
            at=at,
            reply_id=id_ if role == "assistant" else None,
        )
    except ValidationError as error:
        raise Refused(f"{where}: {describe(error)}") from None


def _time(text: str, where: str) -> datetime:
    try:
        time = datetime.fromisoformat(text)
        clock = time.tzinfo or UTC
        return time.replace(tzinfo=clock).astimezone(UTC).astimezone(clock)  # by UTC: it must be in the calendar there
    except (ValueError, OverflowError):
        raise Refused(f"{where}: at: no time like 2026-03-01T09:30:00Z: {text!r:.40}") from None
