"""Reads files that are imported, in each format."""

import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import StrEnum
from pathlib import Path

import orjson
from pydantic import ValidationError

from eunoe.deploy.datasets import locomo
from eunoe.deploy.datasets.imports import chatgpt, mem0
from eunoe.deploy.datasets.imports.imported import (
    MAX_LINES,
    ImportFile,
    ImportSession,
    ImportTarget,
    source_id,
)
from eunoe.deploy.datasets.load import read_bytes, read_numbered_events
from eunoe.schemas.errors import Refused
from eunoe.schemas.events import Erase, SessionEnded, Utterance
from eunoe.schemas.versions import describe


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
        raise Refused(f"{where}, line {error.lineno}: not JSON: {error.msg}") from None


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
    with zipfile.ZipFile(path) as archive:
        names = sorted(name for name in archive.namelist() if _is_conversations(name))
        if not names:
            raise Refused(f"{path}: holds no conversations.json; give the ZIP file as it was exported")
        for name in names:
            yield name, archive.read(name)


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


def _regrouped(
    events: Sequence[tuple[int, Utterance | SessionEnded | Erase]], path: Path, target: ImportTarget, unit: str
) -> ImportFile:
    """The events as whole sessions, in the order of their ends; a session that does not end is ended."""
    open_: dict[tuple[str, str | None], list[Utterance]] = {}
    sessions: list[ImportSession] = []

    def close(name: tuple[str, str | None]) -> None:
        lines = open_.pop(name, [])
        sessions.extend(_whole(lines[start : start + MAX_LINES], start) for start in range(0, len(lines), MAX_LINES))

    for number, event in events:
        moved = _moved(event, target, f"{path}, {unit} {number}")
        name = (moved.conversation_id, moved.session_id)
        if isinstance(moved, Utterance):
            open_.setdefault(name, []).append(moved)
        else:
            last = next((one for one in reversed(open_) if one[0] == moved.conversation_id), name)
            close(name if name in open_ or moved.session_id else last)
    for name in list(open_):
        close(name)
    return ImportFile(tuple(sessions))


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


def _whole(lines: Sequence[Utterance], start: int) -> ImportSession:
    """A session of the lines; one without an id, or the later part of a long one, gets an id."""
    first, last = lines[0], lines[-1]
    session_id = first.session_id
    if session_id is None or start:
        session_id = source_id("session", first.key, session_id or "", first.utterance_id)
    said = tuple(line.model_copy(update={"session_id": session_id}) for line in lines)
    end = SessionEnded(tenant=first.tenant, conversation_id=first.conversation_id, session_id=session_id, at=last.at)
    return ImportSession(session_id, said, end)


_READERS: Mapping[ImportFormat, Callable[[Path, ImportTarget], ImportFile]] = {
    ImportFormat.CHATGPT: _chatgpt,
    ImportFormat.MEM0: _mem0,
    ImportFormat.LOCOMO: _locomo,
    ImportFormat.JSONL: _jsonl,
}
