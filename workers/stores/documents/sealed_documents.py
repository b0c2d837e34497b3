"""Documents of the state store, packed, and sealed with the data key of their conversation.

A sealed document is a mark, the id of its key (16 bytes) and the envelope of `eunoe.streams.sealed.envelope` around the
packed text (see `eunoe.workers.stores.documents.packing`). Plain ones, which are JSON text, and packed ones are read as
they are.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from sys import getsizeof
from typing import Final

import orjson

from eunoe.schemas.decisions import Scope
from eunoe.schemas.errors import StateDamaged, Unavailable
from eunoe.schemas.keys import DataKey, Destroyed
from eunoe.streams.sealed.envelope import Tampered, seal, sealed_name, sealed_names, unseal
from eunoe.workers.stores.data_keys.cached import CachedKeys
from eunoe.workers.stores.documents.packing import PACKER, is_packed
from eunoe.workers.stores.redis.connection import as_text
from eunoe.workers.text.caches import CacheBySize

MARK: Final = b"\x01"
"""First byte of a sealed document; no JSON text begins with it."""
HEAD_BYTES: Final = len(MARK) + 16
"""Bytes before the envelope: the mark, and the id of the key."""
UNPACKED_BYTES: Final = 4_000_000
"""Bytes of the cache of unpacked documents, packed and unpacked forms together."""
_ENTRY_BYTES: Final = 300
"""Bytes of a cache entry without the document."""
WORD_TABLES: Final = frozenset({"terms", "said"})
"""Tables whose ids are words of users, or digests of their sentences: they are stored as HMACs."""

Stored = bytes | str
"""A value as Redis gives it."""


@dataclass(frozen=True, slots=True)
class DocumentGroup:
    """Documents that are stored together. A seal names its group, so that no document can be moved to another one."""

    conversation: str
    name: str
    """Stage and table, or another name within the conversation."""
    worded: bool = False
    """Whether ids are words of users."""
    brief: bool = False
    """Whether documents are short-lived, and not worth packing."""


def table_group(stage: str, key: str, table: str) -> DocumentGroup:
    """The group of a table's documents."""
    return DocumentGroup(key, f"{stage}/{table}", worded=table in WORD_TABLES)


def parked_group(scope: Scope, number: int) -> DocumentGroup:
    """The group of the parked events of a session."""
    return DocumentGroup(scope.key, f"{scope.stage}!parked/{number}", brief=True)


def outbox_group(scope: Scope) -> DocumentGroup:
    """The group of a stage's outbox."""
    return DocumentGroup(scope.key, f"{scope.stage}@{scope.request_id}", brief=True)


