"""States of conversations read whole, with the digest of the whole: what reads them table by table is held to it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import orjson

from eunoe.schemas.decisions import Scope
from eunoe.schemas.ports import StateStore, VectorIndex
from eunoe.workers.derive.digest import Document, canonical, hash_of
from eunoe.workers.derive.index_audit import Finding, Unfinished, compare_index, unfinished
from eunoe.workers.registry import STAGES
from eunoe.workers.stage import StageSpec
from eunoe.workers.stores.state.memory_store import MemoryStore
from eunoe.workers.stores.state.redis_store import RedisStore
from eunoe.workers.update.evidence import lost_evidence
from eunoe.workers.update.reads import all_endings, all_steps


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


async def read_digest(
    store: StateStore, key: str, specs: Mapping[str, StageSpec], *, log_times: bool = False
) -> StateDigest:
    """The digest of a conversation as the store has it now, with all of its state."""
    parts = {name: await _read_stage(store, key, spec, log_times=log_times) for name, spec in specs.items()}
    return StateDigest(key, {name: part for name, part in parts.items() if part})


async def _read_stage(store: StateStore, key: str, spec: StageSpec, *, log_times: bool) -> Document:
    part: Document = {}
    if spec.order.is_gapless:
        ledger = await store.ledger(Scope(spec.name, key))
        part = {"applied": ledger.applied, "skipped": sorted(ledger.skipped)}
    tables = {table: await store.scan(spec.name, key, table) for table in spec.tables.digested}
    read = {table: _documents(found, log_times=log_times) for table, found in tables.items() if found}
    return part | ({"tables": read} if read else {})


def _documents(rows: Mapping[str, str], *, log_times: bool) -> Document:
    return {id_: canonical(orjson.loads(text), log_times=log_times) for id_, text in rows.items()}


@dataclass(frozen=True, slots=True)
class ConversationState:
    """The digest of a conversation, disagreements of the index, and unfinished work."""

    digest: StateDigest
    findings: Sequence[Finding]
    unfinished: Sequence[Unfinished]
    lost_evidence: Sequence[str] = ()
    """Breaches of the invariant of evidence, in words."""


async def read_states(
    store: RedisStore | MemoryStore, index: VectorIndex, keys: Sequence[str], *, log_times: bool = False
) -> list[ConversationState]:
    """The states of these conversations; unknown ones are left out."""
    return [state for key in keys if (state := await _read_state(store, index, key, log_times=log_times))]


async def _read_state(
    store: RedisStore | MemoryStore, index: VectorIndex, key: str, *, log_times: bool
) -> ConversationState | None:
    digest = await read_digest(store, key, STAGES, log_times=log_times)
    findings = await compare_index(store, index, key, STAGES)
    unfinished_work = await unfinished(store, store, key, STAGES)
    known = any(part.get("tables") or part.get("applied") for part in digest.state.values())
    if not (known or findings or unfinished_work):
        return None
    lost = lost_evidence(await all_endings(store, key), await all_steps(store, key))
    return ConversationState(digest, findings, unfinished_work, tuple(lost))
