"""A `MemoryStore` whose documents leave the main memory where there are many: for one very long conversation."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
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
        self._blocks: list[SpillTable] = []
        self._tables: defaultdict[tuple[str, str, str], SpillTable] = defaultdict(self._spill.table)  # type: ignore[assignment]

    @property
    def has_spilled(self) -> bool:
        """Whether the file has documents."""
        return self._spill.file is not None

    def blocks(self) -> "SpilledBlocks":
        """An empty place for blocks, which count as documents and leave the memory with them."""
        self._blocks.append(self._spill.table())
        return SpilledBlocks(self._blocks[-1])

    async def commit(self, scope: Scope, commit: Commit) -> str | None:
        """As that of `MemoryStore`."""
        # not after some of the writes: a commit that is repeated must find what stood before
        self._spill.make_room([*self._tables.values(), *self._blocks], self._most)
        return await super().commit(scope, commit)

    async def fetch(self, stage: str, key: str, table: str, ids: Sequence[str]) -> list[str | None]:
        """As that of `MemoryStore`."""
        documents = self._tables.get((stage, key, table))
        return [None] * len(ids) if documents is None else documents.fetch(ids)

    def _exported(self, stage: str, key: str, table: str) -> Mapping[str, str]:
        """All of a table: where it is long, read from the file as it is asked for."""
        return self._tables[stage, key, table] if self.has_spilled else super()._exported(stage, key, table)


class SpilledBlocks:
    """Blocks of bytes in the order in which they were added, each a document of a table."""

    def __init__(self, table: SpillTable) -> None:
        self._table = table
        self._count = 0

    def append(self, block: bytes) -> None:
        """Add a block behind the others; touches no file."""
        self._table[str(self._count)] = block.decode("latin-1")  # the documents of a table are texts
        self._count += 1

    def __iter__(self) -> Iterator[bytes]:
        """The blocks, of which one at a time is in memory for it; raises `Unavailable` where one cannot be read."""
        for number in range(self._count):
            yield self._table.peek(str(number)).encode("latin-1")
