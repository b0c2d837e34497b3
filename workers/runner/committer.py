"""Shared steps of handling records: the stage's input, the transaction, and sending the outbox."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from eunoe.schemas.base import Contract
from eunoe.schemas.decisions import Commit, Ledger, Scope, Work
from eunoe.schemas.keys import KeyStore
from eunoe.streams.tracing import span
from eunoe.workers.runner.errors import Fenced
from eunoe.workers.runner.inbound import LogPlace, OrderedEvent
from eunoe.workers.runner.loss_detector import LossDetector, WritesLost
from eunoe.workers.runner.metrics import Part
from eunoe.workers.runner.outbox import Sender
from eunoe.workers.stores.state.cached_state import CachedStateStore, StaleState

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Committer:
    """Commits the decisions of one stage."""

    sender: Sender
    place: LogPlace
    loss_detector: LossDetector | None = None
    """`None` means that lost writes are not detected."""
    data_keys: KeyStore | None = None
    """The keys that stored text is sealed with; `None`: it is plain."""

    async def applied_before_cold(self, ordered: OrderedEvent) -> bool:
        """Whether a copied record was applied before its conversation went to the cold store; it stays there.

        `eunoe up` plays the whole log back at each start: to read the ledger of each record would bring all
        conversations back. Raises `Unavailable`, `SnapshotLost`.
        """
        if not ordered.replayed:
            return False
        applied = await self.sender.store.cold_applied(ordered.scope)
        return applied is not None and ordered.number <= applied

    async def flushed(self, scope: Scope) -> Ledger:
        """The ledger, after an unsent outbox has been sent.

        Raises `Unavailable`, and `eunoe.workers.runner.loss_detector.WritesLost` where it shows less than before.
        """
        while True:
            ledger = await self._ledger(scope)
            if ledger.outbox is None:
                return ledger
            await self.sender.send(scope, ledger.outbox)

    async def flushed_uncached(self, scope: Scope) -> Ledger:
        """As `flushed`, past the cache: for uses that no fence checks afterwards."""
        self.forget(scope)
        return await self.flushed(scope)

    def forget(self, scope: Scope) -> None:
        """Drop the state of a conversation from the cache."""
        if isinstance(self.sender.store, CachedStateStore):
            self.sender.store.forget(scope.key)

    async def _ledger(self, scope: Scope) -> Ledger:
        with self.sender.meter.timed(Part.APPLYING), span("read ledger"):
            ledger = await self.sender.store.ledger(scope)
            if self.loss_detector is not None:
                await self.loss_detector.check(scope, ledger)
            return ledger

    async def work(self, ordered: OrderedEvent, events: Sequence[Contract]) -> Work[Any]:
        """The input of the stage's decision. Raises `Unavailable`."""
        return Work(
            key=ordered.scope.key,
            events=tuple(events),
            number=ordered.number,
            log_time=ordered.log_time,
            replayed=not await self._answers(ordered),
        )

    async def _answers(self, ordered: OrderedEvent) -> bool:
        """Whether this generation answers the ask."""
        if ordered.replayed or not ordered.asks:
            return not ordered.replayed
        promoted = await self.sender.log_positions.answering(ordered.record.partition, ordered.number)
        return self.place.answers(promoted)

    async def commit(self, scope: Scope, commit: Commit) -> None:
        """Run the transaction and send its outbox.

        Nothing is done where another process has committed: it raises `StaleState` in the owner of the partition, and
        for a request, to handle the event anew on what is there now; else `Fenced`. Raises `WritesLost` where the store
        lost what was read, and `Unavailable`.
        """
        with self.sender.meter.timed(Part.APPLYING), span("commit"):
            commit = await self._pinned(scope, commit)
            token = await self.sender.store.commit(scope, commit)
        if token is None:
            ledger = await self._ledger(scope)
            if _as_read(ledger, commit):
                raise WritesLost(
                    f"{scope.stage}: the state store was started again or went back during a decision on {scope.key},"
                    " or the conversation went to the cold store and came back"
                )
            self.sender.meter.fenced += 1
            if await self._goes_on(scope):
                raise StaleState(f"{scope.stage}: {scope.key} was changed by a process that had owned it before")
            raise Fenced(f"{scope.stage}: another process has applied a later event of {scope.key}")
        self.sender.meter.commits += 1
        self._note(scope, commit, sent=commit.outbox is None)
        if commit.outbox is not None:
            await self.sender.send(scope, commit.outbox)
            self._note(scope, commit, sent=True)

    async def _goes_on(self, scope: Scope) -> bool:
        """Whether this process goes on where another one committed first.

        So does the owner of the partition: the other slept through a rebalance. Of a request nothing else follows.
        """
        if scope.request_id:
            return True
        return self.loss_detector is not None and await self.loss_detector.owns(scope)

    def _note(self, scope: Scope, commit: Commit, *, sent: bool) -> None:
        if self.loss_detector is not None:
            self.loss_detector.note(scope, commit.applied, commit.lates + (commit.late is not None), sent=sent)

    async def _pinned(self, scope: Scope, commit: Commit) -> Commit:
        """The transaction with the data key of the state that the decision was made from; its messages get it, too.

        So they become unreadable together with that state when the key is destroyed, however late they are sent. The
        fence lets the index refuse late points of a conversation that was erased since.
        """
        if commit.outbox is not None and commit.lates:
            commit = replace(commit, outbox=commit.outbox.model_copy(update={"fence": commit.lates}))
        if self.data_keys is None:
            return commit
        key = commit.key or (await self.data_keys.current(scope.key)).id
        outbox = None if commit.outbox is None else commit.outbox.model_copy(update={"key": key})
        return replace(commit, key=key, outbox=outbox)


def _as_read(ledger: Ledger, commit: Commit) -> bool:
    """Whether nothing was committed since the decision's ledger was read."""
    return (ledger.applied, ledger.lates, ledger.outbox) == (commit.expect, commit.lates, None)
