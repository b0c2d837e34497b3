"""Reads the files of snapshots: no more of one than was written, and none for ever that cannot be read."""

from dataclasses import dataclass, field
from time import monotonic
from typing import Final

from eunoe.schemas.errors import FileUnreadable, SnapshotLost
from eunoe.workers.stores.cold.mark import COLD, ColdMark

UNREADABLE_S: Final = 30.0
"""Seconds for which a file that alone cannot be read is tried again, before its conversation is held."""
MAX_UNREADABLE: Final = 1_000
"""Files for which the time is remembered."""


@dataclass(slots=True)
class SnapshotFiles:
    """The files of snapshots, and those that could not be read."""

    _since: dict[str, float] = field(default_factory=dict)

    async def read(self, mark: ColdMark, name: str, size: int) -> bytes | None:
        """The file of a snapshot of ``size`` bytes, and one byte more where it is longer; `None` where there is none.

        ``mark``: that of the cold store. Raises `Unavailable`; `SnapshotLost` with the reason where this file alone
        could not be read for `UNREADABLE_S`: waiting on would stop the other conversations of its partition.
        """
        try:
            found = await mark.store.get(name, size + 1)
        except FileUnreadable as fault:
            await mark.check()  # or it is the fault of the store
            if len(self._since) >= MAX_UNREADABLE:
                self._since.clear()
            since = self._since.setdefault(name, monotonic())
            if monotonic() - since < UNREADABLE_S:
                raise
            raise SnapshotLost(f"it cannot be read: {fault}", COLD) from fault
        self._since.pop(name, None)
        return found
