"""Documents that leave the main memory where there are many: for the derivation of one very long conversation.

They go into a temporary file that has no name and ends with the process. Each is sealed with a key that nothing else
has: what users said lies on no disk in plain, also where a key store is used.
"""

import os
import sqlite3
import weakref
from collections.abc import Iterable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager
from itertools import count, islice
from sys import getsizeof
from typing import Final

from eunoe.schemas.errors import Unavailable
from eunoe.schemas.keys import KEY_BYTES, DataKey
from eunoe.streams.sealed.envelope import seal, sealed_name, unseal

_ROW_BYTES: Final = 120
"""Bytes of a document beside its id and text, about."""
_ROWS: Final = 500
"""Documents of one transaction."""
_MAKE: Final = "CREATE TABLE rows (part INTEGER, name BLOB, sealed BLOB, PRIMARY KEY (part, name))"
_LENGTH: Final = 4


class Spill:
    """Parts that the tables of a store share. It does not name them: a cycle would wait for the garbage collector."""

    def __init__(self) -> None:
        self.file: SpillFile | None = None
        self.held = 0
        """Bytes in memory."""
        self._parts = count()

    def table(self) -> "SpillTable":
        """A table that is empty."""
        return SpillTable(self, next(self._parts))

    def make_room(self, tables: Iterable["SpillTable"], most: int) -> None:
        """Move the documents used least recently into the file, half of each table's, where more than ``most`` bytes
        of them are in memory. ``tables`` are all of this store.

        Raises `Unavailable` where the file cannot be written; then nothing is changed.
        """
        if self.held > most:
            self.file = file = self.file or SpillFile()
            self.held = sum([table.shrink(file) for table in tables])


