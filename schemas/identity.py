"""Deterministic ids and keys: the same source has the same id in every process and every replay."""

import hashlib
from functools import lru_cache
from urllib.parse import quote, unquote
from uuid import UUID, uuid5

_NAMESPACE = UUID("5c6a8f2e-7d53-5f0b-9e52-2f6c1b7a9d41")


_CACHED_CHARS = 500


def conversation_key(tenant: str, conversation_id: str) -> str:
    """The key of all records of a conversation: ``<tenant>/<conversation_id>``, both percent-encoded."""
    is_short = len(tenant) + len(conversation_id) <= _CACHED_CHARS
    return (_written_key if is_short else _written_key.__wrapped__)(tenant, conversation_id)


# cached: each event of a conversation names it
@lru_cache(maxsize=2_048)
def _written_key(tenant: str, conversation_id: str) -> str:
    return f"{quote(tenant, safe='')}/{quote(conversation_id, safe='')}"


def split_key(key: str) -> tuple[str, str]:
    """Tenant and conversation id of a `conversation_key`; raises ``ValueError`` for any other text."""
    tenant, slash, conversation_id = key.partition("/")
    names = unquote(tenant), unquote(conversation_id)
    if not slash or conversation_key(*names) != key:
        raise ValueError(f"not a conversation key: {key!r}")
    return names


def derive_id(key: str, session: int, stage: str, index: int | str) -> str:
    """The UUIDv5 of a stage's product, from conversation key, session number, stage and index in the session."""
    return str(uuid5(_NAMESPACE, f"{key}\n{session}\n{stage}\n{index}"))


def content_digest(data: bytes) -> str:
    """A short digest (16 hex digits) that distinguishes two contents of the same id."""
    return hashlib.sha256(data).hexdigest()[:16]
