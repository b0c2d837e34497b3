"""Repair: derives a conversation again from the log and replaces its stored state."""

import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

from eunoe.deploy.clients.bootstrap import Clients
from eunoe.deploy.generations.catching_up import CatchingUp
from eunoe.deploy.generations.followers import tell_followers
from eunoe.deploy.generations.handled_log import INTAKE, HandledLog, StillWritten
from eunoe.deploy.generations.repaired_asks import BLEND, Asks, held_turns, with_asks
from eunoe.deploy.generations.repaired_index import Ids, document_ids, unsent_ids, write_index
from eunoe.deploy.inspect.dead_letters import close
from eunoe.deploy.observability.counters import model_document
from eunoe.deploy.progress import ReportProgress
from eunoe.deploy.settings import Settings
from eunoe.schemas.decisions import Collection, Ledger, Scope
from eunoe.schemas.erasure import ErasedPart
from eunoe.schemas.errors import Refused
from eunoe.schemas.memory import DerivedReason
from eunoe.schemas.ports import StoredConversation
from eunoe.streams.dead_letters import Closing, Filed, LetterIdentity, letter_identity
from eunoe.streams.record import Record
from eunoe.streams.settings import partition_of
from eunoe.workers.derive.pipeline import TABLES, Derived, Deriver
from eunoe.workers.intake.settings import BlendMode, IntakeSettings
from eunoe.workers.runner.blocked import BlockReason
from eunoe.workers.runner.failure_limit import FailureLimit
from eunoe.workers.runner.recorded_outcomes import RecordedOutcomes
from eunoe.workers.stores.records.blocked import RedisBlocked
from eunoe.workers.stores.redis.staging import all_ended
from eunoe.workers.stores.state.transplants import RedisTransplants

log = logging.getLogger(__name__)

TRIES = 20
"""Attempts to derive a conversation; one more is needed whenever intake handled new records meanwhile."""

SEGMENT, UPDATE = "segment", "update"


@dataclass(frozen=True, slots=True)
class Repaired:
    """The result of a repair."""

    key: str
    records: int
    sessions: int
    sessions_before: int
    """Sessions that were segmented in the state that was replaced; 0 where that was lost."""
    memories: int
    points: int
    """Index points written."""
    removed: int
    """Index points removed because nothing in the log leads to them."""
    asked: int
    """Lost asks that were forwarded to stage respond."""
    letters: int
    """Held dead letters that were marked resolved."""
    skipped: int
    """Sessions that failed again and are missing from the memory."""
    calls: int
    """Calls of the language model; recorded answers need none."""

    @property
    def lacks_sessions(self) -> bool:
        """Whether sessions were closed before that are not now: other settings closed them, such as the idle time."""
        return self.sessions < self.sessions_before


BeforeSwap = Callable[[Sequence[Record]], Awaitable[None]]
ReadErased = Callable[[], Awaitable[Mapping[str, ErasedPart]]]


async def _nothing_erased() -> Mapping[str, ErasedPart]:
    return {}


