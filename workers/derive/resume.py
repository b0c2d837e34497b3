"""A conversation made again from a stage on: what earlier stages made is taken over, what depends on it is derived."""

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
from eunoe.workers.derive.pipeline import TABLES, Derived, Deriver
from eunoe.workers.intake.sessions import HEAD, Head
from eunoe.workers.registry import MEMORY_STAGES, STAGES

TAKEN: tuple[Topic, ...] = tuple(
    topic for topic, spec in TOPICS.items() if spec.derived and topic is not Topic.REPLY_CONTEXTS
)
"""The topics that are read: contexts belong to replies, which were given."""


@dataclass(frozen=True, slots=True)
class Kept:
    """What is taken over of a conversation: it fits together, nothing is unsent."""

    standing: StoredConversation
    """Of the stages that are not made again."""
    points: tuple[Point, ...] = ()
    timer: Timer | None = None

    def without(self, again: Sequence[str]) -> "Kept":
        """What is left of it where more stages are made again."""
        standing, names = self.standing, [name for name in self.standing.ledgers if name not in again]
        collections = {entry.collection for name in names for entry in STAGES[name].tables.indexed}
        return replace(
            self,
            standing=StoredConversation(
                {name: standing.ledgers[name] for name in names},
                {place: specs for place, specs in standing.tables.items() if place[0] in names},
                {name: specs for name, specs in standing.parked.items() if name in names},
            ),
            points=tuple(point for point in self.points if point.collection in collections),
        )

    @property
    def head(self) -> Head:
        """Where intake stands."""
        text = self.standing.tables.get(("intake", HEAD), {}).get(HEAD)
        return Head() if text is None else Head.from_json(text)

    def reach(self, stage: str, topic: Topic) -> int:
        """The number of the last event that a kept stage has written to a topic; 0: none, or it is made again."""
        if stage not in self.standing.ledgers:
            return 0
        if stage == "intake":
            head = self.head
            return head.turn if topic is Topic.REPLY_REQUESTS else head.session - int(head.is_open)
        return self.standing.ledgers[stage].applied


@dataclass(frozen=True, slots=True)
class KeptMessages:
    """What kept stages have told the others, by topic and number."""

    records: Mapping[tuple[Topic, int], tuple[Record, ...]] = field(default_factory=dict)
    missing: frozenset[Topic] = frozenset()
    """Topics that lack an event which a kept stage had written: their retention has passed."""


def what_was_told(kept: Kept, records: Sequence[Record]) -> KeptMessages:
    """Of the records of derived topics those that kept stages wrote, as far as their state reaches. Pure.

    What stands behind that is left to the generation's own stages: they write it again.
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
    return KeptMessages({place: tuple(specs) for place, specs in found.items()}, frozenset(_missing(kept, found)))


def _missing(kept: Kept, found: Mapping[tuple[Topic, int], Sequence[Record]]) -> Iterator[Topic]:
    for spec in STAGES.values():
        for topic in spec.outputs:
            numbers = range(1, kept.reach(spec.name, topic) + 1) if spec.name != "blend" else ()
            if topic in TAKEN and not all(found.get((topic, number)) for number in numbers):
                yield topic


def _event(record: Record) -> ConversationEvent | None:
    try:
        event = decode(record.value)
    except ContractError:
        return None
    return event if isinstance(event, ConversationEvent) else None


def needed(again: Sequence[str]) -> frozenset[Topic]:
    """The topics without which these stages cannot be made again: what they consume of the others."""
    return frozenset(
        topic
        for stage in again
        for topic in STAGES[stage].inputs
        if any(topic in STAGES[other].outputs for other in MEMORY_STAGES if other not in again)
    )


def earliest(stage: str, missing: Iterable[Topic]) -> str:
    """The stage to begin with where these topics are not whole: the given one, or an earlier one; at last intake."""
    wanted, lacking = set(made_again(stage)), set(missing)
    for candidate in sorted(MEMORY_STAGES, key=lambda name: len(made_again(name))):
        again = made_again(candidate)
        if (candidate == stage or wanted < set(again)) and not needed(again) & lacking:
            return candidate
    return MEMORY_STAGES[0]


async def go_on(deriver: Deriver, key: str, kept: Kept, told: KeptMessages) -> Derived:
    """Run the stages over what is kept and what was told, session by session; the same as from the log.

    Raises what `Deriver.derive` raises.
    """
    pipeline = deriver.set_up()
    await pipeline.store.swap(key, TABLES, kept.standing, Ledger())
    await pipeline.index.upsert(kept.points)
    if kept.timer is not None:
        await pipeline.log_positions.schedule(0, key, kept.timer)
    for record in _in_order(kept.head, told):
        headers = tuple(record.headers.items())
        pipeline.log.append(Message(record.topic, record.key, record.value, headers))
        await pipeline.run_until_idle()
    made = await Derived.of(pipeline, key)
    # a turn that was answered when it was asked must not reach the generation's responder
    records = tuple(record for record in made.records if record.topic != Topic.REPLY_CONTEXTS)
    return replace(made, records=records)


def _in_order(head: Head, told: KeptMessages) -> Iterator[Record]:
    """As they came: of each session first its turns, then the session itself, stage by stage."""
    turns = {number: specs for (topic, number), specs in told.records.items() if topic is Topic.REPLY_REQUESTS}
    by_session: defaultdict[int, list[Record]] = defaultdict(list)
    for _, specs in sorted(turns.items()):
        for record in specs:
            event = _event(record)
            by_session[getattr(event, "session", 0)].append(record)
    order = (Topic.SESSIONS, Topic.SEGMENTS, Topic.MEMORIES, Topic.CHANGES)
    for session in range(1, head.session + 1):
        yield from by_session[session]
        for topic in order:
            yield from told.records.get((topic, session), ())
