"""`eunoe erase serve`: looks at the ledger of erasures again and again, and does what is there to do."""

import asyncio
import logging
import signal
from contextlib import suppress
from datetime import UTC, datetime
from time import monotonic

from eunoe.deploy.clients.erasures import is_pending, open_erasures
from eunoe.deploy.clients.live_settings import live_settings
from eunoe.deploy.generations.erase.loop import alone, work_off
from eunoe.deploy.generations.erase.retention import run_retention
from eunoe.deploy.generations.erase.run import Eraser
from eunoe.deploy.generations.repair import StillWritten
from eunoe.deploy.inspect.counted import counted
from eunoe.deploy.process.erasing import LATER_S, RETENTION_EVERY_S
from eunoe.deploy.settings import Settings
from eunoe.schemas.erasure import ErasureLedger, current_policies
from eunoe.schemas.errors import Refused, Unavailable

log = logging.getLogger(__name__)


async def serve_erasures(settings: Settings, *, once: bool, poll_s: float) -> None:
    """Work until SIGTERM or SIGINT, or with ``once`` until nothing is left; what is interrupted is finished later.

    Raises `Refused` where no ledger is set; with ``once`` also where erasures have to wait, and `Unavailable`.
    """
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    async with open_erasures(settings) as ledger:
        working = asyncio.ensure_future(
            _round(settings, ledger, sweeps=True) if once else _work(settings, ledger, poll_s)
        )
        stopping = asyncio.ensure_future(stop.wait())
        await asyncio.wait({working, stopping}, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if not working.done():
            working.cancel()
        with suppress(asyncio.CancelledError):
            await working


async def _work(settings: Settings, ledger: ErasureLedger, poll_s: float) -> None:
    swept, sweeps = float("-inf"), False
    while True:
        try:
            sweeps = monotonic() - swept >= RETENTION_EVERY_S and bool(current_policies(await ledger.retentions()))
            if sweeps or await is_pending(ledger):
                await _round(settings, ledger, sweeps=sweeps)
            swept = monotonic() if sweeps else swept
        except (Refused, Unavailable) as fault:  # also refused logins and embedders: they may change while it waits
            log.warning("erasures wait: %s", fault)
            if sweeps and isinstance(fault, StillWritten):  # all others are done, and that one has begun
                swept = monotonic()
            await asyncio.sleep(LATER_S)
        else:
            await asyncio.sleep(poll_s)


async def _round(settings: Settings, ledger: ErasureLedger, *, sweeps: bool) -> None:
    """Do all that is there to do. Raises `Refused` where the rest has to wait, `Unavailable`.

    `StillWritten` is raised when everything else is done.
    """
    async with alone(ledger):
        eraser = Eraser(await live_settings(settings), ledger)
        outcome = await work_off(eraser)
        for receipt in outcome.receipts:
            log.info("erased: request %s, %s", receipt.request_id, counted(receipt.utterances, "utterance"))
        for refused in outcome.refused:
            log.warning("request %s cannot be carried out", refused.request_id)
        if isinstance(outcome.waiting, Refused):
            raise outcome.waiting
        if sweeps:
            swept = await run_retention(eraser, datetime.now(UTC))
            log.info("retention: %s with sessions that were too old", counted(len(swept.receipts), "conversation"))
            outcome.waiting = outcome.waiting or swept.waiting
        if outcome.waiting is not None:
            raise outcome.waiting
