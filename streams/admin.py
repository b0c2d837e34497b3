"""Administration of topics: creates, checks and deletes them."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Collection, Sequence
from dataclasses import dataclass, replace
from time import monotonic
from typing import Any

from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import (
    KafkaConnectionError,
    KafkaError,
    TopicAlreadyExistsError,
    for_code,
)

from eunoe.schemas.errors import Refused, Unavailable
from eunoe.streams.access import grant, how_to_see_topics, why_denied, why_unavailable
from eunoe.streams.settings import KafkaSettings, client_options
from eunoe.streams.topics import READ_BY_STAGES, TOPICS, Topic, TopicNames, TopicSpec

_INVALID_CONFIG = 40
_SEEN_POLL_S = 0.1
SETTLING_S = 2.0
"""Seconds for which a topic that a broker does not name may be one that it has yet to hear of."""


@dataclass(frozen=True, slots=True)
class TopicStatus:
    """A topic at the broker."""

    topic: Topic
    name: str
    partitions: int
    """0 means that the topic does not exist."""
    purpose: str


async def list_topics(kafka: KafkaSettings, names: TopicNames) -> list[TopicStatus]:
    """All topics of the deployment, with their partitions at the broker. Raises `Unavailable`."""
    async with open_admin(kafka) as admin:
        counts = await partition_counts(admin)
    return [
        TopicStatus(topic, names.name(topic), counts.get(names.name(topic), 0), TOPICS[topic].purpose)
        for topic in names.topics
    ]


async def settled_topics(kafka: KafkaSettings, names: TopicNames, wanted: Collection[str]) -> list[TopicStatus]:
    """As `list_topics`; while one of ``wanted`` is missing, asks again for up to `SETTLING_S`. Raises `Unavailable`.

    The brokers of a cluster hear of a new topic one after the other, and any of them may answer.
    """
    until = monotonic() + SETTLING_S
    while True:
        found = await list_topics(kafka, names)
        there = {status.topic for status in found if status.partitions}
        if there.issuperset(wanted) or monotonic() >= until:
            return found
        await asyncio.sleep(_SEEN_POLL_S)


async def check_log_is_open(kafka: KafkaSettings, names: TopicNames) -> None:
    """Raise `Refused` where the log is sealed and no key store is set: `conversations` alone is not all of it.

    Raises `Unavailable` when no broker answers.
    """
    if names.door_ms is not None:
        return
    async with open_admin(kafka) as admin:
        counts = await partition_counts(admin)
    if counts.get(names.name(Topic.LOG)):
        raise Refused(
            f"{names.name(Topic.LOG)} holds the sealed log: set EUNOE_KEYS__STORE and EUNOE_KEYS__KEK as they were"
        )


def check_asked_for(partitions: int, existing: Sequence[TopicStatus]) -> None:
    """Raise `Refused` where a topic that stages read exists with another number of partitions."""
    if not (wrong := [one for one in existing if one.partitions != partitions]):
        return
    told = ", ".join(f"{one.name} has {one.partitions}" for one in wrong)
    if len({one.partitions for one in existing}) == 1:
        advice = f"Ask for that number, or change it with `eunoe topics repartition {partitions}`"
    else:  # no number would serve
        others = ", ".join(f"{one.name} {one.partitions}" for one in existing)
        advice = (
            f"They differ ({others}): delete those of them that hold nothing yet, and run `eunoe topics create` again"
        )
    raise Refused(
        f"asked for {partitions} partitions, but {told}: keys would move to other partitions and lose their order."
        f" {advice}"
    )


async def create_topics(
    kafka: KafkaSettings, names: TopicNames, partitions: int, replication: int = 1
) -> list[TopicStatus]:
    """Create the missing topics of one generation; returns those created.

    A new topic `conversations` is kept for ``names.door_ms`` only, an existing one as long as before: `log` may lack
    its records. Raises `Refused`, with nothing created, where a topic that stages read exists with another number of
    partitions, and `Unavailable`.
    """
    await check_log_is_open(kafka, names)
    statuses = await list_topics(kafka, names)
    check_asked_for(partitions, [one for one in statuses if one.topic in READ_BY_STAGES and one.partitions])
    missing = [status for status in statuses if not status.partitions]
    async with open_admin(kafka) as admin:
        for status in missing:
            await _create(admin, _spec_for(status.topic, names), status.name, partitions, replication)
    await _until_seen(kafka, names)
    return [TopicStatus(status.topic, status.name, partitions, status.purpose) for status in missing]


def _spec_for(topic: Topic, names: TopicNames) -> TopicSpec:
    spec = TOPICS[topic]
    if topic is Topic.CONVERSATIONS and names.door_ms is not None:
        return replace(spec, retention_ms=names.door_ms)
    return spec


async def delete_topics(kafka: KafkaSettings, names: TopicNames, *, log_too: bool = False) -> list[str]:
    """Delete the topics of a generation, but not those that all generations share; returns their names.

    With ``log_too`` its log is deleted too, unless it is the first one. Raises `Unavailable` when no broker answers,
    `Refused` when it denies the deletion.
    """
    wanted = [names.name(topic) for topic, spec in TOPICS.items() if spec.derived]
    if log_too and names.log:
        wanted += [names.name(Topic.CONVERSATIONS), names.name(Topic.LOG)]
    async with open_admin(kafka) as admin:
        counts = await partition_counts(admin)
        found = [name for name in wanted if counts.get(name)]
        response = await admin.delete_topics(found) if found else None
    faults = {} if response is None else {name: for_code(code) for name, code in _codes(response) if code}
    if faults:
        denied = ", ".join(f"{name}: {fault.__name__}" for name, fault in faults.items())
        advice = max(grant(fault.errno, "Delete") for fault in faults.values())
        raise Refused(f"topics not deleted: {denied} {advice}")
    return found


def _codes(response: Any) -> list[tuple[str, int]]:  # noqa: ANN401
    return [(name, int(code)) for name, code, *_ in response.topic_error_codes]


async def _until_seen(kafka: KafkaSettings, names: TopicNames) -> None:
    """Wait until the broker's metadata, which may lag behind its answers, shows all topics."""
    try:
        async with asyncio.timeout(kafka.request_timeout_ms / 1000):
            while not all(status.partitions for status in await list_topics(kafka, names)):  # noqa: ASYNC110
                await asyncio.sleep(_SEEN_POLL_S)
    except TimeoutError:
        raise Unavailable(f"topics created, but not visible yet at {kafka.server}", kafka.server) from None


