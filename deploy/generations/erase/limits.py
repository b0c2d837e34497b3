"""Places that an erasure does not reach, and until when: for receipts."""

from eunoe.deploy.generations.erase.receipt import NotCovered
from eunoe.deploy.settings import Settings
from eunoe.streams.topics import TOPICS, Topic

_DAY_MS = 86_400_000


def not_covered(settings: Settings, files: tuple[NotCovered, ...]) -> tuple[NotCovered, ...]:
    """The places that still hold what was erased; ``files`` are those of servers that could not rewrite theirs."""
    days = TOPICS[Topic.REPLIES].retention_ms // _DAY_MS
    embedded = settings.broker.embedded
    log = NotCovered(
        place="kafka: conversations and the topics of each generation",
        why="Kafka removes no single record; nobody reads it again: each reader leaves it out",
        until="the next start of `eunoe up`" if embedded else "the topic is deleted (`eunoe drop` for a generation)",
    )
    journal = NotCovered(
        place="journal of the data directory", why="it is rewritten at a start", until="the next start of `eunoe up`"
    )
    replies = NotCovered(
        place="kafka: replies", why="sent to clients, in clear", until=f"{days} days after each was sent"
    )
    letters = NotCovered(
        place="kafka: dead-letters",
        why="marked as resolved, the raw records stay in the topic",
        until="the next start of `eunoe up`" if embedded else "the topic is deleted",
    )
    answers = NotCovered(
        place="recorded answers of the language model",
        why="filed by the hash of their prompt, under no conversation",
        until="for ever" if settings.answer_days is None else f"{settings.answer_days:g} days after each was given",
    )
    outside = NotCovered(
        place="outside: backups, clients, the model's provider, logs and traces of other systems",
        why="not within reach",
        until="their owners remove it",
    )
    return (log, *([journal] if embedded else []), replies, letters, answers, *files, outside)
