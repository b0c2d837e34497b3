"""The state digest: one hash of all that was derived from a conversation, equal for equal input.

It covers the digested tables of the stages (see `eunoe.workers.stage.StageTables`) and their progress. It covers no
clock: neither durations nor, unless asked for, the log's times.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import orjson

from eunoe.schemas.decisions import Scope
from eunoe.schemas.ports import StateStore
from eunoe.workers.stage import StageSpec

LOG_TIMES = frozenset({"known_from", "last_log_time"})
"""Fields that hold the log's time: equal in two readings of one log, not in two logs of the same events."""

DIGITS = 6
"""Decimals of a float that are compared."""

Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class StateDigest:
    """The derived state of one conversation, in canonical form, with its hash."""

    key: str
    state: Document
    """Stage → ``applied``, ``skipped``, ``tables`` (name → id → document)."""

    @property
    def sha256(self) -> str:
        """64 hex digits."""
        return hash_of(self.state)

    @property
    def counts(self) -> dict[str, int]:
        """``stage/table`` → its number of documents."""
        return {
            f"{stage}/{table}": len(rows)
            for stage, part in self.state.items()
            for table, rows in part.get("tables", {}).items()
        }


def hash_of(value: object) -> str:
    """The SHA-256 of a value's canonical JSON: sorted keys, no white space, UTF-8."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


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


async def read_digest(
    store: StateStore, key: str, specs: Mapping[str, StageSpec], *, log_times: bool = False
) -> StateDigest:
    """The digest of a conversation as the store has it now; raises `Unavailable` when the store is."""
    parts = {name: await _read_stage(store, key, spec, log_times=log_times) for name, spec in specs.items()}
    return StateDigest(key, {name: part for name, part in parts.items() if part})


async def _read_stage(store: StateStore, key: str, spec: StageSpec, *, log_times: bool) -> Document:
    part: Document = {}
    if spec.order.is_gapless:
        ledger = await store.ledger(Scope(spec.name, key))
        part |= {"applied": ledger.applied, "skipped": sorted(ledger.skipped)}
    tables = {table: await store.scan(spec.name, key, table) for table in spec.tables.digested}
    read = {table: _documents(found, log_times=log_times) for table, found in tables.items() if found}
    return part | ({"tables": read} if read else {})


def _documents(rows: Mapping[str, str], *, log_times: bool) -> Document:
    return {id_: canonical(orjson.loads(text), log_times=log_times) for id_, text in rows.items()}
