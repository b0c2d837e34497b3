"""Starts an eraser when erasures are asked for, and ends it when they are done: between them, no process waits."""

import asyncio
import contextlib
import logging
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import Final

from eunoe.deploy.clients.erasures import is_pending, open_erasures
from eunoe.deploy.exits import Exit, meaning
from eunoe.deploy.local.children import dies_with_parent
from eunoe.deploy.local.private import open_private
from eunoe.deploy.process.forked import Forked, ForkServer, end_process
from eunoe.deploy.settings import Settings
from eunoe.schemas.erasure import current_policies
from eunoe.schemas.errors import Unavailable

log = logging.getLogger(__name__)

COMMAND: Final = ("erase", "serve", "--once")
LOOK_S: Final = 2.0
"""Seconds between two looks at the ledger; a file that did not change is not opened."""
LATER_S: Final = 30.0
"""Seconds until what was left undone is tried again."""
RETENTION_EVERY_S: Final = 6 * 3600.0
"""Seconds between two runs of retention."""
_STOP_S: Final = 10.0


@dataclass(slots=True)
class EraserOnDemand:
    """Starts `eunoe erase serve --once`, one at a time. ``ledger``: the file of the ledger in ``settings``."""

    settings: Settings
    ledger: Path
    environment: Mapping[str, str]
    log_file: Path
    forks: ForkServer | None = None
    _swept: float = float("-inf")
    _process: "asyncio.subprocess.Process | Forked | None" = field(default=None)

    async def run(self) -> None:
        """Work until cancelled; then the eraser is told to stop, and goes on at the next start."""
        seen: object = None
        try:
            while True:
                now, pause = self._stamp(), LOOK_S
                if now != seen or monotonic() - self._swept >= RETENTION_EVERY_S:
                    seen = now
                    if await self._has_work():
                        pause = LOOK_S if await self._erase() == Exit.OK else LATER_S
                        seen = None  # look again
                await asyncio.sleep(pause)
        finally:
            await end_process(self._process, _STOP_S)

    def _stamp(self) -> object:
        with contextlib.suppress(OSError):
            there = self.ledger.stat()
            return there.st_mtime_ns, there.st_size
        return None

    async def _has_work(self) -> bool:
        try:
            async with open_erasures(self.settings) as ledger:
                sweeps = monotonic() - self._swept >= RETENTION_EVERY_S
                policies = current_policies(await ledger.retentions()) if sweeps else {}
                if sweeps and not policies:
                    self._swept = monotonic()
                return bool(policies) or await is_pending(ledger)
        except Unavailable as fault:
            log.warning("no eraser is started: %s", fault)
            return False

    async def _erase(self) -> int:
        with open_private(self.log_file, "ab") as file:
            self._process = await self._begin(file.fileno())
        code = await self._process.wait()
        if code == Exit.OK:
            self._swept = monotonic()
        else:
            log.warning("the eraser ended (%s, %d); see %s", meaning(code), code, self.log_file)
        return code

    async def _begin(self, output: int) -> "asyncio.subprocess.Process | Forked":
        variables = {**os.environ, **self.environment}
        if self.forks is not None:
            with contextlib.suppress(Unavailable):
                return await self.forks.start(COMMAND, variables, (output, output))
        command = dies_with_parent([sys.executable, "-m", "eunoe.deploy.cli", *COMMAND])
        return await asyncio.create_subprocess_exec(*command, env=variables, stdout=output, stderr=output)
