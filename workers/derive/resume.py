"""Derives a conversation again from a stage on: keeps what earlier stages made, and derives what depends on it."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from eunoe.schemas.decisions import Ledger, Point, Timer
from eunoe.schemas.events import ConversationEvent
from eunoe.schemas.ports import StoredConversation
from eunoe.schemas.versions import ContractError
from eunoe.streams.codec import decode
from eunoe.streams.record import Message, Record
from eunoe.streams.topics import TOPICS, Topic
from eunoe.workers.derive.dependents import made_again, number_of, producer_of
from eunoe.workers.derive.made import MadeRecords
from eunoe.workers.derive.pipeline import TABLES, Derived, Deriver
from eunoe.workers.intake.head import Head
from eunoe.workers.intake.state import HEAD
from eunoe.workers.registry import MEMORY_STAGES, STAGES
from eunoe.workers.stage import ApplyOrder

READ_TOPICS: tuple[Topic, ...] = tuple(
    topic for topic, spec in TOPICS.items() if spec.derived and topic is not Topic.REPLY_CONTEXTS
)
"""The topics to read, in the order of the pipeline. Reply contexts belong to replies, which were given."""


@dataclass(frozen=True, slots=True)
class Kept:
    """The state of a conversation that is kept; it is consistent, and nothing is unsent."""

    standing: StoredConversation
    """The state of the stages that are not made again."""
    points: tuple[Point, ...] = ()
    timer: Timer | None = None

    def without(self, again: Sequence[str]) -> "Kept":
        """The rest of it where more stages are made again."""
        standing, names = self.standing, [name for name in self.standing.ledgers if name not in again]
        collections = {entry.collection for name in names for entry in STAGES[name].tables.indexed}
        return replace(
            self,
            standing=StoredConversation(
                {name: standing.ledgers[name] for name in names},
                {place: rows for place, rows in standing.tables.items() if place[0] in names},
                {name: parked for name, parked in standing.parked.items() if name in names},
            ),
            points=tuple(point for point in self.points if point.collection in collections),
        )

    @property
    def head(self) -> Head:
        """The head row of intake."""
        text = self.standing.tables.get(("intake", HEAD), {}).get(HEAD)
        return Head() if text is None else Head.from_json(text)

    def reach(self, stage: str, topic: Topic) -> int:
        """The number of the last event that a kept stage wrote to a topic; 0 for none, and for a stage made again."""
        if stage not in self.standing.ledgers:
            return 0
        if STAGES[stage].reads_log:
            head = self.head
            return head.turn if topic is Topic.REPLY_REQUESTS else head.closed
        return self.standing.ledgers[stage].applied


@dataclass(frozen=True, slots=True)
class KeptMessages:
    """The events that kept stages sent to the others, by topic and number."""

    records: Mapping[tuple[Topic, int], tuple[Record, ...]] = field(default_factory=dict)
    missing: frozenset[Topic] = frozenset()
    """Topics that lack an event of a kept stage: their retention has passed."""


def kept_messages(kept: Kept, records: Sequence[Record]) -> KeptMessages:
    """The records of derived topics that kept stages wrote, as far as their state reaches.

    The generation's own stages write again what comes later.
    """
    found: defaultdict[tuple[Topic, int], list[Record]] = defaultdict(list)
    for record in records:
        topic = Topic(record.topic)
        event = _event(record)
        if event is None or (stage := producer_of(topic, event)) is None:
            continue
        number = number_of(event)
        if number is not None and number <= kept.reach(stage, topic):
            found[topic, number].append(record)
    return KeptMessages({place: tuple(wrote) for place, wrote in found.items()}, frozenset(_missing(kept, found)))


def _missing(kept: Kept, found: Mapping[tuple[Topic, int], Sequence[Record]]) -> Iterator[Topic]:
    for spec in STAGES.values():
        for topic in spec.outputs:
            # the events of a turn are numbered by its session, not by the turn
            by_turn = spec.order is ApplyOrder.TURN
            numbers = range(1, kept.reach(spec.name, topic) + 1) if not by_turn else ()
            if topic in READ_TOPICS and not all(found.get((topic, number)) for number in numbers):
                yield topic


def _event(record: Record) -> ConversationEvent | None:
    try:
        event = decode(record.value)
    except ContractError:
        return None
    return event if isinstance(event, ConversationEvent) else None


def needed(again: Sequence[str]) -> frozenset[Topic]:
    """The topics that are needed to make these stages again: they consume them, and other stages write them."""
    return frozenset(
        topic
        for stage in again
        for topic in STAGES[stage].inputs
        if any(topic in STAGES[other].outputs for other in MEMORY_STAGES if other not in again)
    )


def earliest(stage: str, missing: Iterable[Topic]) -> str:
    """The stage to begin with where these topics are incomplete: ``stage`` or an earlier one, in the end intake."""
    wanted, lacking = set(made_again(stage)), set(missing)
    for candidate in sorted(MEMORY_STAGES, key=lambda name: len(made_again(name))):
        again = made_again(candidate)
        if (candidate == stage or wanted < set(again)) and not needed(again) & lacking:
            return candidate
    return MEMORY_STAGES[0]


async def resume(deriver: Deriver, key: str, kept: Kept, messages: KeptMessages) -> Derived:
    """Run the stages over kept state and messages, session by session; the result is that of the whole log.

    Raises what `Deriver.derive` raises.
    """
    pipeline = deriver.set_up()
    await pipeline.store.swap(key, TABLES, kept.standing, Ledger())
    await pipeline.index.upsert(kept.points)
    if kept.timer is not None:
        await pipeline.log_positions.schedule(0, key, kept.timer)
    written = MadeRecords()
    for record in _in_order(kept.head, messages):
        headers = tuple(record.headers.items())
        pipeline.log.append(Message(record.topic, record.key, record.value, headers))
        await pipeline.run_until_idle()
        written.take(pipeline.log.drain())
    # a turn that was answered when it was asked must not reach the generation's responder
    return await Derived.of(pipeline, key, written.without(Topic.REPLY_CONTEXTS))


def _in_order(head: Head, kept: KeptMessages) -> Iterator[Record]:
    """In their first order: of each session its turns, then the session itself, stage by stage."""
    turns = {number: turn for (topic, number), turn in kept.records.items() if topic is Topic.REPLY_REQUESTS}
    by_session: defaultdict[int, list[Record]] = defaultdict(list)
    for _, turn in sorted(turns.items()):
        for record in turn:
            event = _event(record)
            by_session[getattr(event, "session", 0)].append(record)
    order = tuple(topic for topic in READ_TOPICS if topic is not Topic.REPLY_REQUESTS)
    for session in range(1, head.closed + 2):
        yield from by_session[session]
        for topic in order:
            yield from kept.records.get((topic, session), ())
