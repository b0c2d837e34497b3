"""The envelope of sealed bytes: zlib where it pays, then AES-256-GCM with a fresh nonce, bound to its place."""

import hashlib
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
_DRAW: Final = 256
"""Nonces of one draw."""
_NAMES: Final = b"eunoe names"


class _Nonces:
    """Random nonces, drawn many at a time: each draw would release the interpreter lock."""

    def __init__(self) -> None:
        self._drawn: list[bytes] = []
        os.register_at_fork(after_in_child=self._drawn.clear)  # or two processes would use the same ones

    def next(self) -> bytes:
        """A nonce that nothing else gets."""
        if not self._drawn:
            draw = os.urandom(NONCE_BYTES * _DRAW)
            self._drawn += [draw[at : at + NONCE_BYTES] for at in range(0, len(draw), NONCE_BYTES)]
        try:
            return self._drawn.pop()
        except IndexError:  # another thread took the last one
            return os.urandom(NONCE_BYTES)


_nonces = _Nonces()


class Tampered(EunoeError):
    """Sealed bytes that were changed, moved to another place, or sealed with another key."""


def seal(key: DataKey, plain: bytes, place: tuple[str, ...], *, deflate: bool) -> bytes:
    """Nonce, ciphertext and tag of ``plain``, which opens only under the same key and at the same ``place``."""
    body = _DEFLATED + zlib.compress(plain, _FASTEST) if deflate and len(plain) >= _DEFLATE_FROM else _PLAIN + plain
    nonce = _nonces.next()
    return nonce + _cipher(key).encrypt(nonce, body, _bound(place))


def unseal(key: DataKey, sealed: bytes, place: tuple[str, ...]) -> bytes:
    """The bytes that were sealed; raises `Tampered` where they, the key or the place are not what they were."""
    try:
        body = _cipher(key).decrypt(sealed[:NONCE_BYTES], sealed[NONCE_BYTES:], _bound(place))
    except (InvalidTag, ValueError):  # ValueError: no whole nonce
        raise Tampered(f"not sealed with the key {key.id:.40} at {'/'.join(place):.200}, or changed since") from None
    return zlib.decompress(body[1:]) if body[:1] == _DEFLATED else body[1:]


def sealed_name(key: DataKey, name: str) -> str:
    """A name made of users' words, as 32 hexadecimal digits that nobody can guess without the key.

    A keyed BLAKE2b (RFC 7693), which takes half the time of an HMAC.
    """
    return sealed_names(key, [name])[0]


def sealed_names(key: DataKey, names: list[str]) -> list[str]:
    """`sealed_name` of each."""
    secret = key.derived.get("names")
    if secret is None:
        secret = key.derived["names"] = hmac.digest(key.secret, _NAMES, "sha256")
    return [hashlib.blake2b(name.encode(), key=secret, digest_size=NAME_BYTES).hexdigest() for name in names]


def _cipher(key: DataKey) -> AESGCM:
    found: AESGCM | None = key.derived.get("cipher")
    if found is None:
        found = key.derived["cipher"] = AESGCM(key.secret)
    return found


def _bound(place: tuple[str, ...]) -> bytes:
    """The place as bytes; no two places have the same ones."""
    joined = "\0".join(place)
    if joined.count("\0") < len(place):  # so it splits in one way only
        return b"\0" + joined.encode("utf-8", "surrogatepass") if place else b""
    parts = [part.encode("utf-8", "surrogatepass") for part in place]
    return b"\1" + b"".join(len(part).to_bytes(4, "big") + part for part in parts)
