"""`eunoe erase serve`: looks at the ledger of erasures again and again, and does what is there to do."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from time import monotonic
from typing import Final

from eunoe.deploy.clients.erasures import is_pending, open_erasures, unseen_erasures
from eunoe.deploy.clients.live_settings import live_settings
from eunoe.deploy.event_loop import keep_for_good, stop_signal
from eunoe.deploy.generations.erase.batch import WorkedOff
from eunoe.deploy.generations.erase.loop import alone, work_off
from eunoe.deploy.generations.erase.retention import run_retention, trusted_now
from eunoe.deploy.generations.erase.run import Eraser
from eunoe.deploy.inspect.counted import counted
from eunoe.deploy.observability.health import HealthState, Phase
from eunoe.deploy.process.erasing import LATER_S, RETENTION_EVERY_S
from eunoe.deploy.settings import Settings
from eunoe.schemas.erasure import ErasureLedger, current_policies
from eunoe.schemas.errors import Refused, Unavailable

log = logging.getLogger(__name__)

_ERASURES: Final = "erasures"
_UNSEEN_EVERY_S: Final = 5.0
"""Seconds between two looks whether Redis still has what was erased; a stage looks as often whether it went back."""


async def serve_erasures(settings: Settings, *, once: bool, poll_s: float) -> None:
    """Work until SIGTERM or SIGINT, or with ``once`` until nothing is left; what is interrupted is finished later.

    Serves the pages of its health at ``settings.health``, but not with ``once``. Raises `Refused` where no ledger is
    set or that address is in use; with ``once`` also where erasures have to wait, and `Unavailable`.
    """
    stop = stop_signal()
    health = HealthState()
    async with _served(health, None if once else settings.health), open_erasures(settings) as ledger:
        health.phase = Phase.RUNNING
        keep_for_good()
        working = asyncio.ensure_future(
            _round(settings, ledger, EarlierRounds(), sweeps=True) if once else _work(settings, ledger, poll_s, health)
        )
        stopping = asyncio.ensure_future(stop.wait())
        await asyncio.wait({working, stopping}, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if not working.done():
            working.cancel()
        with suppress(asyncio.CancelledError):
            await working


@asynccontextmanager
async def _served(health: HealthState, address: str | None) -> AsyncIterator[None]:
    """Serve the pages of the process's health meanwhile: it lives while its event loop turns."""
    if address is None:
        yield
        return
    # the libraries of the pages only where they are served
    from eunoe.deploy.observability.counters import WorkerMeter  # noqa: PLC0415
    from eunoe.deploy.observability.metrics import MetricSources  # noqa: PLC0415
    from eunoe.deploy.observability.server import serve_health  # noqa: PLC0415

    async with serve_health(MetricSources(WorkerMeter(), health), address) as url:
        log.info("health: %s/live, %s/ready", url, url)
        yield


@dataclass(slots=True)
class EarlierRounds:
    """The memory that a process has of its earlier rounds."""

    swept: float = float("-inf")
    """Time of the last run of retention that ended: what it left waiting has begun."""
    failed: set[str] = field(default_factory=set)
    """The keys of conversations that met a fault."""


async def _work(settings: Settings, ledger: ErasureLedger, poll_s: float, health: HealthState) -> None:
    rounds, sweeps = EarlierRounds(), False
    unseen = UnseenErasures(settings, ledger)
    while True:
        try:
            sweeps = monotonic() - rounds.swept >= RETENTION_EVERY_S and bool(
                current_policies(await ledger.retentions())
            )
            if sweeps or await is_pending(ledger) or await unseen.found():
                await _round(settings, ledger, rounds, sweeps=sweeps)
        except (Refused, Unavailable) as fault:  # also refused logins and embedders: they may change while it waits
            log.warning("erasures wait: %s", fault)
            health.held[_ERASURES] = str(fault)
            await asyncio.sleep(LATER_S)
        else:
            health.held.pop(_ERASURES, None)
            await asyncio.sleep(poll_s)


@dataclass(slots=True)
class UnseenErasures:
    """Looks now and then whether Redis lacks finished erasures: it went back, and shows again what was erased."""

    settings: Settings
    ledger: ErasureLedger
    _looked: float = float("-inf")

    async def found(self) -> bool:
        """Whether there are any; False between two looks, and while Redis is away."""
        if monotonic() - self._looked < _UNSEEN_EVERY_S:
            return False
        try:
            lacking, done = await unseen_erasures(self.settings, self.ledger)
        except Unavailable:
            return False
        if lacking:  # the next look is at once, until they are carried out
            log.error("REDIS WENT BACK: it has not seen %d of %d finished erasures: erasing again", lacking, done)
            return True
        self._looked = monotonic()
        return False


async def _round(settings: Settings, ledger: ErasureLedger, rounds: EarlierRounds, *, sweeps: bool) -> None:
    """Do all that is there to do. Raises `Refused` where the rest has to wait, `Unavailable`.

    The fault of some conversations alone is raised when everything else is done.
    """
    async with alone(ledger):
        eraser = Eraser(await live_settings(settings), ledger)
        outcome = await work_off(eraser, WorkedOff(failed=rounds.failed))
        for refused in outcome.refused:
            log.warning("request %s cannot be carried out", refused.request_id)
        if isinstance(outcome.waiting, Refused):
            raise outcome.waiting
        if sweeps:
            swept = await run_retention(eraser, await trusted_now(eraser.settings))
            rounds.swept = monotonic()
            log.info("retention: %s with sessions that were too old", counted(len(swept.receipts), "conversation"))
            outcome.waiting = outcome.waiting or swept.waiting
        if outcome.waiting is not None:
            raise outcome.waiting
