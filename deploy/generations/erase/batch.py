"""Carries out the erasures of many conversations: the last steps are taken for a batch of them.

What an interruption leaves unfinished stays begun in the ledger, and is carried out again: one batch at most.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from time import monotonic
from typing import Final

from eunoe.deploy.generations.erase.finishing import Erased
from eunoe.deploy.generations.erase.receipt import Receipt
from eunoe.deploy.generations.erase.run import Eraser
from eunoe.deploy.generations.handled_log import StillWritten
from eunoe.schemas.erasure import Erasure, ErasureRefused
from eunoe.schemas.errors import EunoeError, Refused, Unavailable

MAX_BATCH: Final = 50
"""Conversations of a batch."""
BATCH_S: Final = 30.0
"""Seconds after which a batch takes no further conversation, or those that the last one took to finish: where stores
are large, half of the time goes into their files, not nearly all of it."""


@dataclass(slots=True)
class WorkedOff:
    """The outcome of a round."""

    receipts: list[Receipt] = field(default_factory=list)
    refused: list[ErasureRefused] = field(default_factory=list)
    waiting: Refused | Unavailable | None = None
    """The fault for which the rest waits: one of the installation, or else of the first conversation that new records
    kept from being derived again; `None`: nothing is left."""


@dataclass(slots=True)
class Batches:
    """Erases one conversation after the other, and finishes them batch by batch; made by `in_batches`."""

    eraser: Eraser
    outcome: WorkedOff
    _batch: list[Erased] = field(default_factory=list)
    _full_at: float = 0.0
    _finish_s: float = 0.0
    """Seconds that the last batch took to finish."""

    async def carry_out(self, erasures: Sequence[Erasure]) -> None:
        """Erase what has begun in one conversation, if anything, and finish a batch that is full.

        A conversation that is still written to is left for a later round. Raises as `Eraser.erase` and `Eraser.finish`
        do for any other reason.
        """
        if not self._batch:
            self._full_at = monotonic() + max(BATCH_S, self._finish_s)
        try:
            if erasures:
                self._batch.append(await self.eraser.erase(erasures))
        except StillWritten as fault:
            self.outcome.waiting = self.outcome.waiting or fault
        if len(self._batch) >= MAX_BATCH or monotonic() >= self._full_at:
            await self.finish()

    async def finish(self) -> None:
        """Finish what was erased since the last batch, if anything. Raises as `Eraser.finish` does."""
        batch, self._batch = self._batch, []
        if batch:
            began = monotonic()
            self.outcome.receipts += await self.eraser.finish(batch)
            self._finish_s = monotonic() - began


@asynccontextmanager
async def in_batches(eraser: Eraser, outcome: WorkedOff) -> AsyncIterator[Batches]:
    """Carry out erasures in batches during the block; the last one is finished at its end.

    So it is where an erasure fails: that one and those after it wait, those before it have their receipts.
    """
    batches = Batches(eraser, outcome)
    try:
        yield batches
    except Exception:
        with suppress(EunoeError):  # the first fault is told
            await batches.finish()
        raise
    await batches.finish()
