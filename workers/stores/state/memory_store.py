"""In-memory implementations of the stores, with the rules of the servers."""

import itertools
from collections import OrderedDict, defaultdict
from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from time import monotonic

from eunoe.schemas.decisions import (
    REQUEST_TTL_S,
    Clear,
    Commit,
    Drop,
    Ledger,
    Outbox,
    Put,
    Scope,
    Timer,
)
from eunoe.schemas.identity import split_key
from eunoe.schemas.ports import ActiveConversation, StoredConversation
from eunoe.schemas.position_ports import DueTimer
from eunoe.workers.stores.records.promotions import last_promoted

Table = dict[str, str]


@dataclass(slots=True)
class _StoredLedger:
    """A ledger as stored."""

    applied: int = 0
    skipped: set[int] = field(default_factory=set)
    outbox: Outbox | None = None
    lates: int = 0
    token: str = ""


class MemoryStore:
    """`StateStore`, `ParkingLot` and `Transplants`.

    ``request_ttl_s``: the time to live of the ledger of one request, in seconds.
    """

    def __init__(self, *, request_ttl_s: float = REQUEST_TTL_S) -> None:
        self._request_ttl_s = request_ttl_s
        self._ledgers: dict[Scope, _StoredLedger] = {}
        self._expiry: OrderedDict[Scope, float] = OrderedDict()
        self._tables: defaultdict[tuple[str, str, str], MutableMapping[str, str]] = defaultdict(dict)
        self._parked: defaultdict[Scope, dict[int, Table]] = defaultdict(dict)
        self.server = "memory"
        """Id of the server's process: one that is started again has another."""
        self._tokens = map(str, itertools.count(1))

    async def ledger(self, scope: Scope) -> Ledger:
        """The ledger of a stage; an empty one before its first commit."""
        stored = self._stored(scope)
        return Ledger(
            applied=stored.applied,
            skipped=frozenset(stored.skipped),
            outbox=stored.outbox,
            lates=stored.lates,
            server=self.server,
            token=stored.token,
        )

    async def applied(self, scope: Scope) -> int:
        """The number applied last; 0 before the first commit."""
        return self._stored(scope).applied

    async def cold_applied(self, scope: Scope) -> int | None:
        """`None`: there is no cold store."""
        del scope
        return None

    async def commit(self, scope: Scope, commit: Commit) -> str | None:
        """Run the transaction; returns its token, `None` where the fence refuses it."""
        stored = self._stored(scope)
        if (stored.applied, stored.lates) != (commit.expect, commit.lates) or stored.outbox is not None:
            return None
        if commit.late is not None and commit.late not in stored.skipped:
            return None
        if commit.after not in (None, stored.token) or (
            commit.checks_server and commit.server not in ("", self.server)
        ):
            return None
        self._write(scope, commit)
        stored.applied, stored.token = commit.applied, next(self._tokens)
        if commit.late is not None:
            stored.lates += 1
            stored.skipped.discard(commit.late)
        if commit.outbox is not None:
            stored.outbox = commit.outbox
        if commit.skip:
            stored.skipped.add(commit.applied if commit.late is None else commit.late)
        if commit.unpark is not None:
            self._parked[scope].pop(commit.unpark, None)
        self._save(scope, stored)
        return stored.token

    async def mark_sent(self, scope: Scope, number: int) -> None:
        """Drop the outbox, only if it is still that of ``number``."""
        stored = self._stored(scope)
        if stored.outbox is not None and stored.outbox.number == number:
            stored.outbox = None

    async def fetch(self, stage: str, key: str, table: str, ids: Sequence[str]) -> list[str | None]:
        """The documents of a table by id, in the order asked."""
        documents = self._tables.get((stage, key, table), {})
        return [documents.get(id_) for id_ in ids]

    async def scan(self, stage: str, key: str, table: str) -> dict[str, str]:
        """A whole table: id → document."""
        return dict(self._tables.get((stage, key, table), {}).items())

    async def ids(self, stage: str, key: str, table: str) -> set[str]:
        """The ids of all documents of a table."""
        return set(self._tables.get((stage, key, table), {}))

    async def conversations(self) -> list[str]:
        """The keys of all conversations, sorted."""
        known = {scope.key for scope in (*self._ledgers, *self._parked)}
        return sorted(known | {key for (_, key, _), rows in self._tables.items() if rows})

    async def park(self, scope: Scope, number: int, slot: str, text: str) -> bool:
        """Store an event once; returns whether its session is still to be applied."""
        if self._stored(scope).applied >= number:
            return False
        self._parked[scope].setdefault(number, {}).setdefault(slot, text)
        return True

    async def parked(self, scope: Scope, number: int) -> dict[str, str]:
        """The parked events of a session: slot → event."""
        return dict(self._parked.get(scope, {}).get(number, {}))

    async def progress(self, scope: Scope) -> tuple[int, int]:
        """The number applied last, and the count of late sessions."""
        stored = self._stored(scope)
        return stored.applied, stored.lates

    async def parked_numbers(self, scope: Scope) -> list[int]:
        """The sessions with parked events, ascending."""
        return sorted(self._parked.get(scope, {}))

    async def export(self, key: str, tables: Mapping[str, Sequence[str]]) -> StoredConversation:
        """The stored state of a conversation; raises ``ValueError`` where an outbox is unsent."""
        ledgers = {stage: await self.ledger(Scope(stage, key)) for stage in tables}
        if unsent := [stage for stage, ledger in ledgers.items() if ledger.outbox is not None]:
            raise ValueError(f"{key}: unsent decisions of {', '.join(unsent)}")
        found = {(stage, table): self._exported(stage, key, table) for stage in tables for table in tables[stage]}
        parked = {stage: dict(self._parked.get(Scope(stage, key), {})) for stage in tables}
        return StoredConversation(ledgers, found, parked)

    async def swap(
        self,
        key: str,
        tables: Mapping[str, Sequence[str]],
        standing: StoredConversation,
        expect: Ledger,
        others: Mapping[str, Ledger] = {},
    ) -> bool:
        """Replace the stored state of a conversation by ``standing``; returns whether it was still as expected."""
        first, *_ = tables
        now = await self.ledger(Scope(first, key))
        if (now.applied, now.outbox) != (expect.applied, expect.outbox):
            return False
        for stage, other in others.items():
            now = await self.ledger(Scope(stage, key))
            if (now.applied, now.outbox, now.lates) != (other.applied, other.outbox, other.lates):
                return False
        for stage, names in tables.items():
            ledger = standing.ledgers.get(stage, Ledger())
            token = next(self._tokens) if ledger.has_decided else ""
            self._ledgers[Scope(stage, key)] = _StoredLedger(
                ledger.applied, set(ledger.skipped), ledger.outbox, ledger.lates, token
            )
            self._parked[Scope(stage, key)] = {
                number: dict(slots) for number, slots in standing.parked.get(stage, {}).items()
            }
            for table in names:
                rows = self._tables[stage, key, table]
                rows.clear()
                rows.update(standing.tables.get((stage, table), {}).items())
        return True

    def _exported(self, stage: str, key: str, table: str) -> Mapping[str, str]:
        return dict(self._tables.get((stage, key, table), {}))

    def _stored(self, scope: Scope) -> _StoredLedger:
        now = monotonic()
        while self._expiry and next(iter(self._expiry.values())) <= now:
            expired, _ = self._expiry.popitem(last=False)
            del self._ledgers[expired]
        return self._ledgers.get(scope, _StoredLedger())

    def _save(self, scope: Scope, stored: _StoredLedger) -> None:
        self._ledgers[scope] = stored
        if scope.request_id:
            self._expiry[scope] = monotonic() + self._request_ttl_s
            self._expiry.move_to_end(scope)

    def _write(self, scope: Scope, commit: Commit) -> None:
        for write in sorted(commit.writes, key=lambda write: not isinstance(write, Clear)):
            table = self._tables[scope.stage, scope.key, write.table]
            match write:
                case Clear():
                    table.clear()
                case Drop():
                    table.pop(write.id, None)
                case Put():
                    table[write.id] = write.text


