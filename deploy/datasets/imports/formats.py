"""Reads files that are imported, in each format."""

import json
import lzma
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import Final

import orjson
from pydantic import ValidationError

from eunoe.deploy.datasets import locomo
from eunoe.deploy.datasets.imports import chatgpt, mem0, table
from eunoe.deploy.datasets.imports.imported import (
    GAP,
    ImportFile,
    ImportSession,
    ImportTarget,
    check_time,
    cut,
    pieces,
    source_id,
)
from eunoe.deploy.datasets.load import json_fault, read_bytes, read_numbered_events
from eunoe.schemas.errors import Refused
from eunoe.schemas.events import Erase, SessionEnded, Utterance
from eunoe.schemas.versions import describe

_MOST_PACKED: Final = 100
"""Bytes of chats to one of the ZIP file with them; chats have 5 to 10."""
_ALWAYS_UNPACKED: Final = 64 * 2**20
"""Bytes that any machine has room for."""


class ImportFormat(StrEnum):
    """The format of a file."""

    CHATGPT = "chatgpt"
    """``conversations.json`` of an export of ChatGPT, or the ZIP file with it."""
    MEM0 = "mem0"
    """The memories that mem0's ``get_all`` answers."""
    LOCOMO = "locomo"
    """LoCoMo's samples."""
    JSONL = "jsonl"
    """JSON lines of utterances and ends of sessions, as clients produce them."""
    CSV = "csv"
    """A table of messages, whose first line names the columns."""


def read_import(path: Path, format_: ImportFormat, target: ImportTarget) -> ImportFile:
    """The sessions of a file. Raises `Refused` with the file, the line or entry, and the fault."""
    try:
        found = _READERS[format_](path, target)
    except ValidationError as error:  # an id or a name that no contract takes
        raise Refused(f"{path}: {describe(error)}; see --conversation and --speaker") from None
    if not found.sessions:
        raise Refused(f"{path}: holds nothing to import")
    return found


# ---- documents


def _document(path: Path) -> object:
    return _parsed(read_bytes(path, "a JSON document, as it was exported"), str(path))


def _parsed(data: bytes, where: str) -> object:
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError as error:
        try:
            return orjson.loads(_without_halves(data))
        except (ValueError, RecursionError):
            raise Refused(f"{where}, line {error.lineno}: {json_fault(data, error)}") from None


def _without_halves(data: bytes) -> bytes:
    """JSON with a question mark for each half of a surrogate pair: products cut texts in the middle of an emoji."""
    return json.dumps(json.loads(data), ensure_ascii=False).encode("utf-8", "replace")


def _chatgpt(path: Path, target: ImportTarget) -> ImportFile:
    if not (path.is_file() and zipfile.is_zipfile(path)):
        if path.suffix.lower() == ".zip" and path.is_file():
            raise Refused(f"{path}: is not a ZIP file, or a damaged one; fetch the export again")
        return chatgpt.read_chats(_document(path), path, target)
    chats: list[object] = []
    for name, data in _members(path):
        found = _parsed(data, f"{path}, {name}")
        chats += found if isinstance(found, list) else [found]
    return chatgpt.read_chats(chats, path, target)


def _members(path: Path) -> Iterator[tuple[str, bytes]]:
    """The files of conversations in an export's ZIP file; there are several where it is large."""
    with _naming_damage(path), zipfile.ZipFile(path) as archive:
        names = sorted(name for name in archive.namelist() if _is_conversations(name))
        if not names:
            raise Refused(f"{path}: holds no conversations.json; give the ZIP file as it was exported")
        _check_unpacked(path, sum(archive.getinfo(name).file_size for name in names))
        for name in names:
            yield name, archive.read(name)


def _check_unpacked(path: Path, size: int) -> None:
    """Raise `Refused` for a ZIP file that unpacks to more than chats do, which would take all memory.

    ``size``: bytes of what is read of it, unpacked. Files in it may share their bytes, so that all are counted.
    """
    packed = path.stat().st_size
    if size > max(_ALWAYS_UNPACKED, _MOST_PACKED * packed):
        raise Refused(
            f"{path}: {packed} bytes would unpack to {size}, as no chats do; unpack it, and give its conversations.json"
        )


@contextmanager
def _naming_damage(path: Path) -> Iterator[None]:
    """Raise `Refused` for a ZIP file that cannot be unpacked."""
    try:
        yield
    except (zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, OSError) as fault:
        raise Refused(f"{path}: is not a ZIP file, or a damaged one ({fault}); fetch the export again") from None
    except (RuntimeError, NotImplementedError) as fault:  # a password, a way of packing that Python does not know
        raise Refused(f"{path}: cannot be unpacked ({fault}); unpack it, and give its conversations.json") from None


def _is_conversations(name: str) -> bool:
    base = name.rpartition("/")[2]
    return base.startswith("conversations") and base.endswith(".json")


def _mem0(path: Path, target: ImportTarget) -> ImportFile:
    return mem0.read_memories(_document(path), path, target)


