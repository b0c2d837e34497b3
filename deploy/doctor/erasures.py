"""The check of erasures: whether those that were asked for are carried out, and whether Redis has seen them."""

from datetime import UTC, datetime, timedelta
from typing import Final
from uuid import uuid4

from eunoe.deploy.clients.erasures import (
    check_store_has_seen_erasures,
    open_erasures,
    read_erased,
    waiting_erasures,
)
from eunoe.deploy.doctor.findings import Findings
from eunoe.deploy.inspect.counted import counted
from eunoe.deploy.settings import Settings, reveal
from eunoe.schemas.erasure import ErasureLedger
from eunoe.schemas.errors import Refused, Unavailable

LONG: Final = timedelta(hours=1)
"""The wait from which an erasure is late."""
SOON: Final = timedelta(minutes=1)
"""The time within which an eraser has seen a request, also where it looks again only after a fault."""
_TRIED_S: Final = 1.0
"""Seconds for which a lease that is tried keeps an eraser away, should it not be given back."""
_SERVE: Final = "`eunoe erase serve`"


async def check_erasures(settings: Settings, findings: Findings) -> None:
    """Add how many erasures wait, and for how long, and whether ledger and Redis tell of the same erasures.

    Raises `Refused` for a ledger that cannot be used, `Unavailable` where it does not answer.
    """
    if reveal(settings.erasures):
        await _check_waiting(settings, findings)
    else:
        findings.note("no ledger of erasures is set: nothing can be erased, and no retention is kept (EUNOE_ERASURES)")
    if reveal(settings.redis_url):
        await _check_seen(settings, findings)


async def _check_seen(settings: Settings, findings: Findings) -> None:
    """Add what keeps workers from their start, or commands from the log: one of the two stores is an older copy."""
    for check in (check_store_has_seen_erasures, read_erased):
        try:
            await check(settings)
        except Unavailable:  # the part of Redis tells it
            return
        except Refused as fault:
            findings.fault(str(fault))


async def _check_waiting(settings: Settings, findings: Findings) -> None:
    async with open_erasures(settings) as ledger:
        waiting = await waiting_erasures(ledger)
        if not waiting:
            findings.ok("the ledger of erasures answers; no erasure waits")
            return
        waited = datetime.now(UTC) - min(waiting.values())
        at_work = await _is_at_work(ledger) if waited >= SOON else True
    _tell(len(waiting), waited, findings, at_work=at_work)


async def _is_at_work(ledger: ErasureLedger) -> bool:
    """Whether another process has the right to erase: only then it cannot be taken, and given back at once."""
    owner = f"doctor-{uuid4()}"
    if not await ledger.lease(owner, _TRIED_S):
        return True
    await ledger.release(owner)
    return False


def _tell(count: int, waited: timedelta, findings: Findings, *, at_work: bool) -> None:
    minutes = counted(round(waited.total_seconds() / 60), "minute")
    told = f"erasures that wait: {count}, the oldest for {minutes}"
    if waited < SOON:
        findings.ok(told)
    elif at_work:
        (findings.fault if waited >= LONG else findings.ok)(f"{told}; a process erases: look at its log")
    else:
        idle = f"{told}, and no process erases: is {_SERVE} running? It waits while a generation is being made"
        (findings.fault if waited >= LONG else findings.warn)(idle)
