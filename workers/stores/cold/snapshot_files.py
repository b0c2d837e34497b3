"""Reads the files of snapshots: no more of one than was written, and none for ever that cannot be read."""

from dataclasses import dataclass, field
from time import monotonic
from typing import Final

from eunoe.schemas.errors import FileUnreadable, SnapshotLost, Unavailable
from eunoe.workers.stores.cold.mark import COLD, ColdMark

UNREADABLE_S: Final = 30.0
"""Seconds for which a file that alone cannot be read is tried again, before its conversation is held."""
APART_S: Final = 300.0
"""Seconds after which a further fault of a file counts as its first."""
MAX_UNREADABLE: Final = 1_000
"""Files for which the time is remembered."""


@dataclass(slots=True)
class SnapshotFiles:
    """The files of snapshots, and those that could not be read."""

    _faults: dict[str, tuple[float, float]] = field(default_factory=dict)
    """File → the times of its first and its latest fault, while the store answered each time."""

    async def read(self, mark: ColdMark, name: str, size: int) -> bytes | None:
        """The file of a snapshot of ``size`` bytes, and one byte more where it is longer; `None` where there is none.

        ``mark``: that of the cold store. Raises `Unavailable`; `SnapshotLost` with the reason where this file alone
        could not be read for `UNREADABLE_S`: waiting on would stop the other conversations of its partition.
        """
        try:
            found = await mark.store.get(name, size + 1)
        except FileUnreadable as fault:
            await self._check_store(mark, name)
            if self._lasts(name):
                raise SnapshotLost(f"it cannot be read: {fault}", COLD) from fault
            raise
        self._faults.pop(name, None)
        return found

    async def _check_store(self, mark: ColdMark, name: str) -> None:
        """Raise `Unavailable` where the fault of a file is that of the store."""
        try:
            await mark.check()
        except Unavailable:
            self._faults.pop(name, None)
            raise

    def _lasts(self, name: str) -> bool:
        """Note a fault of a file; returns whether it has lasted for `UNREADABLE_S`."""
        now = monotonic()
        first, latest = self._faults.get(name, (now, now))
        if now - latest >= APART_S:
            first = now
        if len(self._faults) >= MAX_UNREADABLE:
            self._faults.clear()
        self._faults[name] = first, now
        return now - first >= UNREADABLE_S
