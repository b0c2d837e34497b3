"""The last steps of erasures, taken once for several conversations: rewriting files costs what all of them hold.

Files rewritten → of each conversation: marks in the state store → a look whether it still has what was erased →
receipts in the ledger.
"""

import logging
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime

from eunoe.deploy.clients.shared import open_redis, open_store
from eunoe.deploy.event_loop import let_go
from eunoe.deploy.generations.erase.files import rewrite_files
from eunoe.deploy.generations.erase.in_generation import InGeneration
from eunoe.deploy.generations.erase.limits import door_kept, not_covered
from eunoe.deploy.generations.erase.receipt import NotCovered, Outcome, Receipt, signed
from eunoe.deploy.generations.handled_log import INTAKE
from eunoe.deploy.inspect.counted import counted
from eunoe.deploy.settings import Settings
from eunoe.schemas.decisions import Scope
from eunoe.schemas.erasure import Erasure, ErasureDone, ErasureLedger
from eunoe.schemas.errors import EunoeError, Unavailable
from eunoe.schemas.ports import StateStore
from eunoe.workers.stores.erasures.ledgers import AppliedErasures

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Erased:
    """A conversation of which everything is erased but what the files of the servers keep."""

    erasures: Sequence[Erasure]
    began: int
    """The time, in seconds, before its state was replaced."""
    generations: Sequence[Settings]
    """The settings of those that it was erased in."""
    outcome: Outcome
    """The part of its receipts that is known; the steps of the batch complete it."""
    work: Sequence[InGeneration] = ()
    """The steps in each generation, the live one last."""

    @property
    def key(self) -> str:
        """The key of the conversation."""
        return self.erasures[0].key


@dataclass(frozen=True, slots=True)
class Finished:
    """The end of a batch."""

    receipts: list[Receipt] = field(default_factory=list)
    faults: list[EunoeError] = field(default_factory=list)
    """Those of conversations that are to be carried out again."""


async def finish(settings: Settings, ledger: ErasureLedger, batch: Sequence[Erased]) -> Finished:
    """Rewrite the files, then mark each conversation's erasures and write their receipts, in order.

    Those of a conversation in which Redis has lost what was written are to be carried out again. Raises `Unavailable`
    where files could not be rewritten: then all are.
    """
    let_go()  # what the derivations of the batch have left
    generations = {one.names.generation: one for erased in batch for one in erased.generations}
    files = await rewrite_files(list(generations.values()))
    places = not_covered(settings, files, await door_kept(settings))
    receipts, lost = list[Receipt](), list[EunoeError]()
    async with AsyncExitStack() as closing:
        marks = AppliedErasures(await closing.enter_async_context(open_redis(settings)), settings.prefix)
        stores: dict[str, StateStore] = {}
        for name, one in generations.items():
            stores[name] = await closing.enter_async_context(open_store(one))
        for erased in batch:
            try:
                for each in erased.erasures:
                    await marks.add(erased.key, each.request_id)
                await _check_kept(erased, stores)  # a store that goes back now lacks the marks
                receipts += [await _receive(each, erased.outcome, places, ledger) for each in erased.erasures]
            except Unavailable as fault:
                lost.append(fault)
    return Finished(receipts, lost)


async def _check_kept(erased: Erased, stores: Mapping[str, StateStore]) -> None:
    """Raise `Unavailable` where Redis went back behind the swap, as by a failover: it has the erased again.

    The swap's ledger counts from its own time.
    """
    for one in erased.generations:
        ledger = await stores[one.names.generation].ledger(Scope(INTAKE, erased.key))
        if ledger.lates < erased.began:
            raise Unavailable(
                "Redis has lost what the erasure wrote: `eunoe erase replay` carries it out again", "Redis"
            )


async def _receive(erasure: Erasure, outcome: Outcome, places: Sequence[NotCovered], ledger: ErasureLedger) -> Receipt:
    """Write an erasure's receipt into the ledger; from then on it is done."""
    receipt = signed(outcome.receipt_of(erasure, datetime.now(UTC), places), await ledger.secret())
    text = receipt.model_dump_json()
    await ledger.finish(ErasureDone(request_id=erasure.request_id, key=erasure.key, at=receipt.done, receipt=text))
    log.info("erased: request %s, %s", receipt.request_id, counted(receipt.utterances, "utterance"))
    return receipt
