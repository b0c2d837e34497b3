"""Reads JSON documents of exports: whole, or a long list entry by entry, from a file, a folder or a ZIP file."""

import codecs
import json
import lzma
import re
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import orjson

from eunoe.deploy.datasets.chunks import ReportRead, checked_chunks, file_size, of_all, read_chunks
from eunoe.deploy.datasets.load import json_fault, read_bytes
from eunoe.schemas.errors import Refused

EXPECTED: Final = "a JSON document, as it was exported"
_MOST_PACKED: Final = 100
"""Bytes of chats to one of the ZIP file with them; chats have 5 to 10."""
_ALWAYS_UNPACKED: Final = 64 * 2**20
"""Bytes that any machine has room for."""
_DECODER: Final = json.JSONDecoder()
_BLANK: Final = re.compile(r"[ \t\n\r]*")
_HALF: Final = re.compile(r"\\u[dD][89a-fA-F]")
"""An escape that may be half of a surrogate pair."""


def load_json(path: Path, report: ReportRead = lambda _done, _total: None) -> object:
    """The document of a file; ``report`` is called as it is read. Raises `Refused` with the line that is wrong."""
    data = read_bytes(path, EXPECTED, of_all(report, file_size(path)))
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError as error:
        try:
            return _without_halves(json.loads(data))
        except (ValueError, RecursionError):
            raise Refused(f"{path}, line {error.lineno}: {json_fault(data, error)}") from None


def read_entries(path: Path, report: ReportRead) -> Iterator[object]:
    """The entries of the lists in an export's conversations files, one by one; a document that is no list is one entry.

    ``path`` is such a file, or a folder or ZIP file with some. Raises `Refused` with the file and the line.
    """
    if path.is_dir():
        yield from _in_folder(path, report)
    elif path.is_file() and zipfile.is_zipfile(path):
        yield from _in_archive(path, report)
    elif path.suffix.lower() == ".zip" and path.is_file():
        raise Refused(f"{path}: is not a ZIP file, or a damaged one; fetch the export again")
    else:
        yield from entries_of(read_chunks(path, EXPECTED, of_all(report, file_size(path))), str(path))


def _in_folder(path: Path, report: ReportRead) -> Iterator[object]:
    files = sorted(file for file in path.iterdir() if _is_conversations(file.name))
    if not files:
        raise Refused(f"{path}: holds no conversations.json; give the folder as it was exported")
    total, before = sum(file.stat().st_size for file in files), 0
    for file in files:
        yield from entries_of(read_chunks(file, EXPECTED, of_all(report, total, before)), str(file))
        before += file.stat().st_size


def _in_archive(path: Path, report: ReportRead) -> Iterator[object]:
    """The entries in an export's ZIP file; there are several files in it where it is large."""
    with _naming_damage(path), zipfile.ZipFile(path) as archive:
        found = sorted(
            (one for one in archive.infolist() if _is_conversations(one.filename)), key=lambda one: one.filename
        )
        if not found:
            raise Refused(f"{path}: holds no conversations.json; give the ZIP file as it was exported")
        total, before = sum(one.file_size for one in found), 0
        _check_unpacked(path, total)
        for one in found:
            where = f"{path}, {one.filename}"
            with archive.open(one) as file:
                yield from entries_of(checked_chunks(file, where, EXPECTED, of_all(report, total, before)), where)
            before += one.file_size


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


# ---- entries


def entries_of(chunks: Iterable[bytes], where: str) -> Iterator[object]:
    """The entries of the JSON list in the bytes, as they are read; a document that is no list is one entry.

    A half of a surrogate pair becomes a question mark: products cut texts in the middle of an emoji. Raises `Refused`
    with the line that is wrong.
    """
    window = _Window(iter(chunks), where)
    if window.mark() == "[":
        window.place += 1
        while window.mark() != "]":
            yield window.value()
            if window.mark() not in ("", "]", ","):
                raise window.fault("expected a comma or the end of the list", window.place)
            if window.mark() == ",":
                window.place += 1
                if window.mark() == "]":
                    raise window.fault("expected a value behind the comma", window.place)
        window.place += 1
    else:
        yield window.value()
    if window.mark():
        raise window.fault("more behind its end", window.place)


class _Window:
    """The part of a JSON text that is read and not parsed yet, from ``place`` on."""

    def __init__(self, chunks: Iterator[bytes], where: str) -> None:
        self.place = 0
        self._text = ""
        self._lines = 0  # those before the text
        self._is_whole = False
        self._chunks, self._where = chunks, where
        self._decoder = codecs.getincrementaldecoder("utf-8")()

    def mark(self) -> str:
        """The next character that is not blank; empty at the end."""
        while True:
            self.place = _BLANK.match(self._text, self.place).end()  # type: ignore[union-attr]
            if self.place < len(self._text):
                return self._text[self.place]
            if not self._more():
                return ""

    def value(self) -> object:
        """The next value. Raises `Refused` with the line where there is none."""
        self.mark()
        while True:
            try:
                found, end = _DECODER.raw_decode(self._text, self.place)
            except json.JSONDecodeError as error:
                if not self._more():  # else perhaps only a part of it was read
                    raise self.fault(error.msg.removesuffix(" starting at"), error.pos) from None
            except (ValueError, RecursionError) as error:
                raise self.fault(str(error), self.place) from None
            else:
                if self._is_whole or end + 2 < len(self._text):  # else a number may go on, as 1 of 1e-9
                    break
                self._more()
        has_half = _HALF.search(self._text, self.place, end)
        self.place = end
        return _without_halves(found) if has_half else found

    def fault(self, said: str, place: int) -> Refused:
        """A fault in the text, with its line."""
        line = self._lines + self._text.count("\n", 0, place) + 1
        return Refused(f"{self._where}, line {line}: not JSON: {said}")

    def _more(self) -> bool:
        """Read at least as much as there is, so that a long value is not tried often; false at the end."""
        self._lines += self._text.count("\n", 0, self.place)
        parts = [self._text[self.place :]]
        self._text, self.place = "", 0
        read = 0
        while read <= len(parts[0]) and (chunk := next(self._chunks, None)) is not None:
            parts.append(self._decoded(chunk, parts))
            read += len(chunk)
        if not read:
            self._decoded(b"", parts, final=True)
            self._is_whole = True
        self._text = "".join(parts)
        return read > 0

    def _decoded(self, chunk: bytes, before: list[str], *, final: bool = False) -> str:
        try:
            return self._decoder.decode(chunk, final)
        except UnicodeDecodeError as error:
            line = (
                self._lines + sum(part.count("\n") for part in before) + error.object.count(b"\n", 0, error.start) + 1
            )
            raise Refused(f"{self._where}, line {line}: not in UTF-8; save the file in that encoding") from None


def _without_halves(document: object) -> object:
    """The document with a question mark for each half of a surrogate pair."""
    return json.loads(json.dumps(document, ensure_ascii=False).encode("utf-8", "replace"))
