"""Watches the disk of a data directory, for the process that owns it."""

import logging
from pathlib import Path
from typing import Final

from eunoe.deploy.local.room import lacking_room
from eunoe.deploy.observability.rounds import Faults, repeat

log = logging.getLogger(__name__)

EVERY_S: Final = 5.0
"""Seconds between two looks."""


class RoomWatch:
    """Tells of the room in ``directory`` when it has changed."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._lacking = False

    async def look(self) -> None:
        """Log where the vector index has begun to wait for room, and where it has room again."""
        lacking = lacking_room(self._directory)
        if lacking is not None and not self._lacking:
            log.error("memory is not written: %s", lacking)
        elif lacking is None and self._lacking:
            log.warning("there is room again: memory is written")
        self._lacking = lacking is not None


async def report_lacking_room(directory: Path) -> None:
    """Log forever where the disk of ``directory`` is nearly full: the stages wait then."""
    await repeat(RoomWatch(directory).look, EVERY_S, Faults("the look at the room on the disk"))
