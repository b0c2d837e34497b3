"""Writes the UUIDs and the base64 of a JSON text as bytes, and back: they are noise to a compressor."""

import re
from base64 import b64decode, b64encode, urlsafe_b64decode, urlsafe_b64encode
from typing import Final

# no UTF-8 text contains these bytes
_OWN_ID, _UUID, _SAFE, _STANDARD = b"\xfc", b"\xfd", b"\xfe", b"\xff"
# whole strings only: a search for a quotation mark is quick
_NOISE: Final = re.compile(rb'"(?:([0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12})|([A-Za-z0-9_+/-]{64,}={0,2}))"')
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
    pieces, start, size = list[bytes](), 0, len(short)
    # the next place of each mark: a search for one byte goes through a long text in no time
    own, uuid, safe, standard = (_next(short, mark, 0) for mark in (_OWN_ID, _UUID, _SAFE, _STANDARD))
    while (at := min(own, uuid, safe, standard)) < size:
        pieces.append(short[start:at])
        if at == own:
            pieces.append(b'"%b"' % own_id)
            start = at + 1
        elif at == uuid:
            start = at + 17
            digits = short[at + 1 : start].hex()
            pieces.append(f'"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"'.encode())
        else:
            begin = at + 1 + _LENGTH
            start = begin + int.from_bytes(short[at + 1 : begin], "big")
            pieces.append(b'"%b"' % (urlsafe_b64encode if at == safe else b64encode)(short[begin:start]))
        own = own if own >= start else _next(short, _OWN_ID, start)
        uuid = uuid if uuid >= start else _next(short, _UUID, start)
        safe = safe if safe >= start else _next(short, _SAFE, start)
        standard = standard if standard >= start else _next(short, _STANDARD, start)
    pieces.append(short[start:])
    return b"".join(pieces)


def _next(short: bytes, mark: bytes, start: int) -> int:
    """The next place of a mark; the length of the text where there is none."""
    at = short.find(mark, start)
    return at if at >= 0 else len(short)
