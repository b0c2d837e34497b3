"""Handled positions in memory."""

from collections.abc import Sequence

from eunoe.schemas.position_ports import Handled, Positions, ReadPartition, Stored, Witness
from eunoe.workers.stores.state.memory_store import MemoryStore

SERVER = "log"


class MemoryHandledPositions:
    """In-memory `HandledPositions` beside a `MemoryStore`: one server."""

    verifies_separately = False

    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        self._positions: dict[ReadPartition, Handled] = {}
        self._owners: dict[ReadPartition, str] = {}

    async def stored(self, reader: ReadPartition) -> Positions:
        """The position handled last, of the one server."""
        return {SERVER: self._positions.get(reader, Handled())}

    async def stored_for(self, reader: ReadPartition, key: str) -> tuple[str, Handled]:
        """The one server, and what it shows."""
        del key
        return SERVER, self._positions.get(reader, Handled())

    async def take(self, reader: ReadPartition, owner: str, position: int) -> Positions:
        """Let only ``owner`` record positions from now on; a stored one above ``position`` is lowered to it."""
        self._owners[reader] = owner
        now = self._positions.get(reader, Handled())
        self._positions[reader] = Handled(min(position, now.position), now.writes + 1)
        return await self.stored(reader)

    async def store(
        self, reader: ReadPartition, owner: str, position: int, expected: Positions, witnesses: Sequence[Witness] = ()
    ) -> Stored:
        """Record a handled position, unless less is stored than expected; see `HandledPositions.store`."""
        before, least = self._positions.get(reader, Handled()), expected.get(SERVER, Handled())
        owned = self._owners.get(reader, owner) == owner
        missing = tuple([witness for witness in witnesses if not await self._shows(witness)])
        if owned and not missing and before.position >= least.position and before.writes >= least.writes:
            self._positions[reader] = Handled(max(before.position, position), before.writes + 1)
        return Stored({SERVER: before}, owned, missing)

    async def _shows(self, witness: Witness) -> bool:
        ledger = await self._store.ledger(witness.scope)
        if ledger.applied < witness.applied or ledger.lates < witness.lates:
            return False
        is_unsent = ledger.outbox is not None and (ledger.applied, ledger.lates) == (witness.applied, witness.lates)
        if witness.sent and is_unsent:
            return False
        if witness.slot is None or ledger.applied >= witness.number:
            return True
        return witness.slot in await self._store.parked(witness.scope, witness.number)
