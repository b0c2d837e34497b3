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
from eunoe.deploy.observability.rounds import Faults
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
    _seen: object = None
    _faults: Faults = field(default_factory=lambda: Faults("the look for erasures", logging.WARNING))
    _process: "asyncio.subprocess.Process | Forked | None" = field(default=None)

    async def run(self) -> None:
        """Work until cancelled; then the eraser is told to stop, and goes on at the next start."""
        try:
            while True:
                pause = await self._look()
                await asyncio.sleep(pause)
        finally:
            await end_process(self._process, _STOP_S)

    def kill(self) -> None:
        """Send SIGKILL to the eraser, if one runs."""
        if self._process is not None and self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()

    async def _look(self) -> float:
        """Erase where there is work; the seconds until the next look. A fault is told, and nothing counts as seen."""
        now = self._stamp()
        if now == self._seen and monotonic() - self._swept < RETENTION_EVERY_S:
            return LOOK_S
        self._seen = None
        try:
            if await self._has_work():
                return LOOK_S if await self._erase() == Exit.OK else LATER_S
        except Exception as fault:
            self._faults.tell(fault)
            return LATER_S
        self._seen = now
        return LOOK_S

    def _stamp(self) -> object:
        with contextlib.suppress(OSError):
            there = self.ledger.stat()
            return there.st_mtime_ns, there.st_size
        return None

    async def _has_work(self) -> bool:
        """Whether the ledger has erasures to carry out, or policies to look after; raises `Unavailable`."""
        async with open_erasures(self.settings) as ledger:
            sweeps = monotonic() - self._swept >= RETENTION_EVERY_S
            policies = current_policies(await ledger.retentions()) if sweeps else {}
            if sweeps and not policies:
                self._swept = monotonic()
            return bool(policies) or await is_pending(ledger)

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
