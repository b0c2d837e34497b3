"""The record of a generation's vector index in the state store: the identities of the collections that it fills."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from eunoe.workers.stores.redis.connection import RedisClient, RedisConnection, as_table
from eunoe.workers.stores.redis.keys import Keys

_RESTORING = "restoring"


@dataclass(frozen=True, slots=True)
class IndexRecord:
    """The collections that a generation has filled, and whether they are being filled again."""

    identities: Mapping[str, str] = field(default_factory=dict)
    """Name of a collection in Qdrant → its identity. Empty for a generation that no worker has opened."""
    restoring_since: str | None = None
    """The time at which `eunoe reindex` began to fill an index that was lost; `None` means that none does."""


def lost_reason(record: IndexRecord, found: Mapping[str, str]) -> str | None:
    """The reason why searches would miss points; `None` where they find all.

    ``found``: the collections that Qdrant has, with their identities.
    """
    if record.restoring_since is not None:
        return f"it is being restored since {record.restoring_since}: `eunoe reindex` completes it, also when repeated"
    gone = sorted(name for name in record.identities if name not in found)
    new = sorted(name for name, identity in record.identities.items() if found.get(name, identity) != identity)
    if not gone and not new:
        return None
    lost = ", ".join(gone or new)
    what = f"its collections {lost} are gone" if gone else f"its collections {lost} are new"
    return f"Qdrant came back without its data: {what}; run `eunoe reindex`"


class RedisIndexRecord:
    """Reads and writes the record, one hash in Redis. Every method raises `Unavailable`."""

    def __init__(self, client: RedisClient, keys: Keys) -> None:
        self._redis = RedisConnection(client)
        self._key = keys.index_record()

    async def read(self) -> IndexRecord:
        """The record; an empty one where there is none."""
        fields = as_table(await self._redis.command("HGETALL", self._key))
        restoring = fields.pop(_RESTORING, None)
        return IndexRecord(fields, restoring)

    async def adopt(self, identities: Mapping[str, str]) -> None:
        """Record collections that are not recorded yet."""
        for name, identity in identities.items():
            await self._redis.command("HSETNX", self._key, name, identity)

    async def begin(self, since: str) -> None:
        """Record that the index is being restored: searches wait from now on."""
        await self._redis.command("HSETNX", self._key, _RESTORING, since)

    async def finish(self, identities: Mapping[str, str]) -> None:
        """Record the restored collections, and that they are complete."""
        words = [word for place in identities.items() for word in place]
        await self._redis.command("HSET", self._key, *words)
        await self._redis.command("HDEL", self._key, _RESTORING)
