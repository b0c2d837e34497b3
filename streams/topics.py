"""The table of all topics, and their names at the broker."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from eunoe.schemas.base import Contract
from eunoe.schemas.events import (
    Erase,
    ReplyContext,
    ReplyRequested,
    SessionClosed,
    SessionEnded,
    SessionSegmented,
    SessionSkipped,
    Utterance,
)
from eunoe.schemas.memory import InsightsProposed, MemoriesChanged, MemoriesDerived, MemoriesFormed
from eunoe.schemas.records import DeadLetter, GenerationPromoted, RecordedAnswer
from eunoe.schemas.replies import Recalled, Reply

DEFAULT_MAX_BYTES = 1_048_576
DEAD_LETTER_HEADROOM = 65_536
"""Bytes that the topic of dead letters allows beyond the others, for the header that describes the record."""
LOG_HEADROOM = 4_096
"""Bytes that topic `log` allows beyond `conversations`, for the envelope, the position and the log time."""


class Topic(StrEnum):
    """The logical topics; `TopicNames` gives their names at the broker."""

    CONVERSATIONS = "conversations"
    LOG = "log"
    SESSIONS = "sessions"
    SEGMENTS = "segments"
    MEMORIES = "memories"
    CHANGES = "changes"
    REPLY_REQUESTS = "reply-requests"
    REPLY_CONTEXTS = "reply-contexts"
    REPLIES = "replies"
    DEAD_LETTERS = "dead-letters"
    ANSWERS = "answers"


@dataclass(frozen=True, slots=True)
class TopicSpec:
    """Contents and retention of a topic."""

    topic: Topic
    purpose: str
    carries: tuple[type[Contract], ...]
    derived: bool = True
    """Whether each generation has a topic of its own."""
    retention_ms: int = -1
    """Milliseconds; -1 means for ever. A derived topic lives as long as its generation."""
    max_bytes: int = DEFAULT_MAX_BYTES
    compacted: bool = False
    """Whether only the last record of each key is kept."""


WEEK_MS = 7 * 24 * 3600 * 1000

TOPICS: Mapping[Topic, TopicSpec] = {
    spec.topic: spec
    for spec in (
        TopicSpec(
            Topic.CONVERSATIONS,
            "What clients say: the truth, kept for ever; for a day where `log` has it",
            (Utterance, SessionEnded, Erase, GenerationPromoted),
            derived=False,
        ),
        TopicSpec(
            Topic.LOG,
            "The records of `conversations` that intake handled, sealed; only with a key store",
            (),  # stages read `conversations`
            derived=False,
            max_bytes=DEFAULT_MAX_BYTES + LOG_HEADROOM,
        ),
        TopicSpec(Topic.SESSIONS, "Whole sessions, as intake closed them", (SessionClosed, SessionSkipped)),
        TopicSpec(Topic.SEGMENTS, "Sessions with their topic segments", (SessionSegmented, SessionSkipped)),
        TopicSpec(
            Topic.MEMORIES, "What sessions give memory to consider", (MemoriesFormed, InsightsProposed, SessionSkipped)
        ),
        TopicSpec(
            Topic.CHANGES,
            "What became of memories: the change feed",
            (MemoriesChanged, SessionSkipped, MemoriesDerived),
        ),
        TopicSpec(Topic.REPLY_REQUESTS, "Asks on their way to blend", (ReplyRequested,)),
        TopicSpec(Topic.REPLY_CONTEXTS, "Asks on their way to the responder", (ReplyContext,), retention_ms=WEEK_MS),
        TopicSpec(Topic.REPLIES, "Answers for clients", (Reply, Recalled), derived=False, retention_ms=WEEK_MS),
        TopicSpec(
            Topic.DEAD_LETTERS,
            "Records that were set aside, as raw bytes",
            (DeadLetter,),
            derived=False,
            max_bytes=DEFAULT_MAX_BYTES + DEAD_LETTER_HEADROOM,
        ),
        TopicSpec(
            Topic.ANSWERS,
            "What models answered, the last of each question: a rebuild asks nothing twice",
            (RecordedAnswer,),
            derived=False,
            compacted=True,
        ),
    )
}


READ_BY_STAGES: frozenset[Topic] = frozenset(
    topic for topic, spec in TOPICS.items() if spec.derived or topic in (Topic.CONVERSATIONS, Topic.LOG)
)
"""Topics with equal numbers of partitions, so that one worker has all of a conversation; the others may differ."""


def topics_of(contract: type[Contract]) -> tuple[Topic, ...]:
    """The topics that carry a contract."""
    return tuple(spec.topic for spec in TOPICS.values() if contract in spec.carries)


@dataclass(frozen=True, slots=True)
class TopicNames:
    """Names of topics and consumer groups at the broker."""

    prefix: str = "eunoe"
    generation: str = "v1"
    log: int = 0
    """Number of the log; each change of its partitions begins another log."""
    door_ms: int | None = None
    """Milliseconds for which a new topic `conversations` is kept, because topic `log` has its records sealed; `None`:
    there is no topic `log`."""

    @property
    def topics(self) -> tuple[Topic, ...]:
        """The topics of a deployment."""
        return tuple(topic for topic in TOPICS if topic is not Topic.LOG or self.door_ms is not None)

    def name(self, topic: str) -> str:
        """``<prefix>.<generation>.<topic>``, without the generation where the topic has none.

        Those of a log that is not the first are ``<prefix>.conversations.<log>`` and ``<prefix>.log.<log>``.
        """
        spec = TOPICS[Topic(topic)]
        if spec.topic in (Topic.CONVERSATIONS, Topic.LOG) and self.log:
            return f"{self.prefix}.{topic}.{self.log}"
        parts = (self.prefix, self.generation, topic) if spec.derived else (self.prefix, topic)
        return ".".join(parts)

    def group(self, stage: str) -> str:
        """The consumer group of a stage of this generation."""
        return f"{self.prefix}.{self.generation}.{stage}"