class MemoryLogPositions:
    """In-memory `LogPositions` and `ActivityList`."""

    def __init__(self) -> None:
        self._timers: defaultdict[int, dict[str, Timer]] = defaultdict(dict)
        self._active: defaultdict[str, dict[str, datetime]] = defaultdict(dict)
        self._promotions: defaultdict[int, dict[int, str]] = defaultdict(dict)
        self._used: dict[tuple[int, str], int] = {}
        self.announced: dict[str, str] = {}
        """Nonce → generation; with Redis `eunoe.workers.stores.records.generations.RedisGenerations` writes it."""

    async def schedule(self, partition: int, key: str, timer: Timer) -> None:
        """Set, move or (with no utterance) cancel a conversation's timer, and list the conversation as active.

        A timer with a smaller number than the last one is ignored.
        """
        tenant, conversation_id = split_key(key)
        known = self._active[tenant]
        active = timer.active or timer.since
        known[conversation_id] = max(active, known.get(conversation_id, active))
        last = self._timers[partition].get(key)
        if last is None or last.number <= timer.number:
            self._timers[partition][key] = timer

    def timer(self, partition: int, key: str) -> Timer | None:
        """The timer of a conversation, which names no utterance where it was cancelled; `None` where none was set."""
        return self._timers[partition].get(key)

    async def due(self, partition: int, since: datetime, limit: int) -> list[DueTimer]:
        """Timers of sessions that have been idle since ``since`` or longer, oldest first, equal ones by key."""
        quiet = (
            DueTimer(key, timer)
            for key, timer in self._timers[partition].items()
            if timer.after_utterance_id is not None and timer.since <= since
        )
        return sorted(quiet, key=lambda due: (due.timer.since, due.key))[: max(0, limit)]

    async def last_active(self, key: str) -> datetime | None:
        """Log time by which a conversation is listed; `None` where it is not."""
        tenant, conversation_id = split_key(key)
        return self._active[tenant].get(conversation_id)

    async def active(
        self, tenant: str, limit: int, after: ActiveConversation | None = None
    ) -> list[ActiveConversation]:
        """The conversations of a tenant, the last active first, equal ones by id descending; those behind ``after``."""
        known = sorted(((at, id_.encode()) for id_, at in self._active[tenant].items()), reverse=True)
        last = None if after is None else (after.active, after.conversation_id.encode())
        behind = [ActiveConversation(id_.decode(), at) for at, id_ in known if last is None or (at, id_) < last]
        return behind[:limit]

    async def was_announced(self, partition: int, position: int, generation: str, nonce: str | None) -> bool:
        """Whether the promotion at ``position`` was announced with this nonce, which no other place has used."""
        if nonce is None or self.announced.get(nonce) != generation:
            return False
        return self._used.setdefault((partition, nonce), position) == position

    async def promote(self, partition: int, position: int, generation: str) -> None:
        """Record that ``generation`` answers asks after ``position``."""
        self._promotions[partition][position] = generation

    async def answering(self, partition: int, position: int | None = None) -> str | None:
        """The generation that answers at a position; `None` means the end of the log."""
        return last_promoted(self._promotions[partition], position)
