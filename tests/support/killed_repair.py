"""Derives a conversation again, as an erasure does, and ends by SIGKILL right after its state was replaced.

``python -m tests.support.killed_repair KEY``
"""

import asyncio
import os
import signal
import sys
from unittest.mock import patch

from eunoe.deploy.clients.bootstrap import open_clients
from eunoe.deploy.clients.connect import connected_settings
from eunoe.deploy.generations.handled_log import HandledLog
from eunoe.deploy.generations.repair import Repaired, Repairer
from eunoe.deploy.settings import Settings


async def repair_fenced(settings: Settings, key: str) -> Repaired:
    """Derive a conversation again; a decision that intake has in hand is refused, too."""
    async with open_clients(settings) as clients:
        log = HandledLog(settings, clients, settings.partitions)
        repairer = Repairer(settings, clients, clients.transplants, log, fences_intake=True)
        return await repairer.repair(key)


async def _kill(*_: object) -> int:
    os.kill(os.getpid(), signal.SIGKILL)
    return 0


if __name__ == "__main__":
    # the first step after the swap
    with patch("eunoe.deploy.generations.repair.write_index", _kill):
        asyncio.run(repair_fenced(connected_settings(), sys.argv[1]))
