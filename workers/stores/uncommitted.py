"""The state store as a stage sees it while it decides several sessions before the first of them is committed."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from eunoe.schemas.decisions import Commit, Ledger, Scope
from eunoe.schemas.ports import StateStore
from eunoe.workers.stores.overlay import TableOverlay


class UncommittedState:
    """`StateStore` for one stage, with the writes of decisions that are not committed on top of its own tables.

    All else passes through.
    """

    def __init__(self, store: StateStore, stage: str) -> None:
        self._store = store
        self._stage = stage
        self._overlays: dict[str, TableOverlay] = {}

    @contextmanager
    def deciding(self, key: str) -> Iterator[TableOverlay]:
        """Show what is written to the overlay in a conversation's tables, until the end of the block."""
        overlay = self._overlays[key] = TableOverlay(self._store)
        try:
            yield overlay
        finally:
            del self._overlays[key]

    async def ledger(self, scope: Scope) -> Ledger:
        """The ledger as stored; raises `Unavailable`."""
        return await self._store.ledger(scope)

    async def commit(self, scope: Scope, commit: Commit) -> bool:
        """Run the transaction; returns whether the fence let it pass. Raises `Unavailable`."""
        return await self._store.commit(scope, commit)

    async def mark_sent(self, scope: Scope, number: int) -> None:
        """Drop the outbox, only if it is still that of ``number``; raises `Unavailable`."""
        await self._store.mark_sent(scope, number)

    async def fetch(self, stage: str, key: str, table: str, ids: Sequence[str]) -> list[str | None]:
        """The documents of a table by id, in the order asked; raises `Unavailable`."""
        return await self._tables(stage, key).fetch(stage, key, table, ids)

    async def scan(self, stage: str, key: str, table: str) -> dict[str, str]:
        """A whole table: id → document; raises `Unavailable`."""
        return await self._tables(stage, key).scan(stage, key, table)

    def _tables(self, stage: str, key: str) -> StateStore | TableOverlay:
        overlay = self._overlays.get(key) if stage == self._stage else None
        return self._store if overlay is None else overlay
