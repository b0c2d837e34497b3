"""The ports: what stages and the runner need of stores and models. Each has an in-memory or offline twin."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from eunoe.schemas.base import Value
from eunoe.schemas.decisions import Collection, Commit, Ledger, Point, Scope, SparseVector, Timer

Vectors = NDArray[np.float32]
"""Shape (n, dimensions), unit rows."""

AnswerT = TypeVar("AnswerT", bound=Value)


class Tables(Protocol):
    """What stages keep, to read from. Every method raises `Unavailable` when the store is."""

    async def fetch(self, stage: str, key: str, table: str, ids: Sequence[str]) -> list[str | None]:
        """The documents of a table by id, in the order asked; None where there is none."""
        ...

    async def scan(self, stage: str, key: str, table: str) -> dict[str, str]:
        """A whole table: id → document. For tables that have a bound, and for people who look."""
        ...


class StateStore(Tables, Protocol):
    """Redis, or its twin: ledgers and tables. Every method raises `Unavailable` when the store is."""

    async def ledger(self, scope: Scope) -> Ledger:
        """Where the stage stands; a new ledger where it never was."""
        ...

    async def commit(self, scope: Scope, commit: Commit) -> bool:
        """Do the transaction; False when the fence holds: ``applied`` moved, or an outbox is unsent."""
        ...

    async def mark_sent(self, scope: Scope, number: int) -> None:
        """Drop the outbox, only if it is still that of ``number``."""
        ...


class ConversationList(Protocol):
    """Which conversations a state store knows; raises `Unavailable` when the store is."""

    async def conversations(self) -> list[str]:
        """The keys of all conversations of this generation, sorted: a full scan, for people who look."""
        ...


@dataclass(frozen=True, slots=True)
class StoredConversation:
    """All that a store keeps of one conversation, as it is between two decisions."""

    ledgers: Mapping[str, Ledger]
    """By stage; nothing is unsent. What a lane (one request) keeps is no part of it."""
    tables: Mapping[tuple[str, str], Mapping[str, str]]
    """(stage, table) → id → document."""
    parked: Mapping[str, Mapping[int, Mapping[str, str]]]
    """Stage → session → slot → event."""


class Transplants(Protocol):
    """A conversation as a whole, taken out of one store and put into another."""

    async def export(self, key: str, tables: Mapping[str, Sequence[str]]) -> StoredConversation:
        """What is kept of a conversation; ``tables``: every stage → its tables.

        Only for a conversation on which nobody works: it is read in pieces. Raises `Unavailable`.
        """
        ...

    async def swap(
        self, key: str, tables: Mapping[str, Sequence[str]], standing: StoredConversation, expect: Ledger
    ) -> bool:
        """Put ``standing`` in the place of all that is kept of a conversation, in one transaction.

        False, and nothing is changed, where the ledger of the first stage of ``tables`` is no longer as ``expect``
        says: somebody worked on the conversation meanwhile. Raises `Unavailable`.
        """
        ...


class ParkingLot(Protocol):
    """Events that came before their turn, kept by the store of their ledger."""

    async def park(self, scope: Scope, number: int, slot: str, text: str) -> bool:
        """Keep an event of session ``number`` under ``slot``, once; False when that session is applied already."""
        ...

    async def parked(self, scope: Scope, number: int) -> dict[str, str]:
        """What is parked of session ``number``: slot → event."""
        ...

    async def parked_numbers(self, scope: Scope) -> list[int]:
        """The sessions of which something is parked, ascending."""
        ...


@dataclass(frozen=True, slots=True)
class DueTimer:
    """A session that may have gone idle."""

    key: str
    timer: Timer


class LogPositions(Protocol):
    """What intake remembers of the log itself, by partition: an index, not a truth."""

    async def position(self, partition: int) -> int | None:
        """The position (see `eunoe.streams.position`) that was handled last; None: none yet."""
        ...

    async def remember(self, partition: int, position: int) -> None:
        """Record the handled position; it never goes back."""
        ...

    async def schedule(self, partition: int, key: str, timer: Timer) -> None:
        """Set, move or (with no utterance) cancel a conversation's timer."""
        ...

    async def due(self, partition: int, since: datetime, limit: int) -> list[DueTimer]:
        """Timers of sessions that are quiet since ``since`` or longer, the oldest first."""
        ...

    async def was_announced(self, partition: int, position: int, generation: str, nonce: str | None) -> bool:
        """Whether the promotion at ``position`` was announced with this nonce, which no other place has used."""
        ...

    async def promote(self, partition: int, position: int, generation: str) -> None:
        """Record that ``generation`` answers what stands behind ``position``."""
        ...

    async def answering(self, partition: int, position: int | None = None) -> str | None:
        """The generation that answers what stands at a position (None: at the end); None where none was promoted."""
        ...


