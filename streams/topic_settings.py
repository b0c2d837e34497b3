"""Settings of topics at the broker: read, and the retention changed."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import KafkaError, for_code

from eunoe.schemas.errors import Refused
from eunoe.streams.access import grant
from eunoe.streams.admin import open_admin
from eunoe.streams.settings import KafkaSettings

_TOPIC_CONFIG: Final = 1
"""Says in an answer of Kafka that a setting is the topic's own."""


@dataclass(frozen=True, slots=True)
class TopicDetail:
    """Replicas and settings of a topic, of any name."""

    name: str
    replicas: int
    """Fewest replicas of a partition."""
    without_leader: int
    """Partitions without a leader."""
    config: Mapping[str, str]
    """Empty where the broker does not tell it."""


async def describe_topics(kafka: KafkaSettings) -> list[TopicDetail]:
    """All topics of the broker with their replicas and settings. Raises `Unavailable`."""
    async with open_admin(kafka) as admin:
        described = [entry for entry in await admin.describe_topics(None) if not entry["error_code"]]
        configs = await _configs(admin, [entry["topic"] for entry in described])
    return [_detail(entry, configs.get(entry["topic"], {})) for entry in described]


def _detail(entry: Mapping[str, Any], config: Mapping[str, str]) -> TopicDetail:
    partitions = entry["partitions"]
    replicas = min((len(partition["replicas"]) for partition in partitions), default=0)
    return TopicDetail(entry["topic"], replicas, sum(partition["leader"] < 0 for partition in partitions), config)


async def _configs(admin: Any, topics: Sequence[str]) -> dict[str, dict[str, str]]:  # noqa: ANN401
    """Topic → its settings; without those topics whose settings the broker does not tell."""
    asked = [ConfigResource(ConfigResourceType.TOPIC, name) for name in topics]
    try:
        answers = await admin.describe_configs(asked) if asked else []
    except (KafkaError, NotImplementedError):  # a broker without this request, or a user without the right
        return {}
    return {
        name: {entry[0]: str(entry[1]) for entry in entries}
        for answer in answers
        for code, _, _, name, entries in answer.resources
        if not code
    }


async def retention_of(kafka: KafkaSettings, name: str) -> int | None:
    """Milliseconds for which a topic of this name is kept, -1 for ever; `None` where the broker does not tell.

    Raises `Unavailable`.
    """
    async with open_admin(kafka) as admin:
        found = (await _configs(admin, [name])).get(name, {}).get("retention.ms", "")
    return int(found) if found.lstrip("-").isdecimal() else None


async def set_retention(kafka: KafkaSettings, name: str, milliseconds: int) -> None:
    """Keep a topic of this name for so long; raises `Refused` where the broker does not allow it, `Unavailable`."""
    await _alter(kafka, name, {"retention.ms": str(milliseconds)})


async def check_alterable(kafka: KafkaSettings, name: str) -> None:
    """Raise `Refused` where the broker does not let this user set what a topic of this name has, and `Unavailable`.

    It is set to what it is.
    """
    await _alter(kafka, name, {})


async def _alter(kafka: KafkaSettings, name: str, wanted: Mapping[str, str]) -> None:
    async with open_admin(kafka) as admin:
        topic = ConfigResource(ConfigResourceType.TOPIC, name)
        found = await admin.describe_configs([topic])
        _check_taken(name, found)
        # the request replaces all settings that the topic has of its own
        own = {
            entry[0]: entry[1]
            for answer in found
            for *_, entries in answer.resources
            for entry in entries
            if _is_own(entry[3])
        }
        altered = await admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, name, {**own, **wanted})])
    _check_taken(name, altered)


def _check_taken(name: str, answers: Iterable[Any]) -> None:
    """Raise `Refused` where the broker answers with a fault."""
    for answer in answers:
        for code, message, *_ in answer.resources:
            if code:
                advice = grant(code, f"AlterConfigs on topic {name}") or message or ""
                raise Refused(f"settings of {name} not changed: {for_code(code).__name__} {advice}")


def _is_own(source: bool | int) -> bool:
    """Whether a setting is a topic's own: an old broker says whether it is the default, a new one where it is from."""
    return not source if isinstance(source, bool) else source == _TOPIC_CONFIG
