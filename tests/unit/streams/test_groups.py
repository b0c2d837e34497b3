"""Consumer groups with members, as brokers describe them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka.errors import GroupAuthorizationFailedError, GroupCoordinatorNotAvailableError

from eunoe.schemas.errors import Refused, Unavailable
from eunoe.streams import groups
from eunoe.streams.groups import groups_with_members
from eunoe.streams.settings import KafkaSettings

KAFKA = KafkaSettings(bootstrap="k:9092")


def describe(monkeypatch: pytest.MonkeyPatch, **found: tuple[int, list[str]]) -> None:
    """Let a broker describe groups by an error code and their members."""

    class Admin:
        async def describe_consumer_groups(self, names: list[str]) -> list[Any]:
            rows = [(found[name][0], name, "Stable", "consumer", "", found[name][1]) for name in names]
            return [SimpleNamespace(groups=rows)]

    @asynccontextmanager
    async def admin(_kafka: KafkaSettings) -> AsyncIterator[Admin]:
        yield Admin()

    monkeypatch.setattr(groups, "open_admin", admin)


async def test_groups_that_are_missing_or_empty_have_no_members(monkeypatch: pytest.MonkeyPatch) -> None:
    describe(monkeypatch, one=(0, ["m"]), empty=(0, []), missing=(69, []))
    assert await groups_with_members(KAFKA, ["one", "empty", "missing"]) == ["one"]


@pytest.mark.parametrize(
    ("fault", "raised"), [(GroupCoordinatorNotAvailableError, Unavailable), (GroupAuthorizationFailedError, Refused)]
)
async def test_a_group_that_the_broker_does_not_describe_is_not_taken_for_an_empty_one(
    monkeypatch: pytest.MonkeyPatch, fault: Any, raised: type[Exception]
) -> None:
    describe(monkeypatch, one=(0, ["m"]), other=(fault.errno, []))
    with pytest.raises(raised, match=f"consumer group other: {fault.__name__}"):
        await groups_with_members(KAFKA, ["one", "other"])