def _locomo(path: Path, target: ImportTarget) -> ImportFile:
    samples = locomo.samples_in(read_bytes(path), path)
    if samples is None:
        raise Refused(f"{path}: not a LoCoMo file: expected a sample, or a list of them")
    if target.conversation_id is not None:
        raise Refused("--conversation: the samples of a LoCoMo file are conversations with names of their own")
    names = [str(sample.get("sample_id", f"sample-{number}")) for number, sample in enumerate(samples, 1)]
    loaded = [locomo.read_sample(samples, path, name) for name in names]
    events = [(number, event) for number, one in enumerate(loaded, 1) for event in one.events]
    return _regrouped(events, path, target, "sample")


# ---- events


def _jsonl(path: Path, target: ImportTarget) -> ImportFile:
    return _regrouped(read_numbered_events(read_bytes(path), path), path, target, "line")


def _csv(path: Path, target: ImportTarget) -> ImportFile:
    rows, left_out = table.read_table(read_bytes(path, "CSV, whose first line names the columns"), path, target)
    return replace(_regrouped(rows, path, target, "line"), left_out=left_out)


def _regrouped(
    events: Sequence[tuple[int, Utterance | SessionEnded | Erase]], path: Path, target: ImportTarget, unit: str
) -> ImportFile:
    """The events as whole sessions, those of a conversation in order of time; one that does not end is ended."""
    open_: dict[tuple[str, str | None], list[Utterance]] = {}
    ended: list[list[Utterance]] = []
    known: dict[tuple[str, str], tuple[str, Utterance]] = {}
    for number, event in events:
        place = f"{unit} {number}"
        moved = _moved(event, target, f"{path}, {place}")
        if isinstance(moved, SessionEnded):
            ended.append(open_.pop(_name_of(moved, open_), []))
        elif _is_new(moved, known, path, place):
            open_.setdefault((moved.conversation_id, moved.session_id), []).append(moved)
    sessions = [one for lines in (*ended, *open_.values()) for one in _sessions(lines)]
    places = {key: place for place, key in enumerate(dict.fromkeys(one.key for one in sessions))}
    return ImportFile(tuple(sorted(sessions, key=lambda one: (places[one.key], one.utterances[0].at))))


def _name_of(end: SessionEnded, open_: Mapping[tuple[str, str | None], object]) -> tuple[str, str | None]:
    """The open session that ends; without an id that which was begun last."""
    name = (end.conversation_id, end.session_id)
    if name in open_ or end.session_id:
        return name
    return next((one for one in reversed(list(open_)) if one[0] == end.conversation_id), name)


def _is_new(said: Utterance, known: dict[tuple[str, str], tuple[str, Utterance]], path: Path, place: str) -> bool:
    """Whether an utterance is no repetition; raises `Refused` for what intake would not take."""
    check_time(said.at, f"{path}, {place}")
    before, same = known.setdefault((said.conversation_id, said.utterance_id), (place, said))
    if same != said:
        raise Refused(
            f"{path}, {place}: utterance_id {said.utterance_id!r:.60} is that of {before}, with another content;"
            " an id names one utterance of a conversation"
        )
    return before == place


def _moved(event: Utterance | SessionEnded | Erase, target: ImportTarget, where: str) -> Utterance | SessionEnded:
    """The event in the conversation that is imported into; an ask is a plain utterance there."""
    if isinstance(event, Erase):
        raise Refused(f"{where}: an erasure cannot be imported; remove the line")
    update: Mapping[str, object] = {
        "tenant": target.tenant,
        "conversation_id": target.conversation_id or event.conversation_id,
        **({"ask": None, "schema_version": 1} if isinstance(event, Utterance) else {}),
    }
    return event.model_copy(update=update)


def _sessions(lines: Sequence[Utterance]) -> Iterator[ImportSession]:
    """The lines of a session in order of time; without an id they are several, cut at long silences."""
    fitting = [part for line in sorted(lines, key=lambda line: line.at) for part in _fitting(line)]
    unnamed = bool(fitting) and fitting[0].session_id is None
    for place, part in enumerate(cut(fitting, GAP if unnamed else timedelta.max)):
        yield _whole(part, is_first=not place)


def _fitting(line: Utterance) -> Iterator[Utterance]:
    """The utterance in parts that intake takes."""
    for number, text in enumerate(pieces(line.text)):
        id_ = source_id("line", line.key, line.utterance_id, number) if number else line.utterance_id
        yield line.model_copy(update={"text": text, "utterance_id": id_})


def _whole(lines: Sequence[Utterance], *, is_first: bool) -> ImportSession:
    """A session of the lines; one without an id, or the later part of a long one, gets an id."""
    first, last = lines[0], lines[-1]
    session_id = first.session_id
    if session_id is None or not is_first:
        session_id = source_id("session", first.key, session_id or "", first.utterance_id)
    said = tuple(line.model_copy(update={"session_id": session_id}) for line in lines)
    end = SessionEnded(tenant=first.tenant, conversation_id=first.conversation_id, session_id=session_id, at=last.at)
    return ImportSession(session_id, said, end)


_READERS: Mapping[ImportFormat, Callable[[Path, ImportTarget], ImportFile]] = {
    ImportFormat.CHATGPT: _chatgpt,
    ImportFormat.MEM0: _mem0,
    ImportFormat.LOCOMO: _locomo,
    ImportFormat.JSONL: _jsonl,
    ImportFormat.CSV: _csv,
}
