"""The envelope of sealed bytes: zlib where it pays, then AES-256-GCM with a fresh nonce, bound to its place."""

import hmac
import os
import zlib
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from eunoe.schemas.errors import EunoeError
from eunoe.schemas.keys import DataKey

NONCE_BYTES: Final = 12
NAME_BYTES: Final = 16
_PLAIN, _DEFLATED = b"\x00", b"\x01"
_DEFLATE_FROM: Final = 256
"""Bytes from which on compression is worth its 45 microseconds."""
_FASTEST: Final = 1
_NAMES: Final = b"eunoe names"


class Tampered(EunoeError):
    """Sealed bytes that were changed, moved to another place, or sealed with another key."""


def seal(key: DataKey, plain: bytes, place: tuple[str, ...], *, deflate: bool) -> bytes:
    """Nonce, ciphertext and tag of ``plain``, which opens only under the same key and at the same ``place``."""
    body = _DEFLATED + zlib.compress(plain, _FASTEST) if deflate and len(plain) >= _DEFLATE_FROM else _PLAIN + plain
    nonce = os.urandom(NONCE_BYTES)
    return nonce + AESGCM(key.secret).encrypt(nonce, body, _bound(place))


def unseal(key: DataKey, sealed: bytes, place: tuple[str, ...]) -> bytes:
    """The bytes that were sealed; raises `Tampered` where they, the key or the place are not what they were."""
    try:
        body = AESGCM(key.secret).decrypt(sealed[:NONCE_BYTES], sealed[NONCE_BYTES:], _bound(place))
    except (InvalidTag, ValueError):  # ValueError: no whole nonce
        raise Tampered(f"not sealed with the key {key.id:.40} at {'/'.join(place):.200}, or changed since") from None
    return zlib.decompress(body[1:]) if body[:1] == _DEFLATED else body[1:]


def sealed_name(key: DataKey, name: str) -> str:
    """A name made of users' words, as 32 hexadecimal digits that nobody can guess without the key."""
    return sealed_names(key, [name])[0]


def sealed_names(key: DataKey, names: list[str]) -> list[str]:
    """`sealed_name` of each."""
    secret = hmac.digest(key.secret, _NAMES, "sha256")
    return [hmac.digest(secret, name.encode(), "sha256")[:NAME_BYTES].hex() for name in names]


def _bound(place: tuple[str, ...]) -> bytes:
    """The place as bytes; no two places have the same ones."""
    parts = [part.encode("utf-8", "surrogatepass") for part in place]
    return b"".join(len(part).to_bytes(4, "big") + part for part in parts)
