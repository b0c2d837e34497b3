"""Reads the derived state of conversations and compares the vector index with it; changes neither."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from eunoe.deploy.inspect.counted import counted
from eunoe.deploy.inspect.decisions import DecisionShare, decision_shares
from eunoe.schemas.ports import VectorIndex
from eunoe.workers.derive.digest import Document, StateDigest, read_digest
from eunoe.workers.derive.index_audit import Finding, Unfinished, compare_index, unfinished
from eunoe.workers.intake.state import HEAD
from eunoe.workers.registry import STAGES
from eunoe.workers.stores.memory import MemoryStore
from eunoe.workers.stores.redis import RedisStore
from eunoe.workers.update.evidence import lost_evidence
from eunoe.workers.update.reads import all_memories, all_steps


@dataclass(frozen=True, slots=True)
class ConversationState:
    """The digest of a conversation, disagreements of the index, and unfinished work."""

    digest: StateDigest
    findings: Sequence[Finding]
    unfinished: Sequence[Unfinished]
    lost_evidence: Sequence[str] = ()
    """Breaches of the invariant of evidence, in words."""


def counts_of(digest: StateDigest) -> dict[str, int]:
    """``stage/table`` → number of documents; of ``link/edges`` the edges, of which a document has several."""
    edges = digest.state.get("link", {}).get("tables", {}).get("edges", {})
    return digest.counts | ({"link/edges": sum(len(one["edges"]) for one in edges.values())} if edges else {})


@dataclass(frozen=True, slots=True)
class CheckedState:
    """The report of a conversation's state, a fraction of its size."""

    key: str
    sha256: str
    counts: Mapping[str, int]
    """See `counts_of`."""
    sessions: int
    """Sessions that became memory."""
    decisions: Sequence[DecisionShare]
    findings: Sequence[Finding]
    unfinished: Sequence[Unfinished]
    lost_evidence: Sequence[str]
    state: Document | None
    """The state itself, where it is wanted."""

    @classmethod
    def of(cls, read: ConversationState, *, shares: bool = True, keeps: bool = False) -> Self:
        """The report of a state that was read; ``shares``: with those of decisions, ``keeps``: with the state."""
        digest = read.digest
        return cls(
            key=digest.key,
            sha256=digest.sha256,
            counts=counts_of(digest),
            sessions=digest.state.get("update", {}).get("applied", 0),
            decisions=decision_shares(digest.state) if shares else (),
            findings=read.findings,
            unfinished=read.unfinished,
            lost_evidence=read.lost_evidence,
            state=digest.state if keeps else None,
        )


async def read_states(
    store: RedisStore | MemoryStore, index: VectorIndex, keys: Sequence[str], *, log_times: bool = False
) -> list[ConversationState]:
    """The states of these conversations, unknown ones left out; raises `Unavailable` when a server is down."""
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
    memories = {memory.memory_id: memory for memory in await all_memories(store, key)}
    lost = lost_evidence(memories, await all_steps(store, key))
    return ConversationState(digest, findings, unfinished_work, tuple(lost))


def is_known(state: ConversationState) -> bool:
    """Whether something was said in a conversation, or is left of it; an unrecorded ask leaves only a head."""
    parts = state.digest.state
    head = parts.get("intake", {}).get("tables", {}).get(HEAD, {}).get(HEAD, {})
    tables = state.digest.counts.keys() - {f"intake/{HEAD}"}
    applied = any(part.get("applied") for part in parts.values())
    return bool(head.get("opened") or tables or applied or state.findings or state.unfinished)


def all_conversations(number: int) -> str:
    """The label of the line for all conversations."""
    return f"all {counted(number, 'conversation')}"
