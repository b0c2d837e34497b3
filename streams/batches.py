"""Reader of fetched record batches, so robust that no bytes of a producer stop a consumer.

A batch that cannot be unpacked (a wrong checksum, a damaged or oversized compressed block, an unknown codec) becomes
one record. Its value is the raw batch, and the header `UNREADABLE_HEADER` has the reason; the partition goes on behind
it. Header names that are no UTF-8 are kept with escapes.

aiokafka has no hook for this: `install_reader` puts `ReadableRecords` in the place of its reader of fetched bytes.
"""

import struct
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, Protocol, Self

import cramjam
from aiokafka.consumer import fetcher
from aiokafka.errors import CorruptRecordException
from aiokafka.record._crecords import default_records, legacy_records
from aiokafka.record.default_records import _DefaultRecordBatchPy
from aiokafka.record.memory_records import MemoryRecords

from eunoe.streams.record import UNREADABLE_HEADER

MAX_UNPACKED_BYTES = 1 << 25
"""Bytes that a compressed batch may hold unpacked: 32 MiB, of at most 1 MiB packed."""

_OVERHEAD = 12  # base offset and length
_HEADER = 61
"""Bytes of a batch before its records."""
_GUESSED_RATIO = 8
_GZIP = 31


class UnreadableBatch(bytes):
    """The value of a record that stands for a batch; no producer can make one."""

    last: int
    """The last offset of the batch."""

    @classmethod
    def of(cls, raw: bytes, last: int) -> Self:
        """The raw batch, or a part of it."""
        made = cls(raw)
        made.last = last
        return made


class _FetchedRecord(Protocol):
    @property
    def offset(self) -> int: ...


@dataclass(frozen=True, slots=True)
class UnreadableRecord:
    """A batch, or its rest, that cannot be read; the fields are those of aiokafka's records."""

    offset: int
    timestamp: int
    timestamp_type: int
    value: bytes
    headers: tuple[tuple[str, bytes], ...]
    key: None = None
    checksum: None = None


class ReadableRecords:
    """The batches of a fetched partition for aiokafka's fetcher, without an incomplete last one."""

    def __init__(self, raw: bytes) -> None:
        self._raw = bytes(raw)
        self._at = 0

    def size_in_bytes(self) -> int:
        """The length of all batches, in bytes."""
        return len(self._raw)

    def has_next(self) -> bool:
        """Whether a whole batch is left."""
        return self._end() is not None

    def next_batch(self) -> "ReadableBatch | None":
        """The next whole batch; `None` at the end."""
        end = self._end()
        if end is None:
            return None
        raw, self._at = self._raw[self._at : end], end
        return ReadableBatch(raw)

    def _end(self) -> int | None:
        if len(self._raw) - self._at < _OVERHEAD:
            return None
        (length,) = struct.unpack_from(">i", self._raw, self._at + 8)
        end = self._at + _OVERHEAD + int(length)
        return end if length >= 0 and end <= len(self._raw) else None


