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
from eunoe.deploy.generations.erase.run import Eraser, NotNow
from eunoe.deploy.process.erasing import LATER_S, RETENTION_EVERY_S
from eunoe.deploy.settings import Settings
from eunoe.schemas.erasure import ErasureLedger, current_policies
from eunoe.schemas.errors import Unavailable

log = logging.getLogger(__name__)


async def serve_erasures(settings: Settings, *, once: bool, poll_s: float) -> None:
    """Work until SIGTERM or SIGINT, or with ``once`` until nothing is left; what is interrupted is finished later.

    Raises `Refused` where no ledger is set; with ``once`` also `Unavailable` and `NotNow`.
    """
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    async with open_erasures(settings) as ledger:
        working = asyncio.ensure_future(_work_once(settings, ledger) if once else _work(settings, ledger, poll_s))
        stopping = asyncio.ensure_future(stop.wait())
        await asyncio.wait({working, stopping}, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if not working.done():
            working.cancel()
        with suppress(asyncio.CancelledError):
            await working


async def _work(settings: Settings, ledger: ErasureLedger, poll_s: float) -> None:
    swept = float("-inf")
    while True:
        try:
            sweeps = monotonic() - swept >= RETENTION_EVERY_S and bool(current_policies(await ledger.retentions()))
            done = not (sweeps or await is_pending(ledger)) or await _round(settings, ledger, sweeps=sweeps)
            swept = monotonic() if sweeps and done else swept
        except (NotNow, Unavailable) as fault:
            log.warning("erasures wait: %s", fault)
            done = False
        await asyncio.sleep(poll_s if done else LATER_S)


async def _work_once(settings: Settings, ledger: ErasureLedger) -> None:
    if not await _round(settings, ledger, sweeps=True):
        raise NotNow("a generation is being made; erasures wait until that has ended")


async def _round(settings: Settings, ledger: ErasureLedger, *, sweeps: bool) -> bool:
    """Do all that is there to do; returns whether nothing is left. Raises `NotNow`, `Unavailable`."""
    async with alone(ledger):
        eraser = Eraser(await live_settings(settings), ledger)
        outcome = await work_off(eraser)
        for receipt in outcome.receipts:
            log.info("erased: request %s, %d utterances", receipt.request_id, receipt.utterances)
        for refused in outcome.refused:
            log.warning("request %s cannot be carried out", refused.request_id)
        if outcome.waiting is not None:
            log.warning("erasures wait: %s", outcome.waiting)
            return False
        if sweeps:
            receipts = await run_retention(eraser, datetime.now(UTC))
            log.info("retention: %d conversations had sessions that were too old", len(receipts))
    return True
