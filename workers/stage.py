"""A stage: its decision, the settings and ports it is built from, and its place in the pipeline."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeVar, runtime_checkable

from eunoe.schemas.base import Contract, Value
from eunoe.schemas.decisions import Decision, Outcome, Point, Work
from eunoe.schemas.events import ConversationEvent, SessionSkipped
from eunoe.schemas.model_ports import Compressor, Embedder, LanguageModel
from eunoe.schemas.ports import StateStore, VectorIndex
from eunoe.schemas.position_ports import LogPositions
from eunoe.streams.record import Publisher
from eunoe.streams.topics import TOPICS, Topic, topics_of
from eunoe.workers.on_call import OnCall
from eunoe.workers.tables import StageTables

SettingsT = TypeVar("SettingsT", bound=Value)


class Stage(Protocol):
    """A pure decision with thin reads; it never commits, publishes, acknowledges or retries."""

    async def decide(self, work: Work[Any]) -> Outcome:
        """Decide what becomes true because of ``work``.

        Raises `Unavailable` while a server that it reads from is away. Any other exception counts as a failure of
        this event.
        """
        ...


@runtime_checkable
class BatchStage(Protocol):
    """A stage that can also decide several events of a conversation before the first of them is committed."""

    async def decide_batch(self, works: Sequence[Work[Any]]) -> Sequence[Decision]:
        """Decide the events in order, each as if those before it were committed.

        Raises what `Stage.decide` raises.
        """
        ...


@runtime_checkable
class FailureAwareStage(Protocol):
    """A stage whose settings shape the events after a failure; these take the place of its spec's `on_failure`."""

    def failure_events(self, work: Work[Any], error: str) -> tuple[Contract, ...]:
        """The events that report ``error``, the reason why ``work`` could not be decided."""
        ...


@runtime_checkable
class LossAwareStage(Protocol):
    """A stage that knows from the state of others whether the events that it waits for were sent."""

    async def lost(self, key: str, events: Sequence[Any]) -> str | None:
        """The events that a parked session lacks although they were sent, in words; `None` where none does.

        ``events``: those that have come. Raises `Unavailable`.
        """
        ...


# ---- what it is built from


class StageSettingsBase(Value):
    """The settings of all stages; the registry derives the class that has a field per section."""

    if TYPE_CHECKING:  # type checkers do not see the sections

        def __init__(self, **sections: Value) -> None: ...

    @classmethod
    def section(cls, kind: type[Value]) -> str:
        """The name of the field that holds settings of that class; raises ``LookupError`` where none does."""
        for name, info in cls.model_fields.items():
            if info.annotation is kind:
                return name
        raise LookupError(f"no stage has settings of {kind.__name__}")

    def of(self, kind: type[SettingsT]) -> SettingsT:
        """The settings of that class; raises ``LookupError`` where no stage has such."""
        found: SettingsT = getattr(self, self.section(kind))
        return found

    def with_changes(self, kind: type[Value], **changes: object) -> Self:
        """A copy in which these fields of one section differ; the values are not validated."""
        changed = self.of(kind).model_copy(update=changes)
        return self.model_copy(update={self.section(kind): changed})


@runtime_checkable
class StagedModel(Protocol):
    """A language model with others for single stages."""

    def for_stage(self, stage: str) -> LanguageModel:
        """The model of a stage."""
        ...


@dataclass(frozen=True, slots=True)
class Dependencies:
    """Ports, models and settings that stages are built from."""

    store: StateStore
    index: VectorIndex
    embedder: Embedder
    compressor: Compressor
    language: LanguageModel | None
    """`None` means that the offline implementations decide."""
    settings: StageSettingsBase

    def language_of(self, stage: str) -> LanguageModel | None:
        """The language model of a stage, which may have settings of its own; `None` where there is none."""
        return self.language.for_stage(stage) if isinstance(self.language, StagedModel) else self.language


@dataclass(frozen=True, slots=True)
class BackgroundContext:
    """The parts that a stage's background work is built from."""

    settings: StageSettingsBase
    log_positions: LogPositions
    publisher: Publisher
    caught_up: Callable[[], Sequence[int]]
    """The partitions that this process owns and has read to their end."""
    answers: Callable[[str | None], bool]
    """Whether this generation answers where the given one was promoted last; `None` means that none was promoted."""


@dataclass(frozen=True, slots=True)
class PeriodicTask:
    """Work that a process repeats while it runs the stage."""

    run: Callable[[], Awaitable[object]]
    """One round; may raise `Unavailable`."""
    interval_s: float
    """Seconds between two rounds."""


