"""The snapshot of an idle conversation: all its stored hashes as they stand in Redis, packed and sealed as they are."""

import re
import secrets
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
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
        pieces = [orjson.dumps(head)]
        pieces += [piece for rows in self.hashes.values() for row in rows.items() for piece in row]
        sized = b"".join(part for piece in pieces for part in (_SIZE.pack(len(piece)), piece))
        return zstandard.ZstdCompressor(level=_LEVEL).compress(sized)

    @classmethod
    def unpack(cls, packed: bytes) -> "Snapshot":
        """The snapshot of these bytes; raises ``ValueError`` for bytes that are none, or of a later format.

        Which of the two it is, only the digest of the bytes tells.
        """
        try:
            pieces = _pieces(zstandard.ZstdDecompressor().decompress(packed))
            head = orjson.loads(next(pieces))
            if head["format"] > FORMAT:
                raise ValueError(f"format {head['format']}, and {FORMAT} is the last one known here")
            hashes = {
                name: {bytes(next(pieces)): bytes(next(pieces)) for _ in range(count)} for name, count in head["hashes"]
            }
            return cls(head["key"], hashes, head["partition"], head["timer"])
        except _OTHER_FORMS as fault:
            raise ValueError(f"no snapshot: {fault}") from fault


def _pieces(sized: bytes) -> Iterator[memoryview]:
    view, at = memoryview(sized), 0
    while at < len(view):
        (size,) = _SIZE.unpack_from(view, at)
        yield view[at + _SIZE.size : at + _SIZE.size + size]
        at += _SIZE.size + size


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
