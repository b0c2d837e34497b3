"""Byte strings joined into one, each after its length, before they are sealed together."""

from collections.abc import Iterable, Iterator
from typing import Final

_LENGTH: Final = 4


def pack(parts: Iterable[bytes]) -> bytes:
    """All parts as one."""
    return b"".join(len(part).to_bytes(_LENGTH, "big") + part for part in parts)


def unpack(packed: bytes) -> Iterator[bytes]:
    """The parts that were packed."""
    at = 0
    while at < len(packed):
        size = int.from_bytes(packed[at : at + _LENGTH], "big")
        yield packed[at + _LENGTH : at + _LENGTH + size]
        at += _LENGTH + size
