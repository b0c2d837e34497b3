"""Generates conversations; the same seed gives the same words, ids and times."""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum

from eunoe.schemas.events import DEFAULT_TENANT, Ask, SessionEnded, Utterance
from eunoe.schemas.identity import conversation_key
from eunoe.streams.codec import encode
from eunoe.streams.record import Message
from eunoe.streams.topics import Topic

START = datetime(2026, 1, 1, 9, tzinfo=UTC)

Event = Utterance | SessionEnded


class Talk(StrEnum):
    """Kinds of generated text."""

    VARIED = "varied"
    """People, places, things and days, drawn anew in each utterance."""
    TOPICS = "topics"
    """Sentences on a few topics with numbers, as `tests/bench/bench_peers.py` gives them to other systems too."""


@dataclass(frozen=True, slots=True)
class LoadPlan:
    """The amount and kind of generated conversations."""

    conversations: int = 20
    sessions: int = 20
    turns: int = 10
    """Utterances of each session."""
    seed: int = 1
    talk: Talk = Talk.VARIED
    name: str = "bench"
    """Prefix of the conversation ids."""

    @property
    def total_sessions(self) -> int:
        """Number of sessions of all conversations."""
        return self.conversations * self.sessions

    def conversation_id(self, number: int) -> str:
        """The id of conversation ``number``, counted from 0."""
        return f"{self.name}-{number:05d}"

    @property
    def keys(self) -> list[str]:
        """The keys of all conversations."""
        return [conversation_key(DEFAULT_TENANT, self.conversation_id(n)) for n in range(self.conversations)]


def session_events(plan: LoadPlan, conversation: int, session: int) -> Iterator[Event]:
    """A session's utterances and its end; ``session`` counts from 1."""
    chance = random.Random(f"{plan.seed}/{conversation}/{session}")
    named = plan.conversation_id(conversation)
    at = START + timedelta(days=session)
    for turn in range(plan.turns):
        at += timedelta(seconds=20)
        yield Utterance(
            conversation_id=named,
            utterance_id=f"{session}-{turn}",
            speaker=SPEAKERS[turn % 2],
            text=_topic_text(conversation, session - 1, turn) if plan.talk is Talk.TOPICS else _varied_text(chance),
            at=at,
        )
    yield SessionEnded(conversation_id=named, at=at)


def rounds(plan: LoadPlan, first: int = 1) -> Iterator[list[Event]]:
    """The events of each session, the conversations in turn, so that all are under way at once."""
    for session in range(first, first + plan.sessions):
        for conversation in range(plan.conversations):
            yield list(session_events(plan, conversation, session))


def question(plan: LoadPlan, conversation: int, number: int) -> Utterance:
    """An unrecorded ask about the generated conversation."""
    chance = random.Random(f"{plan.seed}/ask/{conversation}/{number}")
    return Utterance(
        conversation_id=plan.conversation_id(conversation),
        utterance_id=f"ask-{number}",
        speaker=SPEAKERS[0],
        text=f"What did we say about {chance.choice(THINGS)} and {chance.choice(PLACES)}?",
        at=START + timedelta(days=10_000),
        ask=Ask(request_id=f"{plan.name}-{conversation}-{number}", record=False),
    )


def as_message(event: Event) -> Message:
    """The event as a client produces it."""
    return Message(Topic.CONVERSATIONS, event.key.encode(), encode(event))


SPEAKERS = ("Ann", "Ben")
PEOPLE = ("my sister", "Carla", "our neighbour", "Omar", "the new doctor", "my uncle", "Yuki", "the landlord", "Nadia")
DEEDS = (
    "moved to",
    "got lost in",
    "sold",
    "brought",
    "wants to repair",
    "dreams of",
    "forgot",
    "painted",
    "wrote about",
)
THINGS = (
    "the cello", "a grey cat", "the marathon", "the old boat", "a sourdough bread", "the telescope", "a red bicycle",
    "the chess club", "the tax papers", "an apple orchard", "the garden wall", "a broken lamp", "the choir", "a kayak",
)  # fmt: skip
PLACES = ("Lisbon", "Oslo", "the harbour", "Turin", "Ghent", "the north wing", "Leeds", "the library", "Brno", "Cork")
DAYS = ("last Monday", "in March", "two years ago", "this morning", "before the storm", "on Sunday", "at the weekend")
FEELINGS = ("I was glad about it", "nobody had expected that", "it cost more than we thought", "we should do it again",
            "I still worry a little", "that changed my plans", "it took the whole evening")  # fmt: skip


def _varied_text(chance: random.Random) -> str:
    who, deed, thing = chance.choice(PEOPLE), chance.choice(DEEDS), chance.choice(THINGS)
    where, when, how = chance.choice(PLACES), chance.choice(DAYS), chance.choice(FEELINGS)
    return f"{who[0].upper()}{who[1:]} {deed} {thing} near {where} {when}, number {chance.randrange(10_000)}; {how}."


TOPICS = ("my sister moved to Lisbon", "the marathon in spring", "adopting a grey cat", "learning the cello",
          "a new job at the clinic", "repairing the old boat")  # fmt: skip


def _topic_text(conversation: int, session: int, turn: int) -> str:
    about = TOPICS[(conversation + session + turn // 4) % len(TOPICS)]
    return f"In session {session} we spoke about {about} and detail number {turn} of conversation {conversation}."
