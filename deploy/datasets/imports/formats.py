"""Reads files that are imported, in each format."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from enum import StrEnum
from pathlib import Path

from pydantic import ValidationError

from eunoe.deploy.datasets import locomo
from eunoe.deploy.datasets.chunks import ReportRead, file_size, of_all, read_chunks
from eunoe.deploy.datasets.imports import chatgpt, claude, mem0, table
from eunoe.deploy.datasets.imports.chats import read_chats
from eunoe.deploy.datasets.imports.documents import load_json, read_entries
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
from eunoe.deploy.datasets.load import EXPECTED, read_bytes, read_numbered_events
from eunoe.schemas.errors import Refused
from eunoe.schemas.events import Erase, SessionEnded, Utterance
from eunoe.schemas.versions import describe


class ImportFormat(StrEnum):
    """The format of a file."""

    CHATGPT = "chatgpt"
    """``conversations.json`` of an export of ChatGPT, or the folder or ZIP file with it."""
    CLAUDE = "claude"
    """The same of an export of Claude."""
    MEM0 = "mem0"
    """The memories that mem0's ``get_all`` answers."""
    LOCOMO = "locomo"
    """LoCoMo's samples."""
    JSONL = "jsonl"
    """JSON lines of utterances and ends of sessions, as clients produce them."""
    CSV = "csv"
    """A table of messages, whose first line names the columns."""


def read_import(
    path: Path, format_: ImportFormat, target: ImportTarget, report: ReportRead = lambda _done, _total: None
) -> ImportFile:
    """The sessions of a file; ``report`` is called as it is read.

    Raises `Refused` with the file, the line or entry, and the fault.
    """
    try:
        found = _READERS[format_](path, target, report)
    except ValidationError as error:  # an id or a name that no contract takes
        raise Refused(f"{path}: {describe(error)}; see --conversation and --speaker") from None
    if not found.sessions:
        raise Refused(f"{path}: holds nothing to import")
    return found


# ---- documents


def _chatgpt(path: Path, target: ImportTarget, report: ReportRead) -> ImportFile:
    return read_chats(read_entries(path, report), path, target, chatgpt.NAME, chatgpt.read_chat)


def _claude(path: Path, target: ImportTarget, report: ReportRead) -> ImportFile:
    return read_chats(read_entries(path, report), path, target, claude.NAME, claude.read_chat)


def _mem0(path: Path, target: ImportTarget, report: ReportRead) -> ImportFile:
    return mem0.read_memories(load_json(path, report), path, target)


def _locomo(path: Path, target: ImportTarget, report: ReportRead) -> ImportFile:
    samples = locomo.samples_in(read_bytes(path, EXPECTED, of_all(report, file_size(path))), path)
    if samples is None:
        raise Refused(f"{path}: not a LoCoMo file: expected a sample, or a list of them")
    if target.conversation_id is not None:
        raise Refused("--conversation: the samples of a LoCoMo file are conversations with names of their own")
    names = [str(sample.get("sample_id", f"sample-{number}")) for number, sample in enumerate(samples, 1)]
    loaded = [locomo.read_sample(samples, path, name) for name in names]
    events = [(number, event) for number, one in enumerate(loaded, 1) for event in one.events]
    return _regrouped(events, path, target, "sample")


# ---- events


def _jsonl(path: Path, target: ImportTarget, report: ReportRead) -> ImportFile:
    chunks = read_chunks(path, EXPECTED, of_all(report, file_size(path)))
    return _regrouped(read_numbered_events(chunks, path), path, target, "line")


def _csv(path: Path, target: ImportTarget, report: ReportRead) -> ImportFile:
    expected = "CSV, whose first line names the columns"
    chunks = read_chunks(path, expected, of_all(report, file_size(path)))
    rows, left_out = table.read_table(chunks, path, target)
    return replace(_regrouped(rows, path, target, "line"), left_out=left_out)


def _regrouped(
    events: Iterable[tuple[int, Utterance | SessionEnded | Erase]], path: Path, target: ImportTarget, unit: str
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


_READERS: Mapping[ImportFormat, Callable[[Path, ImportTarget, ReportRead], ImportFile]] = {
    ImportFormat.CHATGPT: _chatgpt,
    ImportFormat.CLAUDE: _claude,
    ImportFormat.MEM0: _mem0,
    ImportFormat.LOCOMO: _locomo,
    ImportFormat.JSONL: _jsonl,
    ImportFormat.CSV: _csv,
}
