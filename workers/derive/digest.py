"""The state digest: one hash of all that was derived from a conversation, equal for equal input.

It covers the digested tables of the stages (see `eunoe.workers.stage.StageTables`) and their progress, as one JSON
document: stage → ``applied``, ``skipped``, ``tables`` (name → id → document). It covers no clock: neither durations
nor, unless asked for, the log's times.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Protocol

import orjson

from eunoe.schemas.decisions import Scope
from eunoe.schemas.errors import StateDamaged
from eunoe.schemas.ports import StateStore
from eunoe.workers.stage import StageSpec

LOG_TIMES = frozenset({"known_from", "last_log_time"})
"""Fields that hold the log's time: equal in two readings of one log, not in two logs of the same events."""

DIGITS = 6
"""Decimals of a float that are compared."""

Document = dict[str, Any]


def hash_of(value: object) -> str:
    """The SHA-256 of a value's canonical JSON: sorted keys, no white space, UTF-8."""
    return hashlib.sha256(_text(value).encode()).hexdigest()


class Hashed(Protocol):
    """A conversation and the hash of its state."""

    @property
    def key(self) -> str:
        """The conversation."""
        ...

    @property
    def sha256(self) -> str:
        """64 hex digits."""
        ...


def hash_of_all(digests: Iterable[Hashed]) -> str:
    """The SHA-256 over all conversations, whatever their order."""
    return hash_of({digest.key: digest.sha256 for digest in digests})


def canonical(value: object, *, log_times: bool = False) -> Any:  # noqa: ANN401 - JSON
    """A JSON value without the log's times (unless wanted), its floats rounded to six digits."""
    if isinstance(value, dict):
        kept = value if log_times else {name: part for name, part in value.items() if name not in LOG_TIMES}
        return {name: canonical(part, log_times=log_times) for name, part in kept.items()}
    if isinstance(value, list):
        return [canonical(part, log_times=log_times) for part in value]
    if isinstance(value, float):
        return round(value, DIGITS) + 0.0  # no minus before zero
    return value


async def _progress(store: StateStore, key: str, spec: StageSpec) -> Document:
    if not spec.order.is_gapless:
        return {}
    ledger = await store.ledger(Scope(spec.name, key))
    return {"applied": ledger.applied, "skipped": sorted(ledger.skipped)}


class StateRow(NamedTuple):
    """A document of the digested state, in canonical form."""

    stage: str
    table: str
    place: tuple[int, int, int]
    """The numbers of its stage, its table and itself, in the order of the stages that were asked for."""
    id: str
    document: Any


VisitRow = Callable[[StateRow], None]


@dataclass(frozen=True, slots=True)
class HashedState:
    """The hash of a conversation's state and its numbers, without the state: that of years is large."""

    key: str
    sha256: str
    """64 hex digits."""
    progress: Mapping[str, Document]
    """Stage → ``applied`` and ``skipped``, where it has them, in the order of the stages that were asked for."""
    tables: Mapping[str, Mapping[str, int]]
    """Stage → table → number of its documents; stages without any are left out."""


async def hash_state(
    store: StateStore,
    key: str,
    specs: Mapping[str, StageSpec],
    visit: VisitRow = lambda _: None,
    *,
    log_times: bool = False,
) -> HashedState:
    """The hash of a state, of which one table at a time is held; ``visit`` is called with each document.

    Documents come by stage, table and id, as they are hashed. Raises `Unavailable`.
    """
    found = _Hashing(visit, log_times=log_times)
    order = {name: number for number, name in enumerate(specs)}
    for name in sorted(specs):
        await found.stage(store, key, specs[name], order[name])
    stages = [name for name in specs if name in found.progress]
    return HashedState(
        key,
        found.sha256(),
        {name: found.progress[name] for name in stages},
        {name: _in_order(found.tables[name], specs[name]) for name in stages if found.tables[name]},
    )


def _in_order(counts: Mapping[str, int], spec: StageSpec) -> dict[str, int]:
    return {table: counts[table] for table in spec.tables.digested if table in counts}


class _Hashing:
    """Feeds the canonical JSON of a state to the hash, piece by piece: names sorted on each level."""

    def __init__(self, visit: VisitRow, *, log_times: bool) -> None:
        self._visit, self._log_times = visit, log_times
        self._hash = hashlib.sha256(b"{")
        self.progress: dict[str, Document] = {}
        self.tables: dict[str, dict[str, int]] = {}

    async def stage(self, store: StateStore, key: str, spec: StageSpec, number: int) -> None:
        """Hash a stage; ``number``: its place among those that were asked for. Raises `StateDamaged`."""
        name, part = spec.name, await _progress(store, key, spec)
        counts: dict[str, int] = {}
        head = f"{',' if self.progress else ''}{_text(name)}:{_text(part).removesuffix('}')}"
        for table in sorted(spec.tables.digested):
            before = "," if counts else f"{head}{',' if part else ''}{_TABLES}"
            try:  # without a name for the documents, which would hold them with the next table
                rows = self._table(await store.scan(name, key, table), before, (name, table), spec, number)
            except ValueError as fault:
                where = f"a document of {key} in {name}/{table}"
                told = f"{where} is no JSON: it was changed; run `eunoe repair` to derive the conversation again"
                raise StateDamaged(told, "Redis") from fault
            if rows:
                counts[table] = rows
        if not part and not counts:
            return
        self._hash.update(b"}}" if counts else f"{head}}}".encode())
        self.progress[name], self.tables[name] = part, counts

    def _table(self, rows: Mapping[str, str], before: str, names: tuple[str, str], spec: StageSpec, number: int) -> int:
        """Hash a table, of which nothing is held afterwards; returns the number of its documents."""
        if rows:
            self._hash.update(f"{before}{_text(names[1])}:{{".encode())
            self._rows(rows, names, (number, spec.tables.digested.index(names[1])))
            self._hash.update(b"}")
        return len(rows)

    def _rows(self, rows: Mapping[str, str], names: tuple[str, str], above: tuple[int, int]) -> None:
        places = {id_: place for place, id_ in enumerate(rows)}
        for number, id_ in enumerate(sorted(rows)):
            document = canonical(orjson.loads(rows[id_]), log_times=self._log_times)
            self._hash.update(f"{',' if number else ''}{_text(id_)}:{_text(document)}".encode())
            self._visit(StateRow(*names, (*above, places[id_]), id_, document))

    def sha256(self) -> str:
        self._hash.update(b"}")
        return self._hash.hexdigest()


_TABLES: Final = '"tables":{'


def _text(value: object) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
