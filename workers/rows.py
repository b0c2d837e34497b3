"""What a stage's row of the registry says."""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from eunoe.schemas.base import Contract
from eunoe.schemas.decisions import Work
from eunoe.schemas.events import ConversationEvent, SessionSkipped
from eunoe.streams.topics import TOPICS, Topic, topics_of
from eunoe.workers.keeping import StageTables


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
    give_up: OnFailure = field(default=lambda work, error: ())
    gathers: bool = False
    """True: the events of a session wait for each other; what comes early is parked."""
    keeping: StageTables = field(default_factory=StageTables)
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
    def dense_slots(self) -> frozenset[str]:
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

    def give_up(work: Work[Any], error: str) -> tuple[Contract, ...]:
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

    return give_up
