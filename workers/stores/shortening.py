"""Writes the UUIDs and the base64 of a JSON text as bytes, and back: they are noise to a compressor."""

import re
from base64 import b64decode, b64encode, urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable
from typing import Final
from uuid import UUID

# no UTF-8 text contains these bytes
_OWN_ID, _UUID, _SAFE, _STANDARD = b"\xfc", b"\xfd", b"\xfe", b"\xff"
_UUIDS: Final = re.compile(rb"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}")
_BASE64: Final = re.compile(rb"[A-Za-z0-9_-]{64,}={0,2}|[A-Za-z0-9+/]{64,}={0,2}")
_RAW: Final = re.compile(rb"[\xfc-\xff]")
_LENGTH: Final = 4
"""Bytes of the length before bytes that were base64."""


def shortened(plain: bytes, own_id: bytes) -> bytes:
    """The text with UUIDs and base64 as bytes."""

    def uuid(found: re.Match[bytes]) -> bytes:
        return _OWN_ID if found[0] == own_id else _UUID + bytes.fromhex(found[0].replace(b"-", b"").decode())

    if len(plain) > 64:
        plain = _BASE64.sub(_from_base64, plain)
    return _UUIDS.sub(uuid, plain) if b"-" in plain else plain


def _from_base64(found: re.Match[bytes]) -> bytes:
    """The bytes that a run of letters stands for, after a mark and their length; the run where it stands for none."""
    text = found[0]
    standard = b"+" in text or b"/" in text
    try:
        raw = b64decode(text, validate=True) if standard else urlsafe_b64decode(text)
    except ValueError:
        return text
    encode = b64encode if standard else urlsafe_b64encode
    if encode(raw) != text:
        return text
    return (_STANDARD if standard else _SAFE) + len(raw).to_bytes(_LENGTH, "big") + raw


_ENCODERS: Final[dict[bytes, Callable[[bytes], bytes]]] = {_SAFE: urlsafe_b64encode, _STANDARD: b64encode}


def lengthened(short: bytes, own_id: bytes) -> bytes:
    """The text of `shortened`."""
    pieces, start = list[bytes](), 0
    while (found := _RAW.search(short, start)) is not None:
        pieces.append(short[start : found.start()])
        mark, at = found[0], found.end()
        if mark == _OWN_ID:
            pieces.append(own_id)
            start = at
        elif mark == _UUID:
            pieces.append(str(UUID(bytes=short[at : at + 16])).encode())
            start = at + 16
        else:
            size = int.from_bytes(short[at : at + _LENGTH], "big")
            start = at + _LENGTH + size
            pieces.append(_ENCODERS[mark](short[at + _LENGTH : start]))
    return b"".join((*pieces, short[start:]))
