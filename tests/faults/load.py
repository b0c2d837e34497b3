"""The load of a fault run: many conversations at once, drawn from a seed, with asks, probes and bad records."""

import hashlib
import random
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from eunoe.schemas.events import Ask, ConversationEvent, SessionEnded, Utterance
from eunoe.schemas.records import DeadLetterReason
from eunoe.streams.codec import decode, encode
from eunoe.streams.record import Message
from eunoe.streams.settings import partition_of
from eunoe.streams.topics import Topic
from eunoe.workers.registry import STAGES

START = datetime(2026, 1, 1, tzinfo=UTC)
SPEAKERS = ("Ann", "Ben")
_TALK = (
    "My {thing} is {state} since {when}.",
    "I have {done} the {thing} that I told you of.",
    "In {when} I want to see my {person} in {place}.",
    "My {person} moved to {place} because of the {thing}.",
    "I no longer like {place}; the {thing} there was {state}.",
    "{place} again: my {person} is {state}.",
)
_WORDS = {
    "thing": ("dog", "piano", "garden", "boat", "exam", "knee", "house", "novel", "bicycle", "job"),
    "state": ("lost", "well again", "broken", "new", "sold", "late", "in the way"),
    "when": ("March", "May", "the spring", "last winter", "a year"),
    "done": ("finished", "given up", "mended", "begun", "sold"),
    "person": ("sister", "uncle", "boss", "neighbour", "daughter", "teacher"),
    "place": ("Lyon", "Oslo", "the village", "Kraków", "서울", "the city"),
}


Letter = tuple[str, str, str]
"""Of a dead letter: its stage, its reason, the hash of its bytes."""


@dataclass(frozen=True, slots=True)
class Size:
    """How large a load is."""

    conversations: int = 200
    sessions: int = 2
    utterances: int = 3
    """Of each session."""


@dataclass(frozen=True, slots=True)
class Bad:
    """A record that every stage which reads its topic must set aside."""

    message: Message
    reason: DeadLetterReason

    @property
    def letters(self) -> set[Letter]:
        """The dead letters that it becomes."""
        digest = hashlib.sha256(self.message.value).hexdigest()
        return {(name, self.reason.value, digest) for name, spec in STAGES.items() if self.message.topic in spec.inputs}


@dataclass(frozen=True, slots=True)
class Load:
    """What is produced: waves, each with at most one event of every conversation, to be sent one after the other."""

    waves: tuple[tuple[Message, ...], ...]
    sessions: Mapping[str, int]
    """Conversation key → its sessions."""
    turns: Mapping[str, int]
    """Conversation key → its asked turns."""
    utterances: Mapping[str, frozenset[str]]
    """Conversation key → what must stand in its segments, once."""
    requests: Mapping[tuple[str, str], str]
    """(conversation key, request id) → the utterance that asks: each is answered once."""
    bad: tuple[Bad, ...]
    erased: Mapping[str, Set[str]] = field(default_factory=dict)
    """Conversation key → the utterances that are erased: what they ask may stay unanswered."""

    @property
    def expected(self) -> set[tuple[str, str]]:
        """The requests that must be answered."""
        return {place for place, id_ in self.requests.items() if id_ not in self.erased.get(place[0], ())}

    def said_in(self, key: str, session: str) -> frozenset[str]:
        """The ids of what stands in the segments of a session, by the client's id of it."""
        own = (message.value for wave in self.waves for message in wave if message.key == key.encode())
        events = [decode(value) for value in own if not any(value == bad.message.value for bad in self.bad)]
        said = (event for event in events if isinstance(event, Utterance) and event.session_id == session)
        return self.utterances[key] & {event.utterance_id for event in said}

    def without(self, erased: Mapping[str, Set[str]]) -> "Load":
        """The same load, of which these utterances are not expected any more. ``erased``: conversation key → ids."""
        left = {key: ids - erased.get(key, set()) for key, ids in self.utterances.items()}
        return replace(self, utterances=left, erased=erased)

    @property
    def records(self) -> int:
        """How many records are produced."""
        return sum(map(len, self.waves))


