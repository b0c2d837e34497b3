"""A member of a consumer group, without a broker."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka import TopicPartition
from aiokafka.consumer.fetcher import Fetcher
from aiokafka.consumer.subscription_state import SubscriptionState
from aiokafka.errors import (
    GroupAuthorizationFailedError,
    KafkaError,
    NodeNotReadyError,
    TopicAuthorizationFailedError,
)
from faust.transport.drivers.aiokafka import AIOKafkaConsumerThread

from eunoe.schemas.errors import Misconfigured, Unavailable
from eunoe.streams.group import faust_thread, stage_consumer
from eunoe.streams.group.faust_app import GroupApp, open_group
from eunoe.streams.group.faust_consumer import TP
from eunoe.streams.group.faust_thread import ConsumerThread
from eunoe.streams.group.stage_consumer import StageConsumer
from eunoe.streams.settings import KafkaSettings
from eunoe.streams.topics import TopicNames


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


def consumer_of(stage: str) -> StageConsumer:
    async def handle(*_: object) -> None:
        raise AssertionError

    return StageConsumer(stage, ["segments"], KafkaSettings(sasl_username="worker"), TopicNames(), handle)


class NeverJoined:
    """An app that joins nothing, and reports a crash on the way."""

    started = crashed = rebalancing = False

    def __init__(self, owner: StageConsumer, fault: KafkaError) -> None:
        self._owner, self._fault = owner, fault

    async def start(self) -> None:
        self._owner.crashed(self._fault)
        await asyncio.Event().wait()

    async def stop(self) -> None:
        pass


@pytest.mark.timeout(20)
async def test_a_group_that_may_not_be_joined_is_named_at_once_with_the_right_to_grant(monkeypatch: pytest.MonkeyPatch):
    fault = GroupAuthorizationFailedError("eunoe.v1.compress")
    monkeypatch.setattr(stage_consumer, "open_group", lambda _group, _topics, owner: NeverJoined(owner, fault))
    with pytest.raises(Misconfigured, match=r"user worker .*grant Read on group eunoe\.v1\.compress"):
        await consumer_of("compress").start()


async def test_a_right_that_a_running_consumer_loses_is_named_and_another_start_is_worth_while():
    consumer = consumer_of("compress")
    consumer._loop = asyncio.get_running_loop()
    consumer.crashed(TopicAuthorizationFailedError("eunoe.v1.segments"))
    fault = await consumer.failure()
    assert isinstance(fault, Unavailable)
    assert not isinstance(fault, Misconfigured)
    assert "grant Read on topic eunoe.v1.segments" in str(fault)


@pytest.mark.parametrize(
    ("seen", "told"), [(["a", "a"], ["a"]), (["a", None, "b", None], []), ([None, "a", "a"], ["a"])]
)
async def test_what_nobody_polls_is_reported_at_the_second_look(
    monkeypatch: pytest.MonkeyPatch, seen: list[str | None], told: list[str]
):
    coordinator: Any = SimpleNamespace(_pending_exception=None)
    reported: list[str] = []
    left = [*seen]
    thread: Any = SimpleNamespace(
        should_stop=False, _consumer=SimpleNamespace(_coordinator=coordinator), _report=reported.append
    )

    async def nap(_: float) -> None:
        coordinator._pending_exception = left.pop(0)
        thread.should_stop = not left

    monkeypatch.setattr(asyncio, "sleep", nap)
    await ConsumerThread.watch_membership(thread)
    assert reported == told


def test_an_assignment_is_made_once_and_anew_after_a_rebalance():
    held = [frozenset({TopicPartition("segments", 0)}), frozenset({TopicPartition("segments", 1)})]
    consumer = SimpleNamespace(assignment=lambda: held[0])
    thread: Any = SimpleNamespace(_ensure_consumer=lambda: consumer, _assigned=(None, set()))
    first = ConsumerThread.assignment(thread)
    assert first == {TP("segments", 0)}
    assert ConsumerThread.assignment(thread) is first
    del held[0]
    assert ConsumerThread.assignment(thread) == {TP("segments", 1)}


async def test_the_log_of_a_worker_has_nothing_of_faust_s_services():
    owner: Any = SimpleNamespace(kafka=KafkaSettings())
    app = open_group("eunoe.v1.one", ["eunoe.conversations"], owner)
    services = (app, app.tables, app.transport.Consumer, ConsumerThread)
    assert {service.logger.name.partition(".")[0] for service in services} == {"faust"}


async def test_a_consumer_stops_in_order_while_its_broker_is_away(monkeypatch: pytest.MonkeyPatch):
    """A fetch that failed pauses before the next; cancelled there, it interrupts nobody who waits for it."""
    failed = asyncio.Event()

    async def send(*_: object) -> None:
        failed.set()
        raise NodeNotReadyError

    client = SimpleNamespace(_loop=asyncio.get_running_loop(), _metadata_max_age_ms=60_000, send=send)
    fetcher = Fetcher(client, SubscriptionState(), retry_backoff_ms=60_000)
    consumer = SimpleNamespace(_fetcher=fetcher)
    attached: list[object] = []
    adapter = SimpleNamespace(attach=lambda consumer, load: attached.append(consumer))

    async def connected(_: object) -> None:
        pass

    monkeypatch.setattr(AIOKafkaConsumerThread, "on_start", connected)
    monkeypatch.setattr(ConsumerThread, "watch_membership", connected)
    thread: Any = ConsumerThread.__new__(ConsumerThread)
    thread._kafka, thread._load = SimpleNamespace(adapter=adapter), None
    thread._ensure_consumer = lambda: consumer
    await thread.on_start()
    await asyncio.sleep(0)  # its own task waits for partitions from now on
    request = SimpleNamespace(topics=[])
    fetcher._pending_tasks = {asyncio.create_task(fetcher._proc_fetch_request(None, 0, request))}
    await failed.wait()
    await fetcher.close()
    assert attached == [consumer]


@pytest.mark.parametrize("stops", [True, False])
async def test_a_commit_that_no_broker_takes_is_waited_for_until_the_consumer_stops(
    monkeypatch: pytest.MonkeyPatch, stops: bool
):
    """It holds the lock that a consumer needs to stop, and aiokafka looks for the group's broker for ever."""
    sent, taken = asyncio.Event(), asyncio.Event()

    async def waits_for_a_broker(_thread: object, _offsets: object) -> bool:
        sent.set()
        await taken.wait()
        return True

    monkeypatch.setattr(AIOKafkaConsumerThread, "_commit", waits_for_a_broker)
    monkeypatch.setattr(faust_thread, "_LOOK_S", 0.01)
    thread: Any = ConsumerThread.__new__(ConsumerThread)
    thread._consumer = SimpleNamespace(_coordinator=SimpleNamespace(coordinator_id=None))
    thread.assignment = lambda: {TP("segments", 0)}
    thread.is_stopping = False
    committing = asyncio.create_task(thread._commit({TP("segments", 0): 7}))
    await sent.wait()
    if stops:
        thread.is_stopping = True
    else:
        taken.set()
    assert await asyncio.wait_for(committing, 5.0) is not stops
