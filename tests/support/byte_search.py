"""Finds texts and vectors in the bytes of files, also where they are encoded or compressed."""

import contextlib
import json
import re
import zlib
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import zstandard

from eunoe.workers.models.local.vectors import levels
from eunoe.workers.stores.documents.packing import MARK, PACKER

_FLOATS: Final = 24
"""Components of a vector that are searched for: no other vector has the same, and they lie in one page mostly."""
_ZLIB: Final = re.compile(rb"\x78[\x01\x5e\x9c\xda]|\x1f\x8b\x08")
_ZEROS: Final = re.compile(rb"\0{64,}")
"""Servers make their files larger than what is in them."""
_LZF: Final = b"\xc3"
"""The begin of a compressed string in Redis' snapshots."""
_DOCUMENT: Final = 65_536
"""Bytes of a packed document that are looked at."""
_MOST: Final = 4_000_000
"""Bytes of one decompressed chunk."""


@dataclass(frozen=True, slots=True)
class Found:
    """Something found in a file."""

    what: str
    how: str
    """The encoding."""


def needles(what: Mapping[str, str], vectors: Mapping[str, bytes]) -> dict[bytes, Found]:
    """The bytes to search for. ``what``: name → text; ``vectors``: name → little-endian float32."""
    found: dict[bytes, Found] = {}
    for name, text in what.items():
        escaped = "".join(f"\\u{ord(char):04x}" for char in text)
        found[json.dumps(text)[1:-1].encode()] = Found(name, "JSON in ASCII")
        found[text.encode()] = Found(name, "UTF-8")
        found[escaped.encode()] = Found(name, "escaped")
        found[text.encode("utf-16-le")] = Found(name, "UTF-16")
        found[text.encode().hex().encode()] = Found(name, "hexadecimal")
        found |= {part: Found(name, "base64") for part in _base64(text.encode())}
    for name, stored in vectors.items():
        floats = np.frombuffer(stored, "<f4")
        part = floats[:_FLOATS].tobytes()
        found[part] = Found(name, "float32")
        found[floats[:_FLOATS].astype("<f2").tobytes()] = Found(name, "float16")
        found |= {one: Found(name, "float32 in base64") for one in _base64(part)}
        signed = levels(floats[None])[0, :_FLOATS].tobytes()
        found[signed] = Found(name, "signed bytes")
        found |= {one: Found(name, "signed bytes in base64") for one in _base64(signed)}
    return found


def _base64(data: bytes) -> Iterator[bytes]:
    """The characters that say nothing of the bytes around, at each of the three places where the data may begin."""
    for offset in range(3):
        encoded = b64encode(bytes(offset) + data)
        yield encoded[(0, 2, 3)[offset] : len(encoded) // 4 * 4 - 4]


def search_files(folders: Iterable[Path], wanted: Mapping[bytes, Found]) -> dict[str, set[Found]]:
    """What is found of ``wanted``: name of the file, from its folder on → findings. Names count, too."""
    found: dict[str, set[Found]] = {}
    for folder in folders:
        for path in sorted(folder.rglob("*")):
            name = str(path.relative_to(folder))
            hits = search_bytes(name.encode(), wanted)
            if path.is_file() and not path.is_symlink():
                hits |= search_bytes(path.read_bytes(), wanted)
            if hits:
                found[name] = hits
    return found


def search_bytes(data: bytes, wanted: Mapping[bytes, Found]) -> set[Found]:
    """What is found of ``wanted`` in the bytes, plain, packed, or compressed by zlib, gzip or Redis' LZF."""
    data = _ZEROS.sub(bytes(8), data)
    texts = [data, *_inflated(data), *_unpacked(data), *_documents(data)]
    return {one for part, one in wanted.items() if any(part in text for text in texts)}


def _inflated(data: bytes) -> Iterator[bytes]:
    view = memoryview(data)
    for at in _ZLIB.finditer(data):
        try:
            yield zlib.decompressobj(wbits=47).decompress(view[at.start() : at.start() + _MOST], _MOST)
        except zlib.error:
            continue


def _documents(data: bytes) -> Iterator[bytes]:
    """The documents that the state store holds packed."""
    at = data.find(MARK)
    while at >= 0:
        unpacker = zstandard.ZstdDecompressor(dict_data=PACKER.dictionary, format=zstandard.FORMAT_ZSTD1_MAGICLESS)
        with contextlib.suppress(zstandard.ZstdError):
            yield unpacker.decompressobj().decompress(data[at + 1 : at + _DOCUMENT])
        at = data.find(MARK, at + 1)


def _unpacked(data: bytes) -> Iterator[bytes]:
    """The strings that a snapshot of Redis holds compressed; bytes that only look like one give little or nothing."""
    at = data.find(_LZF)
    while at >= 0:
        packed, place = _length(data, at + 1)
        plain, begin = _length(data, place)
        if 4 < packed < plain <= _MOST and begin + packed <= len(data):
            text = unpack_lzf(data[begin : begin + packed], plain)
            if len(text) == plain:
                yield text
        at = data.find(_LZF, at + 1)


def _length(data: bytes, at: int) -> tuple[int, int]:
    """A length in Redis' snapshot format, and the place behind it."""
    if at >= len(data):
        return 0, at
    first = data[at]
    match first >> 6:
        case 0:
            return first & 0x3F, at + 1
        case 1:
            return ((first & 0x3F) << 8) | (data[at + 1] if at + 1 < len(data) else 0), at + 2
        case 2 if first == 0x80:
            return int.from_bytes(data[at + 1 : at + 5], "big"), at + 5
    return 0, at + 1


def unpack_lzf(data: bytes, size: int) -> bytes:
    """The text of LZF's format; what is no such text ends early."""
    out, at = bytearray(), 0
    while at < len(data) and len(out) < size:
        control = data[at]
        at += 1
        if control < 32:
            out += data[at : at + control + 1]
            at += control + 1
            continue
        length = control >> 5
        if length == 7:
            length += data[at] if at < len(data) else 0
            at += 1
        distance = ((control & 0x1F) << 8) + (data[at] if at < len(data) else 0) + 1
        at += 1
        if distance > len(out):
            return b""
        for _ in range(length + 2):
            out.append(out[-distance])
    return bytes(out)
