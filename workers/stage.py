"""A stage: its decision, its place in the pipeline, and the tables it keeps."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol, runtime_checkable

from eunoe.schemas.base import Contract
from eunoe.schemas.decisions import Collection, Decision, Outcome, Work
from eunoe.schemas.events import ConversationEvent, SessionSkipped
from eunoe.streams.topics import TOPICS, Topic, topics_of


class Stage(Protocol):
    """A pure decision with thin reads; it never commits, publishes, acknowledges or retries."""

    async def decide(self, work: Work[Any]) -> Outcome:
        """What should become true because of ``work``.

        Raises `Unavailable` when a server it reads from is; anything else it raises counts as a
        failure of this event.
        """
        ...


@runtime_checkable
class BatchStage(Protocol):
    """A stage that can also decide several events of a conversation before the first of them is committed."""

    async def decide_batch(self, works: Sequence[Work[Any]]) -> Sequence[Decision]:
        """The decision of each, in their order, each made as if those before it were committed.

        Raises what `Stage.decide` raises.
        """
        ...


# ---- its tables


@dataclass(frozen=True, slots=True)
class IndexEntry:
    """What the vector index must say of one document."""

    id: str
    text: str
    oldest: int
    """The session that its point was first written in."""
    newest: int
    """The session that changed the document last: the point is of this one, or of an earlier one that said the same."""


@dataclass(frozen=True, slots=True)
class Indexed:
    """A table whose documents stand in the vector index."""

    collection: Collection
    table: str
    entry: Callable[[str], IndexEntry | None]
    """The entry of a document (JSON); None for one that has no point."""


@dataclass(frozen=True, slots=True)
class StageTables:
    """The tables of a stage."""

    digested: tuple[str, ...] = ()
    """What two runs over the same input must agree on."""
    left_out: Mapping[str, str] = field(default_factory=dict)
    """Tables that are not part of it → why."""
    indexed: tuple[Indexed, ...] = ()


# ---- its place in the pipeline


class ApplyOrder(StrEnum):
    """In which order a stage applies a conversation's events, and by which fence."""

    POSITION = "position"
    """By position in the log, which has gaps: a compare-and-set on the position that was read."""
    SESSION = "session"
    """Session by session, 1, 2, 3 …: ``applied`` must be the one before."""
    TURN = "turn"
    """Blended turn by blended turn, 1, 2, 3 …, by the same rule."""
    REQUEST = "request"
    """Each request once, by its id."""

    @property
    def is_dense(self) -> bool:
        """True: every number comes; one that is missing means that acknowledged writes were lost."""
        return self in (ApplyOrder.SESSION, ApplyOrder.TURN)


OnFailure = Callable[[Work[Any], str], tuple[Contract, ...]]
"""(what could not be decided, the error) → the events that tell the rest of the house."""


@dataclass(frozen=True, slots=True)
class StageSpec:
    """A stage's place in the house."""

    name: str
    consumes: tuple[type[ConversationEvent], ...]
    emits: tuple[type[ConversationEvent], ...]
    order: ApplyOrder
    on_failure: OnFailure = field(default=lambda work, error: ())
    gathers: bool = False
    """True: the events of a session wait for each other; what comes early is parked."""
    tables: StageTables = field(default_factory=StageTables)
    """Its tables: what of them belongs to the state digest, and what stands in the index."""
    in_order: tuple[type[ConversationEvent], ...] = ()
    """Of a gathering stage: what comes (as itself, or as skipped) once for every session, one session after the other.
    Where that of the session before neither came nor is applied, acknowledged writes were lost."""

    reads: tuple[str, ...] = ()
    """The stages whose state (or points) it reads beside its own and what its events carry."""

    @property
    def answers(self) -> bool:
        """True: somebody waits for what it does; what it hands on becomes a reply."""
        return self.order is not ApplyOrder.SESSION

    @property
    def retries(self) -> bool:
        """True: a record that it set aside may be sent back to it; an ask that failed was answered all the same."""
        return self.order in (ApplyOrder.POSITION, ApplyOrder.SESSION)

    @property
    def inputs(self) -> tuple[Topic, ...]:
        """The topics it reads."""
        return _distinct(self.consumes)

    @property
    def outputs(self) -> tuple[Topic, ...]:
        """The topics it writes to."""
        return _distinct(self.emits)

    @property
    def ordered_event_types(self) -> frozenset[str]:
        """The slots of which a session that is parked in its order fills one."""
        if not self.in_order:
            return frozenset()
        return frozenset({SessionSkipped.type_tag(), *(contract.type_tag() for contract in self.in_order)})

    def route(self, event: Contract) -> tuple[Topic, ...]:
        """The topics that an event of this stage goes to; a skipped session goes wherever its sessions go."""
        if isinstance(event, SessionSkipped):
            return tuple(topic for topic in self.outputs if SessionSkipped in TOPICS[topic].carries)
        return topics_of(type(event))


def _distinct(contracts: tuple[type[ConversationEvent], ...]) -> tuple[Topic, ...]:
    return tuple(dict.fromkeys(topic for contract in contracts for topic in topics_of(contract)))


def skip_session(stage: str) -> OnFailure:
    """The usual way to give up: pass the session on as skipped."""

    def on_failure(work: Work[Any], error: str) -> tuple[Contract, ...]:
        event = work.events[0]
        return (
            SessionSkipped(
                tenant=event.tenant,
                conversation_id=event.conversation_id,
                session=work.number,
                stage=stage,
                error=error[:500],
                turns=next((event.turns for event in work.events if hasattr(event, "turns")), ()),
            ),
        )

    return on_failure
