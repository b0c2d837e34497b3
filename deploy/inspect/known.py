"""The sessions that memory knew at a time of the log."""

from datetime import UTC, datetime
from typing import Final

from eunoe.schemas.ports import StateStore
from eunoe.workers.update.reads import read_steps

_EPOCH: Final = datetime(1, 1, 1, tzinfo=UTC)


async def last_known(store: StateStore, key: str, last: int, time: datetime) -> int:
    """The last session that memory knew at a time of the log, up to ``last``; 0: none. Reads one row a step."""
    known, unknown = 0, last + 1
    while unknown - known > 1:
        middle = (known + unknown) // 2
        if await _known_from(store, key, middle, known) <= time:
            known = middle
        else:
            unknown = middle
    return known


async def _known_from(store: StateStore, key: str, session: int, floor: int) -> datetime:
    """The time at which a session became known; of a skipped one, that of the session before."""
    for number in range(session, floor, -1):
        found = await read_steps(store, key, [number])
        if number in found:
            return found[number].known_from
    return _EPOCH
