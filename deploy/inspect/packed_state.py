"""Keeps the state of a conversation in few bytes until it is printed: its hash stands before it."""

import zlib
from collections.abc import Iterator, Mapping

import orjson

from eunoe.workers.derive.digest import Document, StateRow

_FASTEST = 1


class PackedState:
    """The documents of a state, table by table as `hash_state` reads them."""

    def __init__(self) -> None:
        self._tables: dict[tuple[str, int, str], bytes] = {}
        self._table: tuple[str, int, str] | None = None
        self._rows: list[tuple[int, bytes]] = []
        """Place and JSON of the documents of the table that is being read."""

    def add(self, row: StateRow) -> None:
        """Take the next document; those of a table come together."""
        table = (row.stage, row.place[1], row.table)
        if table != self._table:
            self._pack()
            self._table = table
        self._rows.append((row.place[2], orjson.dumps(row.id) + b":" + orjson.dumps(row.document)))

    def _pack(self) -> None:
        if self._table is not None:
            rows = b",".join(text for _, text in sorted(self._rows))
            self._tables[self._table] = zlib.compress(rows, _FASTEST)
        self._rows.clear()

    def json(self, progress: Mapping[str, Document]) -> Iterator[bytes]:
        """The JSON of the state in pieces; ``progress``: that of its `HashedState`."""
        self._pack()
        self._table = None
        yield b"{"
        for number, (stage, part) in enumerate(progress.items()):
            yield (b"," if number else b"") + orjson.dumps(stage) + b":" + orjson.dumps(part).removesuffix(b"}")
            tables = sorted(table for table in self._tables if table[0] == stage)
            for at, table in enumerate(tables):
                yield b"," if at else (b"," if part else b"") + b'"tables":{'
                yield orjson.dumps(table[2]) + b":{" + zlib.decompress(self._tables[table]) + b"}"
            yield b"}}" if tables else b"}"
        yield b"}"

    def whole(self, progress: Mapping[str, Document]) -> Document:
        """The state; ``progress``: that of its `HashedState`."""
        found: Document = orjson.loads(b"".join(self.json(progress)))
        return found
