"""Places that an erasure does not reach, and until when: for receipts."""

from eunoe.deploy.generations.erase.receipt import NotCovered
from eunoe.deploy.inspect.counted import counted
from eunoe.deploy.settings import Settings
from eunoe.streams.topic_settings import retention_of
from eunoe.streams.topics import TOPICS, Topic
from eunoe.workers.stores.cold.erased_snapshots import LATE_S
from eunoe.workers.stores.data_keys.cached import CACHE_S

_HOUR_MS = 3_600_000
_DAY_MS = 24 * _HOUR_MS


async def door_kept(settings: Settings) -> int | None:
    """Milliseconds for which `conversations` is kept, where `log` has its records sealed; `None`: for ever."""
    if settings.names.door_ms is None or settings.broker.embedded:
        return None
    kept = await retention_of(settings.kafka_settings, settings.names.name(Topic.CONVERSATIONS))
    return None if kept is None or kept < 0 else kept


def not_covered(
    settings: Settings, files: tuple[NotCovered, ...], door_ms: int | None = None
) -> tuple[NotCovered, ...]:
    """The places that still hold what was erased; ``files`` are those of servers that could not rewrite theirs.

    ``door_ms``: see `door_kept`.
    """
    days = TOPICS[Topic.REPLIES].retention_ms // _DAY_MS
    embedded = settings.broker.embedded
    log = _log(settings, door_ms)
    journal = NotCovered(
        place="journal of the data directory", why="it is rewritten at a start", until="the next start of `eunoe up`"
    )
    replies = NotCovered(
        place="kafka: replies", why="sent to clients, in clear", until=f"{days} days after each was sent"
    )
    letters = NotCovered(
        place="kafka: dead-letters",
        why="marked as resolved, the raw records stay in the topic"
        if settings.names.door_ms is None
        else "those from before there was a key store are plain; those whose record names no conversation are sealed"
        " with a key of their month",
        until="the next start of `eunoe up`" if embedded else "the topic is deleted",
    )
    answers = NotCovered(
        place="recorded answers of the language model",
        why="filed by the hash of their prompt, under no conversation"
        if settings.names.door_ms is None
        else "those from before there was a key store are plain, and filed under no conversation",
        until=_answers_until(settings),
    )
    outside = NotCovered(
        place="outside: backups, clients, the model's provider, logs and traces of other systems",
        why="not within reach",
        until="their owners remove it",
    )
    is_sealed = settings.names.door_ms is not None
    processes = NotCovered(
        place="memory of running processes",
        why="they keep data keys for a minute" if is_sealed else "workers keep the documents that they read last",
        until=f"{CACHE_S:g} s later" if is_sealed else "newer ones take their place, or the worker ends",
    )
    cold = NotCovered(
        place="cold store",
        why="its file is deleted; versions and unfinished uploads that a bucket keeps, and blocks of a disk, are plain"
        " without a key store, and so is what a worker was writing meanwhile",
        until=f"the store removes them; what was written meanwhile is deleted {LATE_S / 60:g} minutes later",
    )
    plain = [cold] if settings.cold.store and not is_sealed else []
    own = [*([journal] if embedded else []), *plain]
    return (log, *own, replies, letters, answers, processes, *files, outside)


def _answers_until(settings: Settings) -> str:
    """The end of recorded answers: their topic keeps the last of each question, whatever leaves Redis."""
    topic = "the next start of `eunoe up`" if settings.broker.embedded else "topic `answers` is deleted"
    if settings.answer_days is None:
        return f"{topic}, and those in Redis by hand: EUNOE_ANSWER_DAYS is not set"
    return f"{topic}, and those in Redis {counted(settings.answer_days, 'day')} after they were put there"


def _log(settings: Settings, door_ms: int | None) -> NotCovered:
    sealed = settings.names.door_ms is not None
    if settings.broker.embedded:
        until = "the next start of `eunoe up`"
    elif door_ms is not None:
        until = f"{counted(door_ms / _HOUR_MS, 'hour')} after each record came, and Kafka's removal of the segment"
    elif sealed:
        until = "its retention ends, once `eunoe topics seal` has given it one"
    else:
        until = "the topic is deleted (`eunoe drop` for a generation)"
    return NotCovered(
        place="kafka: conversations" if sealed else "kafka: conversations and the topics of each generation",
        why="what clients write there is plain; nobody reads it again: each reader leaves it out"
        if sealed
        else "Kafka removes no single record; nobody reads it again: each reader leaves it out",
        until=until,
    )
