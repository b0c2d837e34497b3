"""A member of a consumer group, without a broker."""

from types import SimpleNamespace
from typing import Any

import pytest

from eunoe.streams.group.faust_group import GroupApp, open_group
from eunoe.streams.settings import KafkaSettings


async def test_a_member_joins_without_a_wait_for_tables_that_nobody_declares(monkeypatch: pytest.MonkeyPatch):
    owner: Any = SimpleNamespace(kafka=KafkaSettings())
    tables: Any = open_group("eunoe.v1.one", ["eunoe.conversations"], owner).tables
    consumer = SimpleNamespace(assignment=set, pause_partitions=lambda partitions: None)
    monkeypatch.setattr(GroupApp, "consumer", consumer)
    naps: list[float] = []

    async def nap(seconds: float) -> None:
        naps.append(seconds)

    monkeypatch.setattr(tables, "sleep", nap)
    await tables.on_start()
    try:
        assert tables.recovery.started
        assert naps == []
    finally:
        await tables.recovery.stop()