@dataclass(frozen=True, slots=True)
class Search:
    """One search in one conversation; either a dense or a sparse query."""

    collection: Collection
    key: str
    limit: int
    dense: bytes | None = None
    """Little-endian float32, a unit vector; scores are cosines."""
    sparse: SparseVector | None = None
    """Scores are dot products."""
    born_before: int | None = None
    """Only points of sessions before this one."""


@dataclass(frozen=True, slots=True)
class Hit:
    """A point that a search found."""

    id: str
    score: float
    """Rounded to six digits; equal scores are ordered by id."""


class VectorIndex(Protocol):
    """Qdrant, or its twin. Every method raises `Unavailable` when the server is."""

    async def prepare(self, embedder: str, dimensions: int) -> None:
        """Create what is missing; raises `Refused` where a collection was made with another embedder."""
        ...

    async def upsert(self, points: Sequence[Point]) -> None:
        """Write points and wait until they can be found; one with a smaller ``seq`` than the one there is ignored."""
        ...

    async def search(self, searches: Sequence[Search]) -> list[list[Hit]]:
        """The best hits of each search, exact, best first."""
        ...

    async def seqs(self, collection: Collection, key: str) -> Mapping[str, int]:
        """Every point of a conversation: id → seq. For checks and for people who look."""
        ...

    async def texts(self, collection: Collection, key: str) -> Mapping[str, str]:
        """Every point of a conversation: id → text. For checks and for people who look."""
        ...

    async def points(self, collection: Collection, key: str) -> list[Point]:
        """Every point of a conversation, by id, with its vectors: for what copies or compares a whole one."""
        ...

    async def remove(self, collection: Collection, key: str, ids: Sequence[str]) -> None:
        """Remove points of a conversation and wait; those that are not there, or another's, are left alone."""
        ...


class Prompt(Value):
    """A question to a language model."""

    name: str
    """Which prompt of ours, with its version: ``segment/1``."""
    system: str
    user: str
    max_tokens: int = 1024
    correcting: bool = False
    """True: the second asking, with the fault of the first answer named; counted apart."""


class LanguageModel(Protocol):
    """A chat model that answers in a given form."""

    @property
    def name(self) -> str:
        """The model's name, as provenance tells it."""
        ...

    async def answer(self, prompt: Prompt, form: type[AnswerT], *, urgent: bool = False) -> AnswerT:
        """The model's answer, parsed.

        ``urgent`` is for replies: somebody waits. Raises `AnswerInvalid` when the answer is not of
        the form, `Unavailable` when the endpoint does not answer after its retries.
        """
        ...


class Embedder(Protocol):
    """Texts to unit vectors."""

    @property
    def name(self) -> str:
        """The model's name and version; vectors of different names are never compared."""
        ...

    @property
    def dimensions(self) -> int:
        """The length of a vector."""
        ...

    async def embed(self, texts: Sequence[str]) -> Vectors:
        """One unit row per text; a text without a known word gets some fixed unit row."""
        ...


class Compressor(Protocol):
    """Takes out of a text what retrieval does not need (SeCom, section 2.3)."""

    @property
    def name(self) -> str:
        """The model's name, as provenance tells it."""
        ...

    async def compress(self, texts: Sequence[str], keep: float) -> list[str]:
        """Each text with about the share ``keep`` of its tokens, in their order."""
        ...
