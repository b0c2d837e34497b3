"""Ports of stages and runner to the state store and the vector index; each has an in-memory implementation, too."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from eunoe.schemas.decisions import Collection, Commit, Ledger, Point, Scope, SparseVector


class Tables(Protocol):
    """Read access to the tables of stages. Every method raises `Unavailable` when the store does not answer."""

    async def fetch(self, stage: str, key: str, table: str, ids: Sequence[str]) -> list[str | None]:
        """Documents of a table by id, in the order of ``ids``; `None` for a missing one."""
        ...

    async def scan(self, stage: str, key: str, table: str) -> dict[str, str]:
        """A whole table: id → document. Only for tables of bounded size, and for inspection."""
        ...


class StateStore(Tables, Protocol):
    """Ledgers and tables, in Redis or in memory. Every method raises `Unavailable` when the store does not answer."""

    async def ledger(self, scope: Scope) -> Ledger:
        """The ledger of a scope; a new one where none was committed."""
        ...

    async def applied(self, scope: Scope) -> int:
        """The number applied last, as `ledger` has it; cheaper, for other stages that need no more."""
        ...

    async def cold_applied(self, scope: Scope) -> int | None:
        """The number applied last of a conversation in the cold store, which stays there; `None` where it is not there.

        Raises `eunoe.schemas.errors.SnapshotLost` where it is lost.
        """
        ...

    async def commit(self, scope: Scope, commit: Commit) -> str | None:
        """Apply a transaction; returns the token that `Ledger.token` has from now on, `None` when it was fenced.

        Then the ledger has moved, its outbox is unsent, or the server is not the one that ``commit.server`` names.
        """
        ...

    async def mark_sent(self, scope: Scope, number: int) -> None:
        """Remove the outbox, if it is still that of ``number``."""
        ...


@dataclass(frozen=True, slots=True)
class StoredConversation:
    """All state of one conversation in a store, between two decisions."""

    ledgers: Mapping[str, Ledger]
    """By stage, without unsent outboxes. Ledgers of single requests are not included."""
    tables: Mapping[tuple[str, str], Mapping[str, str]]
    """(stage, table) → id → document."""
    parked: Mapping[str, Mapping[int, Mapping[str, str]]]
    """Stage → session → slot → event."""


class Transplants(Protocol):
    """Export and import of whole conversations."""

    async def export(self, key: str, tables: Mapping[str, Sequence[str]]) -> StoredConversation:
        """All state of a conversation; ``tables`` gives the tables of every stage.

        No stage may work on the conversation, because it is read in several steps. Raises `Unavailable`.
        """
        ...

    async def swap(
        self,
        key: str,
        tables: Mapping[str, Sequence[str]],
        standing: StoredConversation,
        expect: Ledger,
        others: Mapping[str, Ledger] = {},
    ) -> bool:
        """Replace all state of a conversation by ``standing``, in one transaction, which gives its ledgers new tokens.

        Returns False and changes nothing when the ledger of the first stage of ``tables`` differs from ``expect``, or
        that of another stage from the one in ``others``: the conversation has changed meanwhile. Raises `Unavailable`.
        """
        ...


class ColdStore(Protocol):
    """A store of files for conversations that are idle. Every method raises `Unavailable` when it does not answer."""

    async def put(self, name: str, data: bytes) -> None:
        """Write a file, whole or not at all; names are words between slashes."""
        ...

    async def get(self, name: str, most: int) -> bytes | None:
        """The first bytes of a file, at most ``most``; `None` where there is none.

        Raises `FileUnreadable` where this file gives a fault, and others may not.
        """
        ...

    async def names(self, folder: str) -> list[str]:
        """The names of all files below a folder, sorted; one left half written has the name of the whole and a tail."""
        ...

    async def remove(self, names: Sequence[str]) -> None:
        """Delete files; missing ones are no fault."""
        ...


class ParkingLot(Protocol):
    """Events that came before their order, in the store of their ledger."""

    async def park(self, scope: Scope, number: int, slot: str, text: str) -> bool:
        """Keep an event of session ``number`` under ``slot``, once; returns False when that session is applied."""
        ...

    async def parked(self, scope: Scope, number: int) -> dict[str, str]:
        """Parked events of session ``number``: slot → event."""
        ...

    async def parked_numbers(self, scope: Scope) -> list[int]:
        """Numbers of the sessions with parked events, ascending."""
        ...

    async def progress(self, scope: Scope) -> tuple[int, int]:
        """The number applied last, and the count of late sessions, as they are stored now."""
        ...


@dataclass(frozen=True, slots=True)
class ActiveConversation:
    """An entry of the list of a tenant's conversations."""

    conversation_id: str
    active: datetime
    """Log time of the last utterance or end of a session."""


class ActivityList(Protocol):
    """The conversations of tenants by their last activity; raises `Unavailable` when the store does not answer."""

    async def active(
        self, tenant: str, limit: int, after: ActiveConversation | None = None
    ) -> list[ActiveConversation]:
        """The conversations of a tenant, the last active first, equal ones by id descending; those behind ``after``."""
        ...


@dataclass(frozen=True, slots=True)
class Search:
    """One search in one conversation, by a dense or a sparse vector."""

    collection: Collection
    key: str
    limit: int
    dense: bytes | None = None
    """Little-endian float32, a unit vector; scores are cosines."""
    sparse: SparseVector | None = None
    """Scores are dot products."""
    born_before: int | None = None
    """Restricts the search to points of sessions before this one."""


@dataclass(frozen=True, slots=True)
class Hit:
    """A point found by a search."""

    id: str
    score: float
    """Rounded to six digits; equal scores are ordered by id."""


class VectorIndex(Protocol):
    """Vector search, in Qdrant or in memory. Every method raises `Unavailable` when the server does not answer."""

    async def prepare(self, embedder: str, dimensions: int) -> None:
        """Create missing collections; raises `Refused` where one was made with another embedder."""
        ...

    async def upsert(
        self, points: Sequence[Point], fence: int = 0, *, mark: bool = False, over: Mapping[str, int] | None = None
    ) -> None:
        """Write points and wait until searches find them; one with a smaller ``seq`` than the stored one is ignored.

        So is one where the stored point, or what `fence_off` left there, demands a greater ``fence``. With ``mark`` the
        points demand this one from later upserts. ``over``: id → the ``seq`` up to which the stored point may be
        replaced, also by one with a smaller ``seq``.
        """
        ...

    async def fence_off(self, collection: Collection, ids: Sequence[str], fence: int) -> None:
        """Remove points, there or not, and refuse upserts of them with a smaller ``fence`` from now on; wait.

        What stands in their place is found by nobody. Points that demand this fence, or a greater one, stay.
        """
        ...

    async def search(self, searches: Sequence[Search]) -> list[list[Hit]]:
        """The best hits of each search, exact, best first."""
        ...

    async def seqs(self, collection: Collection, key: str, ids: Sequence[str] | None = None) -> Mapping[str, int]:
        """All points of a conversation, or those of ``ids`` that exist: id → seq. For checks and inspection."""
        ...

    async def digests(self, collection: Collection, key: str) -> Mapping[str, str]:
        """All points of a conversation: id → digest of the text. For checks and inspection."""
        ...

    async def points(self, collection: Collection, key: str) -> list[Point]:
        """All points of a conversation with their vectors, ordered by id. For copies and comparisons.

        A server may give the digests of the texts in place of the texts.
        """
        ...

    async def remove(self, collection: Collection, key: str, ids: Sequence[str]) -> None:
        """Remove points of a conversation and wait; missing ones and those of others are left alone."""
        ...
