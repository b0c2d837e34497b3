"""Passes over one record of a stage's topic."""

from dataclasses import dataclass

from eunoe.deploy.clients.shared import open_redis, store_keys
from eunoe.deploy.settings import Settings
from eunoe.schemas.errors import Refused
from eunoe.streams.reader import read_one
from eunoe.streams.record import RecordPlace
from eunoe.workers.registry import STAGES
from eunoe.workers.runner.skips import skip_name
from eunoe.workers.stores.records.skips import RedisSkips


@dataclass(frozen=True, slots=True)
class SkipTarget:
    """The record to pass over, and the stages that read its topic."""

    place: RecordPlace
    key: str | None
    size: int
    stages: tuple[str, ...]


def parse_place(text: str) -> RecordPlace:
    """The place in a text; raises `Refused` for another form, and for a topic that no stage reads."""
    try:
        place = RecordPlace.parse(text)
    except ValueError as error:
        raise Refused(str(error)) from None
    if not stages_of(place.topic):
        topics = sorted({topic.value for spec in STAGES.values() for topic in spec.inputs})
        raise Refused(f"no stage reads a topic {place.topic!r}; there are {', '.join(topics)}")
    return place


def stages_of(topic: str) -> tuple[str, ...]:
    """The stages that read a topic."""
    return tuple(name for name, spec in STAGES.items() if topic in spec.inputs)


async def find_target(settings: Settings, place: RecordPlace) -> SkipTarget:
    """The record at a place; raises `Refused` where there is none, `Unavailable` when no broker answers."""
    record = await read_one(settings.kafka_settings, settings.names, place.topic, (place.partition, place.offset))
    if record is None:
        raise Refused(f"there is no record {place}: `eunoe topics list` prints the topics, the log names positions")
    key = None if record.key is None else record.key.decode(errors="replace")[:200]
    return SkipTarget(place, key, len(record.value), stages_of(place.topic))


async def store_skip(settings: Settings, place: RecordPlace, reason: str) -> None:
    """Let all processes pass over the record; raises `Unavailable`."""
    async with open_redis(settings) as redis:
        name = skip_name(place, settings.log_epoch)
        await RedisSkips(redis, store_keys(settings)).add(name, f"passed over by eunoe skip: {reason}"[:500])