class ReadableBatch:
    """A batch whose records can always be iterated; all other attributes are those of aiokafka's batch."""

    def __init__(self, raw: bytes) -> None:
        self._raw = raw
        self._batch: Any = MemoryRecords(raw).next_batch()

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever aiokafka's batch has
        return getattr(self._batch, name)

    def validate_crc(self) -> bool:
        """Always true; iterating the records checks the checksum."""
        return True

    def __next__(self) -> object:
        return next(self._batch)

    def __iter__(self) -> Iterator[_FetchedRecord]:
        last, count = self._batch.base_offset - 1, 0
        try:
            for record in self._checked():
                last, count = record.offset, count + 1
                yield record
        except UnicodeDecodeError:
            yield from self._lenient(last, count)
        except Exception as fault:
            yield from self._unreadable(last, fault)

    def _checked(self) -> Iterator[_FetchedRecord]:
        """The records; raises where they are not what the batch's header says."""
        if not self._batch.validate_crc():
            raise CorruptRecordException("the checksum does not fit")
        yield from self._in_place(self._batch, self._batch.base_offset - 1)

    def _in_place(self, records: Iterable[_FetchedRecord], last: int) -> Iterator[_FetchedRecord]:
        """Records behind ``last`` in ascending order; a place outside of the batch would hide records of others."""
        found = False
        for record in records:
            found = True
            if not last < record.offset < self._batch.next_offset:
                raise CorruptRecordException(f"a record at offset {record.offset}")
            last = record.offset
            yield record
        if not found and len(self._raw) > _HEADER:
            raise CorruptRecordException("bytes, but no records")

    def _lenient(self, last: int, count: int) -> Iterator[_FetchedRecord]:
        """The records behind the first ``count``, the last of them at ``last``, with header names that are no UTF-8."""
        try:
            batch = _DefaultRecordBatchPy(self._raw)
            batch._maybe_uncompress()  # noqa: SLF001
            batch._buffer = _EscapingBuffer(batch._buffer)  # noqa: SLF001
            for record in self._in_place(islice(batch, count, None), last):
                last = record.offset
                yield record
        except Exception as fault:
            yield from self._unreadable(last, fault)

    def _unreadable(self, last: int, fault: Exception) -> Iterator[UnreadableRecord]:
        batch = self._batch
        first = last + 1
        if first < batch.next_offset:
            last = batch.next_offset - 1
            reason = f"offsets {first} to {last}: {type(fault).__name__}: {fault}"[:500]
            headers = ((UNREADABLE_HEADER, reason.encode()),)
            value = UnreadableBatch.of(self._raw, last)
            yield UnreadableRecord(first, max(batch.max_timestamp, 0), batch.timestamp_type, value, headers)


class _EscapingBuffer(bytearray):
    """Bytes whose parts, read as UTF-8, keep what is none with backslashes."""

    def __getitem__(self, place: Any) -> Any:  # noqa: ANN401 - as bytearray's
        part = super().__getitem__(place)
        return _EscapingBuffer(part) if isinstance(part, bytearray) else part

    def decode(self, encoding: str = "utf-8", errors: str = "backslashreplace") -> str:
        """The text, with escapes."""
        return super().decode(encoding, errors)


# ---- codecs


def unpack_gzip(packed: bytes) -> bytes:
    """The content of a gzip stream; raises `CorruptRecordException` beyond `MAX_UNPACKED_BYTES`."""
    unpacker = zlib.decompressobj(_GZIP)
    found = unpacker.decompress(bytes(packed), MAX_UNPACKED_BYTES)
    if unpacker.unconsumed_tail:
        raise _too_large("gzip")
    return found


def _bounded(name: str, unpack_into: Callable[[bytes, bytearray], int]) -> Callable[[bytes], bytes]:
    def unpack(packed: bytes) -> bytes:
        size = min(MAX_UNPACKED_BYTES, _GUESSED_RATIO * len(packed) + 4096)
        while True:
            found = bytearray(size)
            try:
                return bytes(found[: unpack_into(bytes(packed), found)])
            except cramjam.DecompressionError as fault:
                if "whole buffer" not in str(fault):
                    raise
            if size == MAX_UNPACKED_BYTES:
                raise _too_large(name)
            size = min(2 * size, MAX_UNPACKED_BYTES)

    return unpack


def _too_large(codec: str) -> CorruptRecordException:
    return CorruptRecordException(f"{codec}: more than {MAX_UNPACKED_BYTES} bytes unpacked")


unpack_lz4 = _bounded("lz4", cramjam.lz4.decompress_into)
unpack_zstd = _bounded("zstd", cramjam.zstd.decompress_into)


def install_reader() -> None:
    """Make all consumers of this process read batches by this module; may be called again."""
    fetcher.MemoryRecords = ReadableRecords
    for module in (default_records, legacy_records):
        module.gzip_decode, module.lz4_decode = unpack_gzip, unpack_lz4
    default_records.zstd_decode = unpack_zstd
