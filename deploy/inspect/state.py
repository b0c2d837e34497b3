"""Reads the derived state of conversations and compares the vector index with it; changes neither."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from eunoe.deploy.inspect.counted import counted
from eunoe.deploy.inspect.decisions import DecisionCount, DecisionShare
from eunoe.deploy.inspect.packed_state import PackedState
from eunoe.schemas.ports import VectorIndex
from eunoe.workers.derive.digest import Document, StateRow, hash_state
from eunoe.workers.derive.index_audit import Finding, Unfinished, compare_index, unfinished
from eunoe.workers.intake.state import HEAD
from eunoe.workers.registry import STAGES
from eunoe.workers.stores.state.memory_store import MemoryStore
from eunoe.workers.stores.state.redis_store import RedisStore
from eunoe.workers.update.evidence import lost_evidence
from eunoe.workers.update.reads import all_endings, all_steps

_EDGES: Final = "link/edges"
_INTAKE: Final = "intake"
_HEAD: Final = f"{_INTAKE}/{HEAD}"


@dataclass(frozen=True, slots=True)
class CheckedState:
    """The report of a conversation's state, a fraction of its size."""

    key: str
    sha256: str
    progress: Mapping[str, Document]
    """Stage → ``applied`` and ``skipped``, where it has them, of the stages that the digest covers."""
    tables: Mapping[str, Mapping[str, int]]
    """Stage → table → number of documents."""
    edges: int
    decisions: Sequence[DecisionShare]
    findings: Sequence[Finding]
    unfinished: Sequence[Unfinished]
    lost_evidence: Sequence[str]
    is_known: bool
    """Whether something was said in it, or is left of it; an unrecorded ask leaves only a head."""
    packed: PackedState | None = None
    """The state itself, where it is kept."""

    @property
    def counts(self) -> dict[str, int]:
        """``stage/table`` → number of documents; of ``link/edges`` the edges, of which a document has several."""
        found = {f"{stage}/{table}": count for stage, tables in self.tables.items() for table, count in tables.items()}
        return found | ({_EDGES: self.edges} if _EDGES in found else {})

    @property
    def sessions(self) -> int:
        """Sessions that became memory."""
        applied: int = self.progress.get("update", {}).get("applied", 0)
        return applied


async def check_state(
    store: RedisStore | MemoryStore,
    index: VectorIndex,
    key: str,
    *,
    log_times: bool = False,
    shares: bool = True,
    keeps: bool = False,
) -> CheckedState | None:
    """The report of a conversation, read table by table; `None` for one of which nothing is there.

    ``shares``: with the shares of decisions, ``keeps``: with the state. Raises `Unavailable` when a server is down.
    """
    told = _Told(DecisionCount() if shares else None, PackedState() if keeps else None)
    hashed = await hash_state(store, key, STAGES, told.row, log_times=log_times)
    findings = await compare_index(store, index, key, STAGES)
    unfinished_work = await unfinished(store, store, key, STAGES)
    applied = any(part.get("applied") for part in hashed.progress.values())
    left = applied or findings or unfinished_work
    if not (hashed.tables or left):
        return None
    beyond_head = any({*tables} - ({HEAD} if stage == _INTAKE else set()) for stage, tables in hashed.tables.items())
    return CheckedState(
        key=key,
        sha256=hashed.sha256,
        progress=hashed.progress,
        tables=hashed.tables,
        edges=told.edges,
        decisions=told.decisions.shares() if told.decisions is not None else (),
        findings=findings,
        unfinished=unfinished_work,
        lost_evidence=lost_evidence(await all_endings(store, key), await all_steps(store, key)),
        is_known=bool(told.opened or beyond_head or left),
        packed=told.packed,
    )


@dataclass(slots=True)
class _Told:
    """The numbers that documents tell, one after the other."""

    decisions: DecisionCount | None
    packed: PackedState | None
    edges: int = 0
    opened: int = 0

    def row(self, row: StateRow) -> None:
        name = f"{row.stage}/{row.table}"
        if name == _EDGES:
            self.edges += len(row.document["edges"])
        elif name == _HEAD and row.id == HEAD:
            self.opened = row.document.get("opened", 0)
        if self.decisions is not None:
            self.decisions.add(row)
        if self.packed is not None:
            self.packed.add(row)


def all_conversations(number: int) -> str:
    """The label of the line for all conversations."""
    return f"all {counted(number, 'conversation')}"
