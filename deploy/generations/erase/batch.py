"""Carries out the erasures of many conversations: the last steps are taken for a batch of them.

What an interruption leaves unfinished stays begun in the ledger, and is carried out again: one batch at most.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from itertools import islice
from time import monotonic
from typing import Final

from eunoe.deploy.generations.erase.finishing import Erased
from eunoe.deploy.generations.erase.receipt import Receipt
from eunoe.deploy.generations.erase.run import Eraser
from eunoe.deploy.generations.handled_log import StillWritten
from eunoe.schemas.erasure import Erasure, ErasureRefused
from eunoe.schemas.errors import EunoeError, Refused, Unavailable

log = logging.getLogger(__name__)

MAX_BATCH: Final = 50
"""Conversations of a batch."""
BATCH_S: Final = 30.0
"""Seconds after which a batch takes no further conversation, or those that the last one took to finish: where stores
are large, half of the time goes into their files, not nearly all of it."""
TOGETHER: Final = 8
"""Conversations that are erased at the same time, as `Eraser.turn` lets them: servers answer one while another is
derived."""
MAX_FAILED: Final = 3
"""Conversations in a row that meet a fault before the others are left alone: a server is away."""

Begin = Callable[[], Awaitable[Sequence[Erasure]]]
"""Gives the erasures that are to be carried out in one conversation; it may put them into the ledger."""


@dataclass(slots=True)
class WorkedOff:
    """The outcome of a round."""

    receipts: list[Receipt] = field(default_factory=list)
    refused: list[ErasureRefused] = field(default_factory=list)
    waiting: Refused | Unavailable | None = None
    """The fault for which the rest waits: one of the installation, or else of the first conversation that met one, or
    that new records kept from being derived again; `None`: nothing is left."""
    failed: set[str] = field(default_factory=set)
    """The keys of conversations that met another fault: in a later round they come last."""


@dataclass(slots=True)
class Batches:
    """Erases in conversations, several at a time, and finishes them batch by batch; made by `in_batches`."""

    eraser: Eraser
    outcome: WorkedOff
    fault: Exception | None = None
    """The first fault of a conversation, which waits until the others are done."""
    stopped: bool = False
    """Whether no further conversation is taken."""
    total: int = 0
    """The conversations that there are to do; 0: not known, and no progress over them is told."""
    _done: int = 0
    _batch: list[Erased] = field(default_factory=list)
    _full_at: float = 0.0
    _finish_s: float = 0.0
    """Seconds that the last batch took to finish."""
    _failed: int = 0
    """Conversations in a row that met a fault."""

    async def carry_out(self, conversations: Iterable[tuple[str, Begin]]) -> None:
        """Begin and erase in each conversation, several at a time, and finish each batch that is full.

        Key → what begins there. One that is still written to, or meets a fault, is left for a later round, and keeps no
        other waiting. Raises `Refused`, which is of the installation; the first fault where `MAX_FAILED` conversations
        in a row have met one, which then is that of a server; and as `finish` does.
        """
        left = iter(conversations)
        while not self.stopped and (some := list(islice(left, TOGETHER))):
            if not self._batch:
                self._full_at = monotonic() + max(BATCH_S, self._finish_s)
            results = await asyncio.gather(*(self._erase(*one) for one in some), return_exceptions=True)
            self._batch += [one for one in results if not isinstance(one, BaseException | None)]
            for (key, _), result in zip(some, results, strict=True):
                if isinstance(result, BaseException | None):
                    self.eraser.release(key)
                self._judge(key, result if isinstance(result, BaseException) else None)
            self._done += len(some)
            if self.total > 1:
                self.eraser.report("conversations", self._done, self.total)
            if len(self._batch) >= MAX_BATCH or monotonic() >= self._full_at:
                await self.finish()

    async def _erase(self, key: str, begin: Begin) -> Erased | None:
        async with self.eraser.turn(key):
            erasures = await begin()
            return await self.eraser.erase(erasures) if erasures else None

    def _judge(self, key: str, fault: BaseException | None) -> None:
        """Raise the fault of a conversation, unless it is to wait."""
        if fault is None:
            self._failed = 0
            self.outcome.failed.discard(key)
        elif isinstance(fault, StillWritten):
            self.outcome.waiting = self.outcome.waiting or fault
        elif isinstance(fault, Refused) or not isinstance(fault, Exception):
            raise fault
        else:
            log.warning("%s: not erased: %s", key, str(fault) or repr(fault))
            self.fault, self._failed = self.fault or fault, self._failed + 1
            self.outcome.failed.add(key)
            if self._failed >= MAX_FAILED:
                raise self.fault

    def tell(self) -> None:
        """Let the rest wait for the first fault, if any; raises one that is of no server."""
        if self.fault is not None and not isinstance(self.fault, Unavailable):
            raise self.fault
        if isinstance(self.outcome.waiting, StillWritten | None):
            self.outcome.waiting = self.fault or self.outcome.waiting

    async def finish(self) -> None:
        """Finish what was erased since the last batch, if anything. Raises as `Eraser.finish` does."""
        batch, self._batch = self._batch, []
        if batch:
            began = monotonic()
            finished = await self.eraser.finish(batch)
            self.outcome.receipts += finished.receipts
            self.fault = self.fault or next(iter(finished.faults), None)
            self._finish_s = monotonic() - began


@asynccontextmanager
async def in_batches(eraser: Eraser, outcome: WorkedOff) -> AsyncIterator[Batches]:
    """Carry out erasures in batches during the block; the last one is finished at its end.

    Conversations that met a fault wait for it (`WorkedOff.waiting`), all others have their receipts. A fault that ends
    the block is raised, and so is one that is of no server.
    """
    batches = Batches(eraser, outcome)
    try:
        yield batches
    except Exception:
        with suppress(EunoeError):  # the first fault is told
            await batches.finish()
        raise
    try:
        await batches.finish()
    except EunoeError as fault:
        raise batches.fault or fault from None
    batches.tell()