def topic_config(spec: TopicSpec) -> dict[str, str]:
    """Topic configuration for the broker."""
    config = {
        "cleanup.policy": "compact" if spec.compacted else "delete",
        "retention.ms": str(spec.retention_ms),
        "max.message.bytes": str(spec.max_bytes),
    }
    if spec.topic is Topic.CONVERSATIONS:
        config["message.timestamp.type"] = "LogAppendTime"
    return config


async def _create(admin: Any, spec: TopicSpec, name: str, partitions: int, replication: int) -> None:  # noqa: ANN401
    config = topic_config(spec)
    code, message = await _try_create(admin, NewTopic(name, partitions, replication, topic_configs=config))
    if code == _INVALID_CONFIG and "message.timestamp.type" in config:
        del config["message.timestamp.type"]
        # a broker without append times keeps the times of producers
        code, message = await _try_create(admin, NewTopic(name, partitions, replication, topic_configs=config))
    error = for_code(code)
    if code and error is not TopicAlreadyExistsError:
        asked = f"{name} ({partitions} partitions, {replication} replicas)"
        raise Refused(f"topic not created: {asked}: {error.__name__} {grant(code, 'Create') or message or ''}")


async def _try_create(admin: Any, topic: Any) -> tuple[int, str | None]:  # noqa: ANN401
    response = await admin.create_topics([topic])
    _, code, *rest = response.topic_errors[0]
    return int(code), rest[0] if rest else None


async def check_partitions(kafka: KafkaSettings, names: TopicNames) -> int:
    """Number of partitions of the topics that stages read.

    Raises `Refused` where a topic is missing, these topics differ in their partitions, or the log is sealed and no key
    store is set, and `Unavailable`.
    """
    await check_log_is_open(kafka, names)
    statuses = await settled_topics(kafka, names, names.topics)
    missing = [status.name for status in statuses if not status.partitions]
    if missing:
        raise Refused(f"topics missing: {', '.join(missing)}; {how_to_see_topics(kafka)}")
    read = [status for status in statuses if status.topic in READ_BY_STAGES]
    counts = {status.partitions for status in read}
    if len(counts) > 1:
        found = ", ".join(f"{status.name} {status.partitions}" for status in read)
        raise Refused(
            f"topics differ in their partitions ({found}): several workers would share one conversation. Add none to"
            " the others: see deploy/docs/rebuild.md, Partitions that were added by hand"
        )
    return counts.pop()


async def partition_counts(admin: Any) -> dict[str, int]:  # noqa: ANN401
    """Number of partitions of every topic at the broker, by name, without those of which it tells a fault."""
    # all topics, because a request for a missing one by name would create it
    described = await admin.describe_topics(None)
    return {entry["topic"]: len(entry["partitions"]) for entry in described if not entry["error_code"]}


@contextlib.asynccontextmanager
async def open_admin(kafka: KafkaSettings) -> AsyncIterator[Any]:
    """A started administration client, closed at the end; raises `Unavailable` when no broker answers."""
    admin = AIOKafkaAdminClient(**client_options(kafka))
    try:
        try:
            await admin.start()
        except KafkaConnectionError as error:
            raise await why_unavailable(kafka, error) from error
        yield admin
    except (KafkaError, OSError, TimeoutError) as error:
        raise why_denied(kafka, error) or Unavailable(
            f"no answer from {kafka.server}: {error!r}", kafka.server
        ) from error
    finally:
        await admin.close()
