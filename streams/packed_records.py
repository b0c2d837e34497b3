"""Records held in memory in compressed blocks, which take a tenth of the room."""

from collections.abc import Iterable, Iterator
from typing import Final, Protocol, Self

import orjson
import zstandard

from eunoe.streams.packing import pack, unpack
from eunoe.streams.record import Record
from eunoe.streams.topics import Topic

BLOCK_BYTES: Final = 65_536
"""Bytes of keys and values from which on records become a block; fewer are held as they are."""
_FASTEST: Final = 1


class Blocks(Protocol):
    """Where compressed blocks are held, in their order; a list is one."""

    def append(self, block: bytes, /) -> None:
        """Add a block behind the others."""
        ...

    def __iter__(self) -> Iterator[bytes]:
        """The blocks in their order; raises `Unavailable` where one cannot be read."""
        ...


class PackedRecords:
    """Records in the order in which they were added; of one that was unsealed, as it is unsealed alone."""

    def __init__(self, blocks: Blocks | None = None) -> None:
        """``blocks`` is empty; `None` means a list."""
        self._blocks: Blocks = list[bytes]() if blocks is None else blocks
        self._open: list[Record] = []
        self._open_bytes = 0
        self._count = 0

    @classmethod
    def of(cls, records: Iterable[Record]) -> Self:
        """All of some records."""
        made = cls()
        for record in records:
            made.append(record)
        return made

    def append(self, record: Record) -> None:
        """Add a record behind the others."""
        self._open.append(record)
        self._open_bytes += len(record.key or b"") + len(record.value)
        self._count += 1
        if self._open_bytes >= BLOCK_BYTES:
            parts = (part for one in self._open for part in _parts(one))
            block = zstandard.ZstdCompressor(level=_FASTEST).compress(pack(parts))
            self._blocks.append(bytes(memoryview(block)))  # a copy: the first one keeps room for all that was packed
            self._open, self._open_bytes = [], 0

    def __len__(self) -> int:
        """The number of records."""
        return self._count

    def __iter__(self) -> Iterator[Record]:
        """The records, of which one block at a time is unpacked."""
        for block in self._blocks:
            parts = unpack(zstandard.ZstdDecompressor().decompress(block))
            for head, key, value in zip(parts, parts, parts, strict=True):
                yield _record(head, key, value)
        yield from self._open


def _parts(record: Record) -> tuple[bytes, bytes, bytes]:
    headers = {name: value.decode("latin-1") for name, value in record.headers.items()}
    head = [record.topic, record.partition, record.offset, record.timestamp_ms, record.key is not None, headers]
    return orjson.dumps(head), record.key or b"", record.value


def _record(head: bytes, key: bytes, value: bytes) -> Record:
    topic, partition, offset, timestamp_ms, is_keyed, headers = orjson.loads(head)
    found = {name: bytes(text, "latin-1") for name, text in headers.items()}
    return Record(Topic(topic), partition, offset, key if is_keyed else None, value, timestamp_ms, found)