class SpillTable(MutableMapping[str, str]):
    """Documents by id. Writing one touches no file."""

    __slots__ = ("_clean", "_is_cleared", "_part", "_rows", "_spill")

    def __init__(self, spill: Spill, part: int) -> None:
        self._spill = spill
        self._part = part
        self._rows: dict[str, str | None] = {}
        """The documents in memory, the one used last at the end; `None` for a removed one that the file may have."""
        self._clean: set[str] = set()
        """Those of them that are in the file as they are here."""
        self._is_cleared = False
        """Whether nothing counts that is in the file."""

    def get(self, id_: str, default: str | None = None) -> str | None:  # type: ignore[override]
        """A document; ``default`` for one that is not there."""
        (text,) = self.fetch([id_])
        return default if text is None else text

    def fetch(self, ids: Sequence[str]) -> list[str | None]:
        """Documents in the order asked, `None` for one that is not there; what is in the file is read at once."""
        rows = self._rows
        for id_ in ids:
            if id_ in rows:
                rows[id_] = rows.pop(id_)
        missing = [] if self._file is None else [id_ for id_ in dict.fromkeys(ids) if id_ not in rows]
        if missing and self._file is not None:
            for id_, text in self._file.read(self._part, missing).items():
                self._clean.add(id_)
                self._hold(id_, text)
        return [rows.get(id_) for id_ in ids]

    def peek(self, id_: str) -> str:
        """A document, which is not held in memory for it; raises ``KeyError``."""
        text = self._rows.get(id_)
        if id_ not in self._rows and self._file is not None:
            text = self._file.read(self._part, [id_]).get(id_)
        if text is None:
            raise KeyError(id_)
        return text

    def __getitem__(self, id_: str) -> str:
        """A document; raises ``KeyError``."""
        text = self.get(id_)
        if text is None:
            raise KeyError(id_)
        return text

    def __setitem__(self, id_: str, text: str) -> None:
        self._forget(id_)
        self._hold(id_, text)

    def __delitem__(self, id_: str) -> None:
        self[id_]
        self.pop(id_)

    def pop(self, id_: str, default: str | None = None) -> str | None:  # type: ignore[override]
        """Remove a document, if it is there; it is not read, and ``default`` returned."""
        self._forget(id_)
        if self._file is not None:
            self._hold(id_, None)
        return default

    def clear(self) -> None:
        """Remove all."""
        self._spill.held -= self._held()
        self._rows, self._clean, self._is_cleared = {}, set(), True

    def __len__(self) -> int:
        if self._spill.file is None:
            return sum(text is not None for text in self._rows.values())
        self._write(self._spill.file, list(self._rows))
        return self._spill.file.count(self._part)

    def __iter__(self) -> Iterator[str]:
        return (id_ for id_, _ in self.items())

    def items(self) -> Iterator[tuple[str, str]]:  # type: ignore[override]
        """Ids and documents, which are read as they are asked for."""
        rows, file = dict(self._rows), self._file
        yield from ((id_, text) for id_, text in rows.items() if text is not None)
        if file is not None:
            yield from (row for row in file.all(self._part) if row[0] not in rows)

    def values(self) -> Iterator[str]:  # type: ignore[override]
        """The documents, which are read as they are asked for."""
        return (text for _, text in self.items())

    def shrink(self, file: "SpillFile") -> int:
        """Leave the half of the documents in memory that was used last; returns its bytes."""
        oldest = list(islice(self._rows, (len(self._rows) + 1) // 2))
        self._write(file, oldest)
        for id_ in oldest:
            del self._rows[id_]
        self._clean.difference_update(oldest)
        return self._held()

    @property
    def _file(self) -> "SpillFile | None":
        """The file, where it may have documents that count."""
        return None if self._is_cleared else self._spill.file

    def _forget(self, id_: str) -> None:
        if id_ in self._rows:
            self._spill.held -= _size(id_, self._rows.pop(id_))
            self._clean.discard(id_)

    def _hold(self, id_: str, text: str | None) -> None:
        self._rows[id_] = text
        self._spill.held += _size(id_, text)

    def _held(self) -> int:
        return sum(_size(id_, text) for id_, text in self._rows.items())

    def _write(self, file: "SpillFile", ids: Iterable[str]) -> None:
        if self._is_cleared:
            file.clear(self._part)
            self._is_cleared = False
        changed = (id_ for id_ in ids if id_ not in self._clean)
        while some := list(islice(changed, _ROWS)):
            file.write(self._part, {id_: self._rows[id_] for id_ in some})
            self._clean.update(some)


def _size(id_: str, text: str | None) -> int:
    return getsizeof(id_) + getsizeof(text) + _ROW_BYTES


class SpillFile:
    """Sealed documents of tables, by number of the table."""

    def __init__(self) -> None:
        self._key = DataKey("spill", os.urandom(KEY_BYTES))
        with _telling_faults():
            # "": SQLite's own temporary file, which it removes from its folder as it opens it
            self._rows = sqlite3.connect("", isolation_level=None, check_same_thread=False)
            weakref.finalize(self, self._rows.close)
            self._rows.execute("PRAGMA journal_mode = MEMORY")  # a part that could not be written must leave no trace
            self._rows.execute(_MAKE)

    def write(self, part: int, rows: Mapping[str, str | None]) -> None:
        """Write documents in place of earlier ones, `None` for none: all, or none where it raises `Unavailable`."""
        sealed = [(part, self._name(id_), self._seal(id_, text)) for id_, text in rows.items() if text is not None]
        gone = [(part, self._name(id_)) for id_, text in rows.items() if text is None]
        with _telling_faults():
            self._rows.execute("BEGIN")
            try:
                self._rows.executemany("INSERT OR REPLACE INTO rows VALUES (?, ?, ?)", sealed)
                self._rows.executemany("DELETE FROM rows WHERE part = ? AND name = ?", gone)
                self._rows.execute("COMMIT")
            except sqlite3.Error:
                if self._rows.in_transaction:
                    self._rows.execute("ROLLBACK")
                raise

    def read(self, part: int, ids: Sequence[str]) -> dict[str, str]:
        """Documents by id; those that are not there are left out."""
        found: dict[str, str] = {}
        for at in range(0, len(ids), _ROWS):
            names = [self._name(id_) for id_ in ids[at : at + _ROWS]]
            # to one of few lengths, by repetition: SQLite compiles each statement once
            names += [names[-1]] * ((1 << (len(names) - 1).bit_length()) - len(names))
            where = f"part = ? AND name IN ({', '.join('?' * len(names))})"
            rows = self._run(f"SELECT sealed FROM rows WHERE {where}", part, *names)  # noqa: S608 - marks alone
            found |= dict(self._open(sealed) for (sealed,) in rows)
        return found

    def all(self, part: int) -> Iterator[tuple[str, str]]:
        """Ids and documents of a table."""
        return (self._open(sealed) for (sealed,) in self._run("SELECT sealed FROM rows WHERE part = ?", part))

    def count(self, part: int) -> int:
        """The number of documents of a table."""
        (found,) = self._run("SELECT COUNT(*) FROM rows WHERE part = ?", part).fetchone()
        return int(found)

    def clear(self, part: int) -> None:
        """Remove all documents of a table."""
        self._run("DELETE FROM rows WHERE part = ?", part)

    def _run(self, statement: str, *values: object) -> sqlite3.Cursor:
        with _telling_faults():
            return self._rows.execute(statement, values)

    def _name(self, id_: str) -> bytes:
        return bytes.fromhex(sealed_name(self._key, id_))

    def _seal(self, id_: str, text: str) -> bytes:
        name = id_.encode("utf-8", "surrogatepass")
        plain = len(name).to_bytes(_LENGTH, "big") + name + text.encode("utf-8", "surrogatepass")
        return seal(self._key, plain, (), deflate=False)

    def _open(self, sealed: bytes) -> tuple[str, str]:
        plain = unseal(self._key, sealed, ())
        end = _LENGTH + int.from_bytes(plain[:_LENGTH], "big")
        return plain[_LENGTH:end].decode("utf-8", "surrogatepass"), plain[end:].decode("utf-8", "surrogatepass")


@contextmanager
def _telling_faults() -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as fault:
        said = f"a temporary file of documents cannot be written: {fault}"
        raise Unavailable(f"{said}; make room where the system keeps temporary files, or set TMPDIR", "disk") from fault
