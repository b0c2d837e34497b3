"""Topics that one broker of a cluster already has and another has yet to hear of."""

import contextlib
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from eunoe.deploy.cli.topics import _create as create_in
from eunoe.deploy.settings import Settings
from eunoe.schemas.errors import Refused
from eunoe.streams import admin
from eunoe.streams.reader import partitions_of
from eunoe.streams.settings import KafkaSettings
from eunoe.streams.topics import Topic, TopicNames

NAMES = TopicNames("t")
KAFKA = KafkaSettings(bootstrap="127.0.0.1:1")
ALL = {NAMES.name(topic): 3 for topic in NAMES.topics}
LATE = NAMES.name(Topic.DEAD_LETTERS)


def _answer(monkeypatch: pytest.MonkeyPatch, counts: Iterator[dict[str, int]]) -> None:
    """Let the brokers answer so, one after the other."""

    @contextlib.asynccontextmanager
    async def opened(_: KafkaSettings) -> AsyncIterator[None]:
        yield None

    async def counted(_: Any) -> dict[str, int]:
        return next(counts)

    monkeypatch.setattr(admin, "open_admin", opened)
    monkeypatch.setattr(admin, "partition_counts", counted)


def _without_late() -> dict[str, int]:
    return {name: count for name, count in ALL.items() if name != LATE}


async def test_a_topic_that_one_broker_does_not_name_yet_is_asked_for_again(monkeypatch: pytest.MonkeyPatch):
    _answer(monkeypatch, iter([_without_late(), _without_late(), ALL]))
    assert await partitions_of(KAFKA, NAMES, [Topic.DEAD_LETTERS, Topic.CONVERSATIONS]) == [3, 3]


async def test_a_topic_that_others_lack_is_not_waited_for(monkeypatch: pytest.MonkeyPatch):
    _answer(monkeypatch, iter([_without_late()]))
    assert await partitions_of(KAFKA, NAMES, [Topic.CONVERSATIONS]) == [3]


async def _partitions_of_one(kafka: KafkaSettings, names: TopicNames) -> None:
    await partitions_of(kafka, names, [Topic.DEAD_LETTERS])


@pytest.mark.parametrize("check", [admin.check_partitions, _partitions_of_one])
async def test_a_topic_that_stays_away_is_refused_by_name(monkeypatch: pytest.MonkeyPatch, check: Any):
    monkeypatch.setattr(admin, "SETTLING_S", 0.3)
    _answer(monkeypatch, iter(_without_late, None))
    with pytest.raises(Refused, match=f"topics missing: {LATE}.*eunoe topics create"):
        await check(KAFKA, NAMES)


async def test_a_log_that_is_not_the_first_is_created_with_the_partitions_that_are_set(monkeypatch: pytest.MonkeyPatch):
    """Without it the command refused, and told to run itself."""
    monkeypatch.setattr(admin, "SETTLING_S", 0.0)
    there: dict[str, int] = {}
    _answer(monkeypatch, iter(lambda: there, None))

    async def made(_admin: Any, _spec: Any, name: str, partitions: int, _replication: int) -> None:
        there[name] = partitions

    monkeypatch.setattr(admin, "_create", made)
    settings = Settings(kafka=KAFKA.bootstrap, generation="v2", log=1, partitions=5)
    created, wanted = await create_in(settings, None)
    assert (wanted, there["eunoe.conversations.1"], there["eunoe.v2.sessions"]) == (5, 5, 5)
    assert len(created) == len(there)
    del there["eunoe.v2.sessions"]
    _, wanted = await create_in(settings.model_copy(update={"partitions": 12}), None)
    assert (wanted, there["eunoe.v2.sessions"]) == (5, 5), "an existing log keeps its number"
