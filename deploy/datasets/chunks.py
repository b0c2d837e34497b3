"""Reads files piece by piece, so that a long one needs little memory and shows how far it is."""

import codecs
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final

from eunoe.deploy.progress import ReportCount
from eunoe.schemas.errors import Refused

ReportRead = Callable[[int, int], None]
"""Called with the bytes read and the bytes in all; 0 in all where that is not known, as of a pipe."""

_CHUNK: Final = 2**20


def read_chunks(path: Path, expected: str, report: ReportCount = lambda _: None) -> Iterator[bytes]:
    """The bytes of a file, without a byte order mark; raises `Refused` where it cannot be read or is empty.

    ``expected``: the content that the message asks for. ``report`` is called with the bytes read.
    """
    with _opened(path, expected) as file:
        yield from checked_chunks(file, str(path), expected, report)


def checked_chunks(file: IO[bytes], where: str, expected: str, report: ReportCount) -> Iterator[bytes]:
    """The bytes of an open file, as `read_chunks` gives them; ``where`` is its name in messages."""
    done, is_blank = 0, True
    while chunk := file.read(_CHUNK):
        if not done and chunk.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            raise Refused(f"{where}: is in UTF-16; save it in UTF-8")
        text = chunk if done else chunk.removeprefix(codecs.BOM_UTF8)
        is_blank = is_blank and not text.strip()
        yield text
        done += len(chunk)
        report(done)
    if is_blank:
        raise Refused(f"{where}: is empty; expected {expected}")


def lines_of(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """The lines of the bytes, with their ends."""
    begun: list[bytes] = []
    for chunk in chunks:
        first, *others = chunk.split(b"\n")
        begun.append(first)
        for line in others:
            yield b"".join((*begun, b"\n"))
            begun = [line]
    if last := b"".join(begun):
        yield last


def of_all(report: ReportRead, total: int, before: int = 0) -> ReportCount:
    """The report of a part that begins behind ``before`` bytes of ``total``."""
    return lambda done: report(before + done, total)


def file_size(path: Path) -> int:
    """The bytes of a file; 0 where they are not known, as of a pipe."""
    return path.stat().st_size if path.is_file() else 0


@contextmanager
def _opened(path: Path, expected: str) -> Iterator[IO[bytes]]:
    try:
        with path.open("rb") as file:
            yield file
    except FileNotFoundError:
        raise Refused(f"{path}: no such file") from None
    except IsADirectoryError:
        raise Refused(f"{path}: is a folder; expected a file of {expected}") from None
    except OSError as error:
        raise Refused(f"{path}: cannot be read: {error.strerror}") from None
