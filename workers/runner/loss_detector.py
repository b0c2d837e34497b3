"""Detects that the state store lost acknowledged writes, after a failover or a restore of an older copy.

A server that fails over or is restored loses its newest writes first. So it is enough to write a *handled position* to
each server before a record is acknowledged: as long as a server shows that write, it has all earlier ones. Five checks
use this:

- A ledger must show at least what this process has seen of it.
- Intake's numbers have gaps, so a lost commit leaves no trace in a ledger. Before intake uses a ledger for the first
  time, the server of that ledger must show the handled position.
- Before an acknowledgement the ledgers must show the decision, and that its outbox was sent; then the position is
  written. A position that did not move is written too, and the writes are counted. In a cluster, ledgers and positions
  lie on several servers; there the ledgers are read first and the position is written in a second request.
- A background task compares the positions every few seconds. It also reads the ledgers of decisions that still wait for
  their acknowledgement since its last round.
- A newly assigned partition is read from the lowest position that any server shows.

A decision that is being made while writes are lost may have read them. The transaction refuses it: its ledger must
still hold the commit that was read (`eunoe.schemas.decisions.Commit.after`). A decision that read tables of other
stages, or own documents later than the ledger, must also meet the same server process (`Commit.server`): a server that
lost writes was restarted or replaced.

Positions have an owner, the process that was assigned the partition last. Others cannot write them.
"""

import itertools
import logging
import secrets
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from eunoe.schemas.decisions import Ledger, Scope
from eunoe.schemas.position_ports import Handled, HandledPositions, Positions, ReadPartition, Stored, Witness
from eunoe.streams.record import Revoked
from eunoe.streams.settings import partition_of
from eunoe.workers.runner.metrics import StageMeter
from eunoe.workers.stage import StageSpec
from eunoe.workers.text.caches import CacheBySize

log = logging.getLogger(__name__)

SEEN_BYTES: Final = 12_000_000
"""Bytes of the ledgers that a process remembers, of all its stages and partitions: some 28,000."""
_LEDGER_BYTES: Final = 370
"""Bytes of one beside the key of its conversation, as measured."""


class WritesLost(Revoked):
    """The state store lost acknowledged writes: nothing more may be acknowledged before the stage reads them again."""


@dataclass(frozen=True, slots=True)
class _Seen:
    """Progress of a ledger, seen in one term of its partition."""

    applied: int
    lates: int
    term: int


SeenLedgers = CacheBySize[Scope, _Seen]
"""Ledgers as they were seen. A forgotten one is treated like one seen for the first time."""


def seen_ledgers() -> SeenLedgers:
    """An empty memory of ledgers, which all stages of a process share."""
    return CacheBySize(SEEN_BYTES, "ledgers seen")


_TERMS = itertools.count()


@dataclass(slots=True)
class _State:
    """Progress of the state behind one partition, as a process knows it."""

    term: int = field(default_factory=_TERMS.__next__)
    """The number of the time in which the partition is read: what was seen of its ledgers before counts no more."""
    witnesses: dict[tuple[Scope, int, str | None], Witness] = field(default_factory=dict)
    """Progress that the next acknowledgement requires; by scope, session and slot of a parked event."""
    unacked_before: dict[tuple[Scope, int, str | None], Witness] = field(default_factory=dict)
    """The witnesses that waited for an acknowledgement in the last round of the background task."""
    reported: bool = False