class SealedDocuments:
    """Packs, seals and opens documents.

    ``keys`` `None`: new ones are not sealed, and sealed ones are waited for.
    """

    def __init__(self, keys: CachedKeys | None, store: str) -> None:
        self._keys = keys
        self._store = store
        # asks of one conversation read the same segments again, and unpacking them is a seventh of their time
        self._unpacked: CacheBySize[tuple[bytes, str], str] = CacheBySize(UNPACKED_BYTES, "unpacked documents")

    async def key(self, conversation: str, used: str = "") -> DataKey | None:
        """The key for new documents; ``used``: the id of the one that the conversation's state is sealed with.

        `None` means plain. Raises `Unavailable` where the key is not there, or destroyed.
        """
        if self._keys is None:
            if used:
                raise self._without_keys()
            return None
        found = await (self._keys.get(used) if used else self._keys.current(conversation))
        if isinstance(found, Destroyed):
            raise Unavailable(f"the state of {conversation} is being erased", self._store)
        return found

    async def note(self, conversation: str, used: str) -> None:
        """Drop the cached current key where the state is sealed with another one."""
        if used and self._keys is not None and (await self._keys.current(conversation)).id != used:
            self._keys.forget(conversation)

    def seal(self, key: DataKey | None, group: DocumentGroup, id_: str, text: str) -> tuple[str, Stored]:
        """The id and the document as they are stored."""
        if key is None:
            return id_, self._packed(group, text, id_)
        name = sealed_name(key, id_) if group.worded else id_
        packed = self._packed(group, orjson.dumps([id_, text]).decode() if group.worded else text, name)
        plain = packed if isinstance(packed, bytes) else packed.encode()
        return name, _head(key) + seal(key, plain, (group.conversation, group.name, name), deflate=False)

    @staticmethod
    def _packed(group: DocumentGroup, text: str, id_: str) -> Stored:
        return text if group.brief else PACKER.pack(text, id_)

    async def names(self, group: DocumentGroup, ids: Sequence[str]) -> Sequence[str]:
        """The ids under which documents of a group may be stored: sealed ones first, then plain ones."""
        if not group.worded or self._keys is None:
            return ids
        return [*sealed_names(await self._keys.current(group.conversation), list(ids)), *ids]

    async def open(self, group: DocumentGroup, stored: Mapping[str, Stored | None]) -> dict[str, tuple[str, str]]:
        """Stored id → id and text; those whose key was destroyed are left out.

        Raises `Unavailable` where a key is missing, `StateDamaged` where a document was changed.
        """
        ids = {
            value[len(MARK) : HEAD_BYTES].hex()
            for value in stored.values()
            if isinstance(value, bytes) and _is_sealed(value)
        }
        keys = {id_: await self._get(id_) for id_ in ids}
        found = {}
        for name, value in stored.items():
            if value is None:
                continue
            if isinstance(value, str) or not _is_sealed(value):
                found[name] = (name, self._text(value, group, name))
                continue
            key = keys[value[len(MARK) : HEAD_BYTES].hex()]
            if isinstance(key, DataKey):
                found[name] = self._opened(key, group, name, value)
        return found

    def _opened(self, key: DataKey, group: DocumentGroup, name: str, value: bytes) -> tuple[str, str]:
        try:
            plain = unseal(key, value[HEAD_BYTES:], (group.conversation, group.name, name))
        except Tampered as fault:
            raise self._damaged(group) from fault
        unpacked = self._text(plain, group, name, keep=False)
        if not group.worded:
            return name, unpacked
        id_, text = orjson.loads(unpacked)
        return id_, text

    def _text(self, value: Stored, group: DocumentGroup, name: str, *, keep: bool = True) -> str:
        """The text of a document that is not sealed; of one that was, do not ``keep`` it: it would outlive its key."""
        if not isinstance(value, bytes) or not is_packed(value):
            return as_text(value)
        known = self._unpacked.get((value, name)) if keep else None
        if known is not None:
            return known
        try:
            text = PACKER.unpack(value, name)
        except ValueError as fault:
            raise self._damaged(group) from fault
        if keep:
            self._unpacked.put((value, name), text, getsizeof(value) + getsizeof(text) + _ENTRY_BYTES)
        return text

    def _damaged(self, group: DocumentGroup) -> StateDamaged:
        where = f"a document of {group.conversation} in {group.name}"
        return StateDamaged(f"{where} was changed or moved; run `eunoe repair` to derive it again", self._store)

    async def _get(self, key_id: str) -> DataKey | Destroyed:
        if self._keys is None:
            raise self._without_keys()
        return await self._keys.get(key_id)

    def _without_keys(self) -> Unavailable:
        return Unavailable(
            f"{self._store} holds sealed documents: set EUNOE_KEYS__STORE and EUNOE_KEYS__KEK as they were", self._store
        )


def head_of(key_id: str) -> bytes:
    """The bytes before an envelope that this key sealed."""
    return MARK + bytes.fromhex(key_id)


def _head(key: DataKey) -> bytes:
    found: bytes | None = key.derived.get("head")
    if found is None:
        found = key.derived["head"] = head_of(key.id)
    return found


def _is_sealed(value: bytes) -> bool:
    return value.startswith(MARK)
