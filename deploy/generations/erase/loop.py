"""Works off the ledger of erasures: one eraser at a time, under a lease that ends by itself when its process dies."""

import asyncio
import logging
from collections.abc import AsyncIterator, Collection, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Final, TypeVar
from uuid import uuid4

from eunoe.deploy.clients.erasures import open_erasures
from eunoe.deploy.generations.erase.batch import Batches, WorkedOff, in_batches
from eunoe.deploy.generations.erase.run import Eraser
from eunoe.deploy.generations.handled_log import Unhandled
from eunoe.deploy.settings import Settings
from eunoe.schemas.erasure import Erasure, ErasureLedger, ErasureLevel, ErasureRefused, ErasureRequest
from eunoe.schemas.errors import ErasedAlready, Refused, RequestRefused, Unavailable

log = logging.getLogger(__name__)

Entry = TypeVar("Entry", Erasure, ErasureRequest)

LEASE_S: Final = 20.0
"""Seconds for which the lease of a process that died keeps others away."""
_TRY_S: Final = 0.5


async def work_off(eraser: Eraser, outcome: WorkedOff | None = None, prefix: str = "") -> WorkedOff:
    """Finish begun erasures, then carry out the requests: those of one conversation together, in their order.

    So a conversation is derived once for all that wait in it; files are rewritten once for several conversations. A
    request that is at fault itself is refused in the ledger, for good. One that meets an installation where nothing can
    be erased now stays, with those after it; one in a conversation that is still written to, or of which intake has not
    handled all, stays alone, and so does one that meets a fault. Raises `Unavailable` where several in a row do, and
    `Refused` where a begun erasure has to wait; ``outcome`` has what was done before. ``prefix``: of the keys of the
    conversations that are looked at.
    """
    outcome = outcome or WorkedOff()
    async with replace(eraser, goes_on=True).kept() as kept, in_batches(kept, outcome) as batches:
        unfinished = _failed_last(by_conversation(await kept.unfinished(), prefix), outcome.failed)
        requested = _failed_last(by_conversation(await kept.requested(), prefix), outcome.failed)
        keys = [*(some[0].key for some in unfinished), *(some[0].key for some in requested)]
        batches.total = len(keys)
        kept.expect(keys)
        await batches.carry_out((some[0].key, partial(begun_before, some)) for some in unfinished)
        await batches.carry_out((some[0].key, partial(_begin, batches, some)) for some in requested)
    return outcome


async def begun_before(erasures: Sequence[Erasure]) -> Sequence[Erasure]:
    """Erasures that are in the ledger already, as what begins in their conversation (`Batches.carry_out`)."""
    return erasures


async def _begin(batches: Batches, requests: Sequence[ErasureRequest]) -> list[Erasure]:
    """The erasures that the requests begin, in one conversation; those after one that has to wait wait with it.

    Where nothing can be erased now, no further conversation is taken. Raises as `Eraser.begin` does where a server does
    not answer.
    """
    begun, outcome = list[Erasure](), batches.outcome
    async with batches.eraser.planning() as planning:
        for request in requests:
            try:
                begun.append(await planning.begin(request))
            except RequestRefused as fault:
                refused = await _refuse(batches.eraser.ledger, request, str(fault))
                if isinstance(fault, ErasedAlready) and request.level is ErasureLevel.TENANT:
                    continue  # nothing of it is left, as was wanted
                outcome.refused.append(refused)
            except Refused as fault:  # a login, a certificate, an embedder, a generation that is being made
                outcome.waiting, batches.stopped = fault, True
                break
            except Unhandled as fault:  # the others in it wait for the same
                outcome.waiting = outcome.waiting or fault
                break
    return begun


async def _refuse(ledger: ErasureLedger, request: ErasureRequest, reason: str) -> ErasureRefused:
    refused = ErasureRefused(request_id=request.request_id, key=request.key, at=datetime.now(UTC), reason=reason)
    await ledger.refuse(refused)
    return refused


def by_conversation(entries: Iterable[Entry], prefix: str) -> list[list[Entry]]:
    """The entries of each conversation together, in their order; conversations in the order of their first ones.

    ``prefix``: of the keys of those that are wanted.
    """
    found: dict[str, list[Entry]] = {}
    for entry in entries:
        if entry.key.startswith(prefix):
            found.setdefault(entry.key, []).append(entry)
    return list(found.values())


def _failed_last(conversations: list[list[Entry]], failed: Collection[str]) -> list[list[Entry]]:
    """Those that met a fault in the last round behind the others: many of them hold up nobody."""
    return sorted(conversations, key=lambda entries: entries[0].key in failed)


@asynccontextmanager
async def alone(ledger: ErasureLedger, seconds: float = LEASE_S) -> AsyncIterator[None]:
    """Hold the right to erase during the block; waits while another process has it.

    The block is cancelled, with `Unavailable`, when the right is lost. Raises `Unavailable`.
    """
    owner = str(uuid4())
    told = False
    while not await ledger.lease(owner, seconds):
        if not told:
            log.warning("another process erases now, or died a moment ago: waiting until it has ended")
            told = True
        await asyncio.sleep(_TRY_S)
    try:
        async with asyncio.TaskGroup() as group:
            keeping = group.create_task(_keep(ledger, owner, seconds))
            yield
            keeping.cancel()
    except BaseExceptionGroup as faults:
        raise faults.exceptions[0] from None
    finally:
        with suppress(Unavailable):
            await ledger.release(owner)


@asynccontextmanager
async def no_erasure(settings: Settings) -> AsyncIterator[None]:
    """Let no erasure run during the block; waits for one that does. Without a ledger of erasures there is none.

    Raises `Refused` for an unusable ledger, `Unavailable`.
    """
    if settings.erasures is None:
        yield
        return
    async with open_erasures(settings) as ledger, alone(ledger):
        yield


async def _keep(ledger: ErasureLedger, owner: str, seconds: float) -> None:
    while True:
        await asyncio.sleep(seconds / 4)
        if not await ledger.lease(owner, seconds):
            raise Unavailable("another process erases now: this one was too slow", "the ledger of erasures")
