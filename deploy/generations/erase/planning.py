"""Plans erasures: finds in the log what of a conversation a request takes, and makes its entry for the ledger."""

import secrets
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from eunoe.deploy.clients.bootstrap import Clients
from eunoe.deploy.generations.erase.data_keys import keys_in_use
from eunoe.deploy.generations.erase.places import count_places
from eunoe.deploy.generations.erase.traces import close_letters
from eunoe.deploy.generations.handled_log import INTAKE
from eunoe.deploy.generations.repair import Repairer
from eunoe.schemas.documents import read_document
from eunoe.schemas.erasure import Count, ErasedPart, Erasure, ErasureLevel, ErasureRequest
from eunoe.schemas.errors import RequestRefused
from eunoe.workers.derive.erasing import Conversation, erasure_of
from eunoe.workers.derive.pipeline import Deriver
from eunoe.workers.intake.head import Head
from eunoe.workers.intake.state import HEAD
from eunoe.workers.respond.stage import Cited
from eunoe.workers.respond.tables import CITED
from eunoe.workers.respond.tables import NAME as RESPOND
from eunoe.workers.runner.recorded_outcomes import RecordedOutcomes

if TYPE_CHECKING:  # it plans by this module
    from eunoe.deploy.generations.erase.run import Eraser


@dataclass(slots=True)
class Planning:
    """Plans and begins erasures in one conversation, one after the other: its log is read once for all of them.

    ``closing`` is closed by the caller when no more is to be planned.
    """

    eraser: "Eraser"
    closing: AsyncExitStack
    _opened: tuple[Clients, Repairer] | None = None
    _there: Conversation | None = field(default=None)

    async def plan(self, request: ErasureRequest) -> Erasure:
        """The ledger entry that the request would make; nothing is written. Raises as `Eraser.plan` does."""
        eraser, key = self.eraser, request.key
        await eraser.check_generations()
        before = await eraser.ledger.erasures(key)
        if any(one.request_id == request.request_id for one in before):
            raise RequestRefused(f"{key}: there is an erasure {request.request_id!r} already: choose another id")
        if self._opened is None:
            self._opened = await self.closing.enter_async_context(eraser.opened(eraser.settings))
            self.closing.callback(eraser.put_down, key)
        clients, repairer = self._opened
        if self._there is None or self._there.erased != ErasedPart.of(before):
            self._there = await self._read(clients, repairer, request, ErasedPart.of(before))
        erasure = await self._entry(request, self._there)
        own, after = ErasedPart.of([erasure]), ErasedPart.of([*before, erasure])
        assert own is not None
        assert after is not None
        # the traces of others that have begun, and wait to be carried out with it, are told in their own receipts
        counts = await count_places(clients, own, whole=erasure.is_whole)
        open_letters = await close_letters(clients.publisher, repairer.log, after, dry_run=True)
        letters = Count(place="dead-letters", count=open_letters)
        return erasure.model_copy(update={"before": (*counts, *([letters] if letters.count else []))})

    async def begin(self, request: ErasureRequest) -> Erasure:
        """Put the erasure into the ledger. Raises as `Eraser.begin` does."""
        eraser = self.eraser
        planned = await self.plan(request)
        assert self._opened is not None
        clients, _ = self._opened
        erasure = planned.model_copy(update={"keys": await keys_in_use(clients.data_keys, request.key)})
        await eraser.ledger.begin(erasure)
        if self._there is not None:
            erased = ErasedPart.of(await eraser.ledger.erasures(request.key))
            self._there = self._there.without(erasure, erased)
        await eraser.check_begun()
        return erasure

    async def _entry(self, request: ErasureRequest, there: Conversation) -> Erasure:
        try:
            return erasure_of(request, there, secrets.token_hex(16))
        except RequestRefused as fault:
            eraser = self.eraser
            if not eraser.goes_on and await eraser.unfinished(request.key):
                raise type(fault)(f"{fault}; an erasure in it has begun: `eunoe erase replay` finishes it") from None
            raise

    async def _read(
        self, clients: Clients, repairer: Repairer, request: ErasureRequest, part: ErasedPart | None
    ) -> Conversation:
        """The conversation as intake has read it.

        Where its log has gone, by the retention of its topic or with its keys, only all of it can be erased: the state
        tells its numbers then.
        """
        key, settings = request.key, self.eraser.settings
        if request.erases is not ErasureLevel.RETENTION:  # what is old was handled long ago
            await repairer.log.wait(key, self.eraser.intake_s)
        records, until = await repairer.log.read(key)
        kept = None
        if not records and part is None:
            kept = (await clients.store.scan(INTAKE, key, HEAD)).get(HEAD)
            if kept is None or not request.is_whole:
                raise RequestRefused(f"{key}: the log holds no record of it that intake has handled")
        deriver = Deriver(clients.dependencies, settings.runner, RecordedOutcomes(), ("intake",))
        derived = await deriver.derive(key, records, settings.log_epoch, erased=part)
        rows = await clients.store.scan(RESPOND, key, CITED)
        cited: dict[str, Sequence[str]] = {
            id_: read_document(Cited, text, key).utterance_ids for id_, text in rows.items()
        }
        there = Conversation.of(records, derived, until, settings.log_epoch, part)
        if kept is not None:
            there = replace(there, head=read_document(Head, kept, key))
        return there.with_cited(cited)
