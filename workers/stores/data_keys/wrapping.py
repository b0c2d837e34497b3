"""Wrapping of data keys: a key store holds them sealed with a key of the operator's, which it does not hold."""

import base64
import binascii
import hashlib
import hmac
import os
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, Self

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from eunoe.schemas.errors import Refused
from eunoe.schemas.keys import KEY_BYTES, DataKey, Destruction, KeyRecord, KeyState

NONCE_BYTES: Final = 12
ROOT: Final = "root"
"""The name under which a store keeps its own secret."""
_ENTRY: Final = re.compile(r"(?:([1-9][0-9]{0,5}):)?([A-Za-z0-9+/_-]{43}=?)")


def new_data_key() -> DataKey:
    """A random key under a random id."""
    return DataKey(secrets.token_hex(16), secrets.token_bytes(KEY_BYTES))


@dataclass(frozen=True, slots=True)
class WrappedKey:
    """A secret as a store holds it."""

    version: int
    """Version of the operator's key."""
    sealed: bytes
    """Nonce, ciphertext and tag of AES-256-GCM."""


@dataclass(frozen=True, slots=True)
class OperatorKeys:
    """The operator's keys by version; the highest one wraps new keys."""

    by_version: Mapping[int, bytes] = field(repr=False)
    """Version → `KEY_BYTES` bytes; never empty."""

    @classmethod
    def parse(cls, text: str, source: str) -> Self:
        """Read keys from text: ``VERSION:KEY`` each, or one ``KEY`` alone (version 1), with spaces or commas.

        ``KEY`` is 32 bytes in base64. Raises `Refused`, which names ``source`` and never quotes the text.
        """
        found: dict[int, bytes] = {}
        for word in re.split(r"[\s,]+", text.strip()):
            match = _ENTRY.fullmatch(word)
            if match is None:
                raise Refused(f"{source}: no key of 32 bytes in base64: make one with `openssl rand -base64 32`")
            version = int(match[1] or 1)
            if version in found:
                raise Refused(f"{source}: version {version} is there twice")
            found[version] = _decoded(match[2], source)
        return cls(found)

    @property
    def version(self) -> int:
        """The version that wraps new keys."""
        return max(self.by_version)

    def new_root(self) -> WrappedKey:
        """The identity and the secret of a new store, together under the name `ROOT`."""
        made = new_data_key()
        return self.wrap(ROOT, bytes.fromhex(made.id) + made.secret)

    def wrap(self, name: str, secret: bytes) -> WrappedKey:
        """Seal a secret under its name with the newest key."""
        nonce = os.urandom(NONCE_BYTES)
        sealed = AESGCM(self.by_version[self.version]).encrypt(nonce, secret, name.encode())
        return WrappedKey(self.version, nonce + sealed)

    def unwrap(self, name: str, wrapped: WrappedKey, store: str) -> bytes:
        """The secret; raises `Refused` where the operator's key is missing or another one."""
        key = self.by_version.get(wrapped.version)
        if key is None:
            raise Refused(
                f"{store} needs version {wrapped.version} of the operator's key, which EUNOE_KEYS__KEK lacks: add it"
            )
        try:
            return AESGCM(key).decrypt(wrapped.sealed[:NONCE_BYTES], wrapped.sealed[NONCE_BYTES:], name.encode())
        except InvalidTag:
            raise Refused(
                f"{store} was not made with this operator's key (version {wrapped.version}): set EUNOE_KEYS__KEK to"
                " the key that it was made with"
            ) from None


def _decoded(text: str, source: str) -> bytes:
    standard = text.rstrip("=").replace("-", "+").replace("_", "/")
    try:
        key = base64.b64decode(standard + "=", validate=True)
    except binascii.Error:
        key = b""
    if len(key) != KEY_BYTES:
        raise Refused(f"{source}: no key of 32 bytes in base64: make one with `openssl rand -base64 32`")
    return key


@dataclass(frozen=True, slots=True)
class StoreSecrets:
    """Names and secrets of one opened store."""

    keks: OperatorKeys
    store: str
    """The store in words, for messages."""
    root: bytes = field(default=b"", repr=False)
    """The store's identity, and its own secret, by which it names conversations; empty until it is opened."""

    @classmethod
    def opened(cls, keks: OperatorKeys, store: str, root: WrappedKey) -> Self:
        """Those of a store with this root; raises `Refused` where the operator's key is another one."""
        return cls(keks, store, keks.unwrap(ROOT, root, store))

    @property
    def id(self) -> str:
        """The identity of the store."""
        return self.root[:-KEY_BYTES].hex()

    def subject(self, conversation: str) -> str:
        """The name of a conversation in the store: an HMAC, so that tombstones name nobody."""
        return hmac.new(self.root[-KEY_BYTES:], conversation.encode(), hashlib.sha256).hexdigest()[:32]

    def wrap(self, key: DataKey) -> WrappedKey:
        """A data key as the store holds it."""
        return self.keks.wrap(key.id, key.secret)

    def unwrap(self, key_id: str, wrapped: WrappedKey) -> DataKey:
        """The data key; raises `Refused` where the operator's key is another one."""
        return DataKey(key_id, self.keks.unwrap(key_id, wrapped, self.store))


def key_record(id_: str, current: bool, created: str | None, destroyed: str | None, why: str | None) -> KeyRecord:
    """A key as a store lists it, from times and reason as they are stored."""
    state = KeyState.CURRENT if current else KeyState.RETIRED
    return KeyRecord(
        id_,
        state if destroyed is None else KeyState.DESTROYED,
        None if created is None else datetime.fromisoformat(created),
        None if destroyed is None else datetime.fromisoformat(destroyed),
        None if why is None else Destruction(why),
    )