class LossDetector:
    """Compares the store with the progress that one stage of a process has seen; raises `WritesLost` for less."""

    def __init__(
        self,
        spec: StageSpec,
        positions: HandledPositions,
        partitions: int,
        meter: StageMeter,
        seen: SeenLedgers | None = None,
    ) -> None:
        """``seen``: shared by the stages of a process; `None`: this one has its own."""
        self._stage = spec.name
        self._has_gaps = not spec.order.is_gapless
        self._input = spec.inputs[0].value
        self._positions = positions
        self._partitions = partitions
        self._meter = meter
        self._seen = seen_ledgers() if seen is None else seen
        self._owner = secrets.token_hex(8)
        self._expected: dict[ReadPartition, Positions] = {}
        self._states: defaultdict[int, _State] = defaultdict(_State)

    # ---- partitions

    async def stored(self, topic: str, partition: int) -> Positions:
        """The handled position of a partition by server. Raises `Unavailable`."""
        return await self._positions.stored(ReadPartition(self._stage, topic, partition))

    async def begin(self, topic: str, partition: int, shown: Positions, position: int) -> None:
        """Forget what was seen of a partition, which is read from behind ``position`` on. Raises `Unavailable`.

        ``shown``: what `stored` returned. What is lost from then on is noticed.
        """
        reader = ReadPartition(self._stage, topic, partition)
        taken = await self._positions.take(reader, self._owner, position)
        self._expected[reader] = {
            server: Handled(min(before.position, position), taken.get(server, Handled()).writes)
            for server, before in shown.items()
        }
        self._states[partition] = _State()

    async def advance(self, topic: str, partition: int, position: int) -> None:
        """Record a handled position before its acknowledgement; may be repeated.

        Raises `WritesLost` where the store lost writes, `Revoked` where another process owns the partition now,
        `Unavailable`.
        """
        state, reader = self._states[partition], ReadPartition(self._stage, topic, partition)
        witnesses = dict(state.witnesses)
        if witnesses and self._positions.verifies_separately:
            # a process that died between the two would leave a position above what is there
            await self._store(reader, 0, witnesses)
            await self._store(reader, position, {})
        else:
            await self._store(reader, position, witnesses)
        for place, witness in witnesses.items():
            if state.witnesses.get(place) is witness:
                del state.witnesses[place]

    async def verify(self, scope: Scope) -> None:
        """Check all that is not acknowledged yet, before a conversation is held for a gap. Raises as `advance`."""
        partition = partition_of(scope.key.encode(), self._partitions)
        reader = ReadPartition(self._stage, self._input, partition)
        if reader in self._expected:
            await self._store(reader, 0, self._states[partition].witnesses)

    async def owns(self, scope: Scope) -> bool:
        """Whether no other process has begun to read the partition of a conversation since this one did.

        Raises `WritesLost`, `Unavailable`.
        """
        reader = ReadPartition(self._stage, self._input, partition_of(scope.key.encode(), self._partitions))
        if reader not in self._expected:
            return False
        try:
            await self._store(reader, 0, {})
        except WritesLost:
            raise
        except Revoked:
            return False
        return True

    async def _store(
        self, reader: ReadPartition, position: int, witnesses: Mapping[tuple[Scope, int, str | None], Witness]
    ) -> None:
        expected: Positions = self._expected.get(reader, {})
        looked_for = list(witnesses.values())
        stored = await self._positions.store(reader, self._owner, position, expected, looked_for)
        self._compare(reader, expected, stored)
        if stored.missing:
            raise self._report_loss(reader.partition, _describe(stored.missing[0]))
        if not stored.owned:
            raise Revoked(f"another process has begun to read {reader.topic}/{reader.partition}")
        self._expected[reader] = {
            server: _most(self._expected.get(reader, {}).get(server), before, position)
            for server, before in stored.before.items()
        }

    async def is_intact(self, partitions: Iterable[tuple[str, int]]) -> bool:
        """Whether the store still shows the positions of these partitions (topic and number).

        It must also show what has waited for an acknowledgement since the last call: a later decision may wait for
        another stage that never saw the lost one. Raises `Unavailable`.
        """
        for topic, partition in partitions:
            reader = ReadPartition(self._stage, topic, partition)
            expected = self._expected.get(reader)
            if expected is None:
                continue
            try:
                await self._verify_owner(reader, expected, await self._positions.stored(reader))
                await self._verify_overdue(reader)
            except WritesLost:
                return False
            except Revoked:
                continue  # another process owns it: a rebalance is under way
        return True

    async def _verify_overdue(self, reader: ReadPartition) -> None:
        state = self._states[reader.partition]
        overdue = {place: one for place, one in state.witnesses.items() if state.unacked_before.get(place) is one}
        state.unacked_before = dict(state.witnesses)
        if overdue:
            await self._store(reader, 0, overdue)

    # ---- ledgers

    async def check(self, scope: Scope, ledger: Ledger) -> None:
        """Compare a ledger with what was seen of it before, and note it. Raises `WritesLost`, `Unavailable`."""
        partition = partition_of(scope.key.encode(), self._partitions)
        known = self._known(scope, self._states[partition])
        if known is not None and (ledger.applied < known.applied or ledger.lates < known.lates):
            raise self._report_loss(partition, _describe(Witness(scope, known.applied, known.lates)))
        if known is None and self._has_gaps:
            await self._check_position_for(scope)
        self.note(scope, ledger.applied, ledger.lates, sent=ledger.outbox is None)

    def note(self, scope: Scope, applied: int, lates: int, *, sent: bool) -> None:
        """Note the progress of a ledger, and whether its outbox is sent: the next acknowledgement needs it."""
        state = self._states[partition_of(scope.key.encode(), self._partitions)]
        seen, witness = _Seen(applied, lates, state.term), Witness(scope, applied, lates, sent=sent)
        if self._seen.get(scope) == seen and state.witnesses.get((scope, 0, None)) == witness:
            return
        self._seen.put(scope, seen, _LEDGER_BYTES + len(scope.key))
        state.witnesses[scope, 0, None] = witness

    def _known(self, scope: Scope, state: _State) -> _Seen | None:
        """A ledger as it was seen in this term of its partition."""
        seen = self._seen.get(scope)
        return seen if seen is not None and seen.term == state.term else None

    def note_parked(self, scope: Scope, number: int, slot: str) -> None:
        """Note a parked event: the next acknowledgement of its partition needs it."""
        state = self._states[partition_of(scope.key.encode(), self._partitions)]
        state.witnesses[scope, number, slot] = Witness(scope, number=number, slot=slot)

    async def _check_position_for(self, scope: Scope) -> None:
        """Compare the position on the server that holds this ledger. Raises `WritesLost`, `Unavailable`."""
        reader = ReadPartition(self._stage, self._input, partition_of(scope.key.encode(), self._partitions))
        expected = self._expected.get(reader)
        if expected is not None:
            server, at = await self._positions.stored_for(reader, scope.key)
            await self._verify_owner(reader, expected, {server: at})

    async def _verify_owner(self, reader: ReadPartition, expected: Positions, shown: Positions) -> None:
        """Where less is shown than expected, find out whether another process lowered it. Raises as `advance`."""
        if any(_is_less(now, expected.get(server, Handled())) for server, now in shown.items()):
            await self._store(reader, 0, {})

    # ---- findings

    def _compare(self, reader: ReadPartition, expected: Positions, stored: Stored) -> None:
        for server, now in stored.before.items():
            least = expected.get(server, Handled())
            # a process that takes a partition may lower its position, which is a write; only a loss lowers their number
            if now.writes < least.writes or (stored.owned and now.position < least.position):
                raise self._report_loss(
                    reader.partition,
                    f"server {server} shows position {now.position} of {reader.topic}/{reader.partition} after"
                    f" {now.writes} writes, and had {least.position} after {least.writes}",
                )

    def _report_loss(self, partition: int, found: str) -> WritesLost:
        state = self._states[partition]
        if not state.reported:
            state.reported = True
            self._meter.went_back += 1
            log.error("STATE STORE WENT BACK: %s: %s: it lost acknowledged writes; reading again", self._stage, found)
        return WritesLost(f"{self._stage}: the state store went back: {found}")


def _is_less(now: Handled, least: Handled) -> bool:
    return now.position < least.position or now.writes < least.writes


def _most(known: Handled | None, before: Handled, position: int) -> Handled:
    """The most that a server is known to have: another write may have come between."""
    known = known or Handled()
    return Handled(max(known.position, before.position, position), max(known.writes, before.writes + 1))


def _describe(witness: Witness) -> str:
    if witness.slot is not None:
        return f"{witness.scope.key}: the parked {witness.slot} of session {witness.number} is gone"
    unsent = ", or its decision is unsent again" if witness.sent else ""
    return f"{witness.scope.key}: applied is below {witness.applied} (late: {witness.lates}){unsent}"
