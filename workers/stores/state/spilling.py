"""A `MemoryStore` whose documents leave the main memory where there are many: for one very long conversation."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final

from eunoe.schemas.decisions import Commit, Scope
from eunoe.workers.stores.state.memory_store import MemoryStore
from eunoe.workers.stores.state.spill_tables import Spill, SpillTable

HELD_BYTES: Final = 12_000_000
"""Bytes of documents held in memory; a conversation of 300 sessions has that many."""


class SpillingStore(MemoryStore):
    """A `MemoryStore` of at most ``held_bytes`` of documents in memory, the last used ones; the others are in a file.

    Its methods raise `Unavailable`, too, where the file cannot be written; then nothing is changed.
    """

    def __init__(self, held_bytes: int | None = None) -> None:
        super().__init__()
        self._spill = Spill()
        self._most = HELD_BYTES if held_bytes is None else held_bytes
        self._tables: defaultdict[tuple[str, str, str], SpillTable] = defaultdict(self._spill.table)  # type: ignore[assignment]

    @property
    def has_spilled(self) -> bool:
        """Whether the file has documents."""
        return self._spill.file is not None

    async def commit(self, scope: Scope, commit: Commit) -> str | None:
        """As that of `MemoryStore`."""
        # not after some of the writes: a commit that is repeated must find what stood before
        self._spill.make_room(self._tables.values(), self._most)
        return await super().commit(scope, commit)

    async def fetch(self, stage: str, key: str, table: str, ids: Sequence[str]) -> list[str | None]:
        """As that of `MemoryStore`."""
        documents = self._tables.get((stage, key, table))
        return [None] * len(ids) if documents is None else documents.fetch(ids)

    def _exported(self, stage: str, key: str, table: str) -> Mapping[str, str]:
        """All of a table: where it is long, read from the file as it is asked for."""
        return self._tables[stage, key, table] if self.has_spilled else super()._exported(stage, key, table)