@dataclass(frozen=True, slots=True)
class Repairer:
    """Repairs conversations while the workers run."""

    settings: Settings
    clients: Clients
    transplants: RedisTransplants
    log: HandledLog
    erased: ReadErased = _nothing_erased
    """Reads what is erased, by key: again for each attempt, for more may be erased meanwhile."""
    fences_intake: bool = False
    """Whether a decision that intake has in hand is refused, too, and late points: they may hold what is erased."""
    before_swap: BeforeSwap | None = None
    """Called with the records of the log that the state is derived from, before each attempt to replace it."""
    tells: bool = True
    """Whether it tells those who follow memory; if not, the caller does, who has more to do before."""

    async def repair(self, key: str, report: ReportProgress = lambda _phase, _done, _total: None) -> Repaired:
        """Derive a conversation again; ``report`` is called for each derived record; its phase is the key.

        All records that intake has handled are derived in memory, then swapped in by one atomic write. If intake has
        handled more records meanwhile, or a stage has set more aside, the derivation goes on with them; if something
        was erased, it begins again.
        Raises `Refused` where the log holds nothing of the conversation, `StillWritten` where new records keep coming
        in, `Unavailable` when a server is down.
        """
        calls, deriving = self._calls(), self._deriving(key, report)
        late: Ids | None = None
        for _ in range(TRIES):
            # before the look at intake: what these hold, it had sent before
            letters = await self.log.letters(key)
            intake = await self.log.intake(key)
            # behind that look: an erasure that is not known here replaces the ledger later, which the swap notices
            part = (await self.erased()).get(key)
            records, _ = await self.log.records(key, intake, letters)
            if not records and part is None:
                raise Refused(f"{key}: the log holds no record that intake has handled")
            derived = await deriving.derive(records, part)
            if self.before_swap is not None:
                await self.before_swap(records)
            swapped = await self._swap(derived, intake, await self._asks(letters))
            if swapped is None:
                continue
            late = _joined(late, swapped.late)
            if _identities(await self.log.letters(key)) <= _identities(letters):
                return await self._follow(derived, replace(swapped, late=late), letters, len(records), calls)
        raise StillWritten(f"{key}: new records came in during each of {TRIES} attempts to derive it; try again later")

    def _deriving(self, key: str, report: ReportProgress) -> CatchingUp:
        settings = replace(self.settings.runner, failures=FailureLimit(share=1.0))
        deriver = Deriver(self.clients.dependencies, settings, RecordedOutcomes(self.clients.answers))
        return CatchingUp(deriver, key, self.settings.log_epoch, report)

    async def _asks(self, letters: Sequence[Filed]) -> Asks | None:
        """Finds the unanswered asks of a conversation; `None` where none goes through blend."""
        if self.settings.of(IntakeSettings).blend is not BlendMode.BEFORE_REPLY:
            return None
        held = await held_turns(letters, self.clients.data_keys)
        return Asks(self.clients.store, held, may_be_lost=not self.fences_intake)

    async def _swap(self, derived: Derived, intake: Ledger, asks: Asks | None) -> "_Swapped | None":
        """Replace the state; `None` where intake has handled more than is derived, or another one has replaced it.

        A stage that commits meanwhile is no reason to derive again: what it decided is derived, too.
        """
        key, ids = derived.key, await document_ids(self.clients.store, derived.key)
        partition = partition_of(key.encode(), self.log.partitions)
        for _ in range(TRIES):
            found = await all_ended(self.log.ledger(Scope(stage, key)) for stage in TABLES)
            live = dict(zip(TABLES, found, strict=True))
            if _moved_on(live[INTAKE], intake):
                return None
            standing = _fencing(derived.standing, live)
            if self.fences_intake:
                standing = _fencing_for_good(_fencing_intake(standing, live[INTAKE]))
            if asks is not None:
                standing = with_asks(standing, await asks.unanswered(derived, live[BLEND]), partition)
            if await self.transplants.swap(key, TABLES, standing, intake, live):
                unsent = unsent_ids(live.values())
                late = {one: ids.get(one, set()) | unsent.get(one, set()) for one in Collection}
                return _Swapped(standing.ledgers, late if self.fences_intake else None, live[SEGMENT].applied)
        return None

    async def _follow(
        self, derived: Derived, swapped: "_Swapped", letters: Sequence[Filed], records: int, calls: int
    ) -> Repaired:
        """The steps after the swap; idempotent, so that an interrupted repair can be repeated."""
        key = derived.key
        if derived.timer is not None:
            await self.clients.log_positions.schedule(
                partition_of(key.encode(), self.log.partitions), key, derived.timer
            )
        removed = await write_index(self.clients.dependencies.index, derived, swapped.ledgers, swapped.late)
        if (asks := swapped.ledgers[BLEND].outbox) is not None:
            await self.clients.sender.send(Scope(BLEND, key), asks)
        if self.tells:  # before the letters are closed: they let a repair that was killed be repeated
            await tell_followers(self.clients.publisher, key, DerivedReason.REPAIRED)
        await close(self.clients.publisher, letters, Closing.REPAIRED)
        still = RedisBlocked(self.clients.redis, self.clients.keys)
        await all_ended(still.remove(stage, kind, {key}) for stage, kind in product(TABLES, BlockReason))
        standing = derived.standing
        return Repaired(
            key=key,
            records=records,
            sessions=derived.sessions,
            sessions_before=swapped.sessions_before,
            memories=len(standing.tables.get((UPDATE, "memories"), {})),
            points=sum(map(len, derived.points.values())),
            removed=removed,
            asked=0 if asks is None else len(asks.messages),
            letters=len(letters),
            skipped=len(_skipped(standing)),
            calls=self._calls() - calls,
        )

    def _calls(self) -> int:
        return int(model_document(self.clients.dependencies.language).get("calls", 0))


@dataclass(frozen=True, slots=True)
class _Swapped:
    """A swap of a conversation's state."""

    ledgers: Mapping[str, Ledger]
    """The ledgers that it stored."""
    late: Ids | None
    """The points that workers may still hold; `None`: they may write them."""
    sessions_before: int
    """The number of sessions that were segmented in the state that it replaced."""


def _identities(letters: Sequence[Filed]) -> set[LetterIdentity]:
    return {letter_identity(filed.letter) for filed in letters}


def _joined(before: Ids | None, swapped: Ids | None) -> Ids | None:
    """The points of two swaps of one repair; the state that the first one replaced told of more than that of itself."""
    if before is None or swapped is None:
        return swapped
    return {one: before.get(one, set()) | swapped.get(one, set()) for one in Collection}


def _moved_on(now: Ledger, before: Ledger) -> bool:
    """Whether a ledger was written since: the token tells of an erasure, too, which leaves its number as it is."""
    return (now.applied, now.outbox, now.token) != (before.applied, before.outbox, before.token)


def _fencing(standing: StoredConversation, live: dict[str, Ledger]) -> StoredConversation:
    """The state with ledgers that fence decisions based on the present ones."""
    ledgers = {
        stage: replace(ledger, lates=max(ledger.lates, live[stage].lates) + 1)
        for stage, ledger in standing.ledgers.items()
        if stage != INTAKE
    }
    return replace(standing, ledgers={**standing.ledgers, **ledgers})


def _fencing_intake(standing: StoredConversation, live: Ledger) -> StoredConversation:
    """The state with a ledger that fences a decision of intake; what intake has handled it never handles again."""
    derived = standing.ledgers[INTAKE]
    ledger = replace(derived, applied=max(derived.applied, live.applied), lates=max(derived.lates, live.lates) + 1)
    return replace(standing, ledgers={**standing.ledgers, INTAKE: ledger})


def _fencing_for_good(standing: StoredConversation) -> StoredConversation:
    """The state with ledgers that are ahead of those of earlier erasures also where the store was lost since."""
    now = int(time.time())
    ledgers = {stage: replace(ledger, lates=max(ledger.lates, now)) for stage, ledger in standing.ledgers.items()}
    return replace(standing, ledgers=ledgers)


def _skipped(standing: StoredConversation) -> set[int]:
    """The numbers of the sessions that any stage skipped."""
    ledgers = (ledger for stage, ledger in standing.ledgers.items() if stage != BLEND)
    return {number for ledger in ledgers for number in ledger.skipped}
