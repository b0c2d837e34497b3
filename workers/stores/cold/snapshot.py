"""The snapshot of an idle conversation: all its stored hashes as they stand in Redis, packed and sealed as they are."""

import re
import secrets
import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from itertools import chain
from typing import Final

import orjson
import zstandard

from eunoe.schemas.errors import NewerVersion

UPDATE: Final = "update this process; until then its conversation is left as it is"

Hash = Mapping[bytes, bytes]
"""Fields and values."""

FORMAT: Final = 1
_LEVEL: Final = 3
_SIZE: Final = struct.Struct(">I")
_BLOCK_BYTES: Final = 2**18
_DIGEST_CHARS: Final = 32
_OTHER_FORMS: Final = (
    zstandard.ZstdError,
    struct.error,
    orjson.JSONDecodeError,
    StopIteration,
    RuntimeError,
    LookupError,
    TypeError,
)
"""Exceptions of reading bytes that are laid out otherwise."""
_STUB: Final = re.compile(r"(?P<digest>[0-9a-f]{32})-(?P<token>[0-9a-f]{8}):(?P<size>[0-9]+)(?P<lost>:lost)?")


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The state of a conversation between two events."""

    key: str
    hashes: Mapping[str, Hash]
    """Name within the conversation (``update``: a ledger, ``update/memories``: a table) → its fields."""
    partition: int = 0
    """The partition of the log that the conversation lies in."""
    timer: str = ""
    """The document of its cancelled timer, which names the time of its last event; '' where there is none."""

    def marked(self, token: str) -> Iterator[tuple[str, Hash]]:
        """Name and fields of each hash as it comes back, ledgers with ``token``.

        It tells decisions that have read before from those that read afterwards: see commit.lua.
        """
        mark = {b"thawed": token.encode()}
        return ((name, rows if "/" in name else {**rows, **mark}) for name, rows in self.hashes.items())

    def pack(self) -> bytes:
        """The bytes to keep: a head in JSON, then the fields and values, each after its length (4 bytes)."""
        head = {
            "format": FORMAT,
            "key": self.key,
            "partition": self.partition,
            "timer": self.timer,
            "hashes": [[name, len(rows)] for name, rows in self.hashes.items()],
        }
        first = orjson.dumps(head)
        size = sum(_SIZE.size + len(piece) for piece in chain([first], self._words()))
        packer = zstandard.ZstdCompressor(level=_LEVEL).compressobj(size=size)
        packed = [packer.compress(block) for block in _blocks(chain([first], self._words()))]
        return b"".join([*packed, packer.flush()])

    def _words(self) -> Iterator[bytes]:
        """The fields and values of all hashes."""
        return chain.from_iterable(chain.from_iterable(rows.items()) for rows in self.hashes.values())

    @classmethod
    def unpack(cls, packed: bytes) -> "Snapshot":
        """The snapshot of these bytes; raises ``ValueError`` for bytes that are none, or of a later format.

        Which of the two it is, only the digest of the bytes tells.
        """
        try:
            pieces = _pieces(packed)
            head = orjson.loads(next(pieces))
            if head["format"] > FORMAT:
                raise ValueError(f"format {head['format']}, and {FORMAT} is the last one known here")
            hashes = {name: {next(pieces): next(pieces) for _ in range(count)} for name, count in head["hashes"]}
            return cls(head["key"], hashes, head["partition"], head["timer"])
        except _OTHER_FORMS as fault:
            raise ValueError(f"no snapshot: {fault}") from fault


def _blocks(pieces: Iterable[bytes]) -> Iterator[bytearray]:
    """All pieces, each after its length, in blocks: all as one would be as large as the state itself."""
    block = bytearray()
    for piece in pieces:
        block += _SIZE.pack(len(piece))
        block += piece
        if len(block) >= _BLOCK_BYTES:
            yield block
            block = bytearray()
    yield block


def _pieces(packed: bytes) -> Iterator[bytes]:
    """The pieces, unpacked as they are asked for; raises ``struct.error`` or ``LookupError`` where one is cut."""
    with zstandard.ZstdDecompressor().stream_reader(packed) as reader:
        while length := reader.read(_SIZE.size):
            (size,) = _SIZE.unpack(length)
            piece = reader.read(size)
            if len(piece) < size:
                raise LookupError("it is cut")
            yield piece


def digest_of(packed: bytes) -> str:
    """The digest by which a snapshot is named, and checked when it comes back."""
    return sha256(packed).hexdigest()[:_DIGEST_CHARS]


@dataclass(frozen=True, slots=True)
class Stub:
    """The rest in Redis of a conversation whose state lies in the cold store."""

    digest: str
    token: str
    """Tells this snapshot from every other, also from one of the same state."""
    size: int
    """Bytes of the snapshot."""
    lost: bool = False
    """Whether it was found to be lost: the conversation is to be derived again, even if the snapshot turns up."""

    @classmethod
    def of(cls, packed: bytes) -> "Stub":
        """A new stub for a snapshot."""
        return cls(digest_of(packed), secrets.token_hex(4), len(packed))

    @property
    def file(self) -> str:
        """The name of the snapshot in the folder of its conversation."""
        return f"{self.digest}-{self.token}"

    def __str__(self) -> str:
        return f"{self.file}:{self.size}{':lost' if self.lost else ''}"

    @classmethod
    def parse(cls, text: str) -> "Stub":
        """The stub of its text; raises `NewerVersion` for any other text."""
        found = _STUB.fullmatch(text)
        if found is None:
            raise NewerVersion(f"the stub {text!r:.80} of a cold conversation is of a newer version: {UPDATE}")
        return cls(found["digest"], found["token"], int(found["size"]), found["lost"] is not None)
