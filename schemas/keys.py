"""Data keys of conversations: records sealed with one are gone when it is destroyed."""

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Protocol

KEY_BYTES = 32
"""Length of a data key: AES-256."""


class Destruction(StrEnum):
    """The reason why a data key was destroyed."""

    ERASED = "erased"
    """The records that it sealed were erased."""
    REPLACED = "replaced"
    """The records that it sealed stand again under a later key of the conversation."""


class KeyState(StrEnum):
    """The state of a data key."""

    CURRENT = "current"
    """New records of the conversation are sealed with it."""
    RETIRED = "retired"
    """Another one is current; what it sealed can still be read."""
    DESTROYED = "destroyed"
    """Only its tombstone is left."""


@dataclass(frozen=True, slots=True)
class DataKey:
    """A random key of one conversation."""

    id: str
    """32 hexadecimal digits, random; it stands in clear beside what the key seals."""
    secret: bytes = field(repr=False)
    """`KEY_BYTES` random bytes."""
    derived: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)
    """Objects made from the secret once, which live as long as it."""


@dataclass(frozen=True, slots=True)
class Destroyed:
    """The tombstone of a data key."""

    id: str
    why: Destruction
    at: datetime


@dataclass(frozen=True, slots=True)
class KeyRecord:
    """A key as a key store shows it, without its secret."""

    id: str
    state: KeyState
    created: datetime | None
    """`None` for a key that was destroyed before this store had it: after a restore from a backup."""
    destroyed: datetime | None = None
    why: Destruction | None = None


@dataclass(frozen=True, slots=True)
class KeyStoreStatus:
    """The identity and age of a key store; a copy from a backup has fewer tombstones than the store had."""

    id: str
    """Random, made with the store."""
    tombstones: int
    """Keys destroyed so far."""
    kek: int
    """Version of the operator's key that wraps new keys."""


class KeyStore(Protocol):
    """Data keys of conversations, in a store that nothing else uses: a lost key is a lost part of the log.

    ``conversation`` is a conversation key, or another name without a slash for what belongs to no conversation. Every
    method raises `Unavailable` when the store does not answer or is full.
    """

    async def current(self, conversation: str) -> DataKey:
        """The key that new records of a conversation are sealed with; made, and kept for good, where there is none."""
        ...

    async def get(self, key_id: str) -> DataKey | Destroyed:
        """A key by its id; raises `Unavailable` for one without a tombstone that the store does not have.

        Then the store is behind, or another one: wait, never skip what the key sealed.
        """
        ...

    async def replace(self, conversation: str) -> DataKey:
        """Make another key current; the old one can be read until it is destroyed."""
        ...

    async def destroy(self, key_id: str, why: Destruction) -> None:
        """Destroy a key and leave a tombstone, also of a key that the store does not have; the first reason stands.

        When it returns, no file of the store holds the key any more. After `Unavailable` a file may, although the
        tombstone stands: call it again.
        """
        ...

    async def keys(self, conversation: str) -> list[KeyRecord]:
        """All keys of a conversation, the oldest first."""
        ...

    async def status(self) -> KeyStoreStatus:
        """The identity of the store and the count of its tombstones."""
        ...