# ---- its place in the pipeline


class ApplyOrder(StrEnum):
    """The order in which a stage applies a conversation's events, and the fence that enforces it."""

    POSITION = "position"
    """By position in the log, which has gaps: a compare-and-set on the position that was read."""
    SESSION = "session"
    """Session by session, 1, 2, 3 …: ``applied`` must be the one before."""
    TURN = "turn"
    """Blended turn by blended turn, 1, 2, 3 …, by the same rule."""
    REQUEST = "request"
    """Each request once, by its id."""

    @property
    def is_gapless(self) -> bool:
        """Whether every number comes: a missing one means that acknowledged writes were lost."""
        return self in (ApplyOrder.SESSION, ApplyOrder.TURN)


class ModelKind(StrEnum):
    """The models that a stage may ask."""

    EMBEDDING = "embedding"
    COMPRESSION = "compression"
    LANGUAGE = "language"


Build = Callable[[Dependencies], Stage]
OnFailure = Callable[[Work[Any], str], tuple[Contract, ...]]
"""Maps what could not be decided, and the error, to the events that inform the following stages."""
Background = Callable[[BackgroundContext], PeriodicTask]
RestorePoints = Callable[[Dependencies, str], Awaitable[Sequence[Point]]]
"""Makes all points of a conversation, by its key, again from the stage's documents; may raise `Unavailable`."""


def no_events(work: Work[Any], error: str) -> tuple[Contract, ...]:
    """An `OnFailure` that informs nobody: the dead letter is all that is left of the event."""
    del work, error
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StageSpec:
    """All that the system knows of a stage. ``SPEC`` in ``workers/<stage>/spec.py`` is one."""

    name: str
    """Names its package, consumer group, ledger and tables, and its service."""
    purpose: str
    """Its task, in a line."""
    consumes: tuple[type[ConversationEvent], ...]
    emits: tuple[type[ConversationEvent], ...] = ()
    order: ApplyOrder
    build: Build
    settings: Mapping[str, type[Value]] = field(default_factory=dict)
    """Section of the settings → its class. A change of one makes this stage decide otherwise."""
    reply_settings: Mapping[str, type[Value]] = field(default_factory=dict)
    """Sections that only change what replies find in the same memory."""
    models: tuple[ModelKind, ...] = ()
    """The models that its decisions depend on."""
    tables: StageTables = field(default_factory=StageTables)
    reads: tuple[str, ...] = ()
    """The stages whose tables or points it reads, beside its own and what its events carry."""
    gathers: bool = False
    """Whether the events of a session wait for each other: early ones are parked."""
    in_order: tuple[type[ConversationEvent], ...] = ()
    """For a gathering stage: the events that come once per session, in order, as themselves or as skipped.
    Where the one of the session before neither came nor is applied, acknowledged writes were lost."""
    on_failure: OnFailure = no_events
    restore_points: RestorePoints | None = None
    """For a stage with indexed tables: makes their points again. `None` means that it has none."""
    background: tuple[Background, ...] = ()
    """Work beside the consumer, in every process that runs the stage."""

    def load(self) -> None:
        """Import what the stage is built of, which takes a while: before a process forks or has an event loop."""
        for function in (self.build, self.on_failure, self.restore_points, *self.background):
            if isinstance(function, OnCall):
                function.load()

    @property
    def answers(self) -> bool:
        """Whether a client waits for its decisions: what it emits becomes a reply."""
        return self.order is not ApplyOrder.SESSION

    @property
    def reads_log(self) -> bool:
        """Whether it consumes the log that clients produce into, not a topic of the generation."""
        return self.order is ApplyOrder.POSITION

    @property
    def makes_memory(self) -> bool:
        """Whether a rebuild runs it; replies were given when they were asked for."""
        return self.order is not ApplyOrder.REQUEST

    @property
    def retries(self) -> bool:
        """Whether it decides a record that is sent back to it; a turn's place was taken by that of its failure."""
        return self.order is not ApplyOrder.TURN

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
        """Event types of which one must come per session, in order."""
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
    """The usual `OnFailure` of stages that go session by session: passes the session on as skipped."""

    def on_failure(work: Work[Any], error: str) -> tuple[Contract, ...]:
        event = work.events[0]
        ends = [event for event in work.events if hasattr(event, "turns")]
        return (
            SessionSkipped(
                tenant=event.tenant,
                conversation_id=event.conversation_id,
                session=work.number,
                stage=stage,
                error=error,
                turns=ends[0].turns if ends else (),
                own_turns=ends[0].own_turns if ends else None,
            ),
        )

    return on_failure