def make_load(seed: int, size: Size, partitions: int) -> Load:
    """The load of a seed: the same seed gives the same load."""
    chance = random.Random(f"load {seed}")
    talks = [list(_talk(chance, number, size)) for number in range(size.conversations)]
    keys = [talk[0].key for talk in talks]
    events = [event for talk in talks for event in talk]
    said = [event for event in events if isinstance(event, Utterance)]
    recorded = [event for event in said if event.ask is None or event.ask.record]
    asked = [event for event in said if event.ask is not None]
    bad = tuple(_bad_records(keys[0], partitions))
    return Load(
        waves=_waves(chance, talks, bad),
        sessions=dict.fromkeys(keys, size.sessions),
        turns={key: sum(event.ask is not None for event in recorded if event.key == key) for key in keys},
        utterances={key: frozenset(event.utterance_id for event in recorded if event.key == key) for key in keys},
        requests={(event.key, event.ask.request_id): event.utterance_id for event in asked if event.ask is not None},
        bad=bad,
    )


def _talk(chance: random.Random, number: int, size: Size) -> Iterator[ConversationEvent]:
    tenant, name = ("acme", "globex")[number % 2], f"talk {number}"
    said = 0
    for session in range(size.sessions):
        asks = chance.randrange(size.utterances + 1)
        for place in range(size.utterances):
            said += 1
            yield Utterance(
                tenant=tenant,
                conversation_id=name,
                utterance_id=f"u{said}",
                session_id=f"s{session}",
                speaker=SPEAKERS[said % 2],
                text=_sentence(chance),
                at=START + timedelta(days=7 * session, minutes=said),
                ask=_ask(chance, said) if place == asks else None,
            )
        yield SessionEnded(tenant=tenant, conversation_id=name, session_id=f"s{session}", at=START)


def _sentence(chance: random.Random) -> str:
    return chance.choice(_TALK).format(**{name: chance.choice(words) for name, words in _WORDS.items()})


def _ask(chance: random.Random, said: int) -> Ask:
    """One in five is a probe: answered, but no part of its session."""
    return Ask(request_id=f"r{said}", record=chance.random() < 0.8)


def _waves(
    chance: random.Random, talks: list[list[ConversationEvent]], bad: tuple[Bad, ...]
) -> tuple[tuple[Message, ...], ...]:
    waves: list[list[Message]] = []
    for place in range(max(map(len, talks))):
        wave = [_message(talk[place]) for talk in talks if place < len(talk)]
        chance.shuffle(wave)
        waves.append(wave)
    for each in bad:
        wave = chance.choice(waves)
        wave.insert(chance.randrange(len(wave) + 1), each.message)
    return tuple(map(tuple, waves))


def _message(event: ConversationEvent) -> Message:
    return Message(topic=Topic.CONVERSATIONS, key=event.key.encode(), value=encode(event))


def _bad_records(key: str, partitions: int) -> Iterator[Bad]:
    """Bad JSON, a missing field, a key that disagrees, a wrong partition; and bad JSON further down the house."""
    own = key.encode()
    right = partition_of(own, partitions)
    whole = Utterance(
        tenant="acme", conversation_id="talk 0", utterance_id="bad", speaker="Ann", text="misplaced", at=START
    )
    yield Bad(Message(Topic.CONVERSATIONS, own, b'{"type": "utter'), DeadLetterReason.NOT_JSON)
    yield Bad(Message(Topic.CONVERSATIONS, own, b'{"type": "utterance"}'), DeadLetterReason.INVALID)
    yield Bad(Message(Topic.CONVERSATIONS, b"acme/another", encode(whole)), DeadLetterReason.BAD_KEY)
    astray = whole.model_copy(update={"text": "astray"})
    wrong = (right + 1) % partitions
    yield Bad(Message(Topic.CONVERSATIONS, own, encode(astray), partition=wrong), DeadLetterReason.WRONG_PARTITION)
    for topic in (Topic.SESSIONS, Topic.CHANGES, Topic.REPLY_CONTEXTS):
        yield Bad(Message(topic, own, f"not JSON in {topic}".encode()), DeadLetterReason.NOT_JSON)
