"""Compares the vector index with the state store, the source of truth, and lists unfinished work."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from eunoe.schemas.decisions import Collection, Scope, digest_of_text
from eunoe.schemas.errors import StateDamaged
from eunoe.schemas.ports import ParkingLot, StateStore, Tables, VectorIndex
from eunoe.workers.stage import ApplyOrder, StageSpec
from eunoe.workers.tables import Indexed, IndexEntry


class Disagreement(StrEnum):
    """Kinds of disagreement between a point of the index and its document."""

    MISSING = "missing"
    """The document has no point: it cannot be found."""
    UNKNOWN = "unknown"
    """The point has no document: searches drop it."""
    OTHER_TEXT = "other-text"
    """The texts of point and document differ."""
    STALE = "stale"
    """The point is of another session than the document: later changes are missing in it."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One point that disagrees with the state store."""

    collection: Collection
    id: str
    kind: Disagreement
    detail: str


class SampledStore(StateStore, Protocol):
    """A state store that can choose at random. Every method raises `Unavailable`."""

    async def sample(self, count: int) -> set[str]:
        """Keys of at most ``count`` conversations."""
        ...

    async def sample_documents(self, stage: str, key: str, table: str, count: int) -> dict[str, str]:
        """At most ``count`` documents of a table, by id."""
        ...


async def expected_entries(store: Tables, key: str, spec: StageSpec) -> dict[Collection, dict[str, IndexEntry]]:
    """The entries that a stage's documents of a conversation need, by collection and id.

    Raises `Unavailable`, `StateDamaged`.
    """
    expected: dict[Collection, dict[str, IndexEntry]] = {}
    for indexed in spec.tables.indexed:
        documents = await store.scan(spec.name, key, indexed.table)
        expected[indexed.collection] = _entries(key, indexed, documents.values())
    return expected


def _entries(key: str, indexed: Indexed, documents: Iterable[str]) -> dict[str, IndexEntry]:
    try:
        entries = list(map(indexed.entry, documents))
    except (ValueError, LookupError, TypeError, AttributeError) as fault:
        raise StateDamaged(
            f"a document of {key} in {indexed.table} is none of that table; run `eunoe repair` to derive it again",
            "Redis",
        ) from fault
    return {entry.id: entry for entry in entries if entry is not None}


async def missing_entries(
    store: StateStore, index: VectorIndex, key: str, specs: Mapping[str, StageSpec]
) -> list[IndexEntry]:
    """The entries of a conversation that have no point; those of an unsent outbox are not missing yet.

    May run while workers write: documents are read first, and points are sent before their outbox is marked. Raises
    `Unavailable`.
    """
    missing: list[IndexEntry] = []
    for spec in specs.values():
        expected = await expected_entries(store, key, spec)
        if not any(expected.values()) or (await store.ledger(Scope(spec.name, key))).outbox is not None:
            continue
        for collection, entries in expected.items():
            there = await index.seqs(collection, key)
            missing += [entry for id_, entry in entries.items() if id_ not in there]
    return missing


async def has_missing_entries(
    store: SampledStore, index: VectorIndex, key: str, specs: Mapping[str, StageSpec], count: int
) -> bool:
    """Whether one of ``count`` documents of each table, chosen at random, has no point, as in `missing_entries`.

    Takes as long for a conversation of any length. Raises `Unavailable`.
    """
    for spec in specs.values():
        for indexed in spec.tables.indexed:
            documents = await store.sample_documents(spec.name, key, indexed.table, count)
            entries = _entries(key, indexed, documents.values())
            if not entries or (await store.ledger(Scope(spec.name, key))).outbox is not None:
                continue
            if entries.keys() - await index.seqs(indexed.collection, key, list(entries)):
                return True
    return False


async def compare_index(
    store: StateStore, index: VectorIndex, key: str, specs: Mapping[str, StageSpec]
) -> list[Finding]:
    """Every disagreement about a conversation, by collection and id; raises `Unavailable` when a server is."""
    expected: dict[Collection, dict[str, IndexEntry]] = {collection: {} for collection in Collection}
    for spec in specs.values():
        expected |= await expected_entries(store, key, spec)
    found: list[Finding] = []
    for collection, entries_of in expected.items():
        digests = await index.digests(collection, key)
        found += disagreements(collection, entries_of, digests, await index.seqs(collection, key))
    return found


def disagreements(
    collection: Collection, expected: Mapping[str, IndexEntry], digests: Mapping[str, str], seqs: Mapping[str, int]
) -> Iterator[Finding]:
    """The disagreements between expected entries and points; ``digests`` and ``seqs`` (sessions) are by id."""
    for id_ in sorted({*expected, *digests}):
        entry, digest, seq = expected.get(id_), digests.get(id_), seqs.get(id_, 0)
        if entry is None:
            yield Finding(collection, id_, Disagreement.UNKNOWN, f"the index has a point of session {seq}")
        elif digest is None:
            yield Finding(collection, id_, Disagreement.MISSING, f"the state store has {entry.text!r:.120}")
        elif digest != digest_of_text(entry.text):
            yield Finding(collection, id_, Disagreement.OTHER_TEXT, f"not {entry.text!r:.120}")
        elif not entry.oldest <= seq <= entry.newest:
            wanted = str(entry.newest) if entry.oldest == entry.newest else f"{entry.oldest} to {entry.newest}"
            yield Finding(collection, id_, Disagreement.STALE, f"of session {seq} instead of {wanted}")


@dataclass(frozen=True, slots=True)
class Unfinished:
    """Unfinished work of a stage on a conversation."""

    stage: str
    why: str


async def unfinished(
    store: StateStore, parking: ParkingLot, key: str, specs: Mapping[str, StageSpec]
) -> Sequence[Unfinished]:
    """Unfinished work: outboxes that are not sent, events that wait for others. Raises `Unavailable`."""
    found = []
    for spec in specs.values():
        if spec.order is ApplyOrder.REQUEST:
            continue
        scope = Scope(spec.name, key)
        ledger = await store.ledger(scope)
        if ledger.outbox is not None:
            found.append(Unfinished(spec.name, f"the outbox of {spec.order.value} {ledger.applied} is not sent yet"))
        waiting = await parking.parked_numbers(scope) if spec.gathers else []
        if waiting:
            numbers = ", ".join(map(str, waiting[:8])) + (" …" if len(waiting) > 8 else "")
            many = "1 session waits" if len(waiting) == 1 else f"{len(waiting)} sessions wait"
            found.append(Unfinished(spec.name, f"{many} for session {ledger.applied + 1}: {numbers}"))
    return found
