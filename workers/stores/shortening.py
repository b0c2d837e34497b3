"""Writes the UUIDs and the base64 of a JSON text as bytes, and back: they are noise to a compressor."""

import re
from base64 import b64decode, b64encode, urlsafe_b64decode, urlsafe_b64encode
from typing import Final

# no UTF-8 text contains these bytes
_OWN_ID, _UUID, _SAFE, _STANDARD = b"\xfc", b"\xfd", b"\xfe", b"\xff"
# whole strings only: a search for a quotation mark is quick
_NOISE: Final = re.compile(rb'"(?:([0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12})|([A-Za-z0-9_+/-]{64,}={0,2}))"')
_RAW: Final = re.compile(rb"[\xfc-\xff]")
_LENGTH: Final = 4
"""Bytes of the length before bytes that were base64."""


def shortened(plain: bytes, own_id: bytes) -> bytes:
    """The text with UUIDs and base64 as bytes; ``own_id`` is shortened most."""

    def short(found: re.Match[bytes]) -> bytes:
        uuid, base64 = found.groups()
        if uuid is None:
            return _from_base64(found[0], base64)
        return _OWN_ID if uuid == own_id else _UUID + bytes.fromhex(uuid.replace(b"-", b"").decode())

    return _NOISE.sub(short, plain)


def _from_base64(quoted: bytes, text: bytes) -> bytes:
    """The bytes that base64 stands for, after a mark and their length; the quoted text where it stands for none."""
    standard = b"+" in text or b"/" in text
    try:
        raw = b64decode(text, validate=True) if standard else urlsafe_b64decode(text)
    except ValueError:
        return quoted
    if (b64encode(raw) if standard else urlsafe_b64encode(raw)) != text:
        return quoted
    return (_STANDARD if standard else _SAFE) + len(raw).to_bytes(_LENGTH, "big") + raw


def lengthened(short: bytes, own_id: bytes) -> bytes:
    """The text of `shortened`."""
    pieces, start = list[bytes](), 0
    while (found := _RAW.search(short, start)) is not None:
        mark, at = found[0], found.end()
        pieces.append(short[start : at - 1])
        if mark == _OWN_ID:
            pieces.append(b'"%b"' % own_id)
            start = at
        elif mark == _UUID:
            start = at + 16
            digits = short[at:start].hex()
            uuid = f'"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"'
            pieces.append(uuid.encode())
        else:
            begin = at + _LENGTH
            start = begin + int.from_bytes(short[at:begin], "big")
            encode = urlsafe_b64encode if mark == _SAFE else b64encode
            pieces.append(b'"%b"' % encode(short[begin:start]))
    pieces.append(short[start:])
    return b"".join(pieces)
