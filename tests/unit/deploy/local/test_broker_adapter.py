"""The adapter of a broker: set by one setting, never from the environment, and the same in child processes."""

import re
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka.client import AIOKafkaClient
from aiokafka.consumer.group_coordinator import GroupCoordinator
from aiokafka.consumer.subscription_state import SubscriptionState

from eunoe.deploy.clients.connect import environment, on_stack
from eunoe.deploy.clients.live_settings import with_changes
from eunoe.deploy.local.notice import StackUrls
from eunoe.deploy.local.tansu.adapter import TansuAdapter
from eunoe.deploy.local.tansu.consumer import TansuConsumer
from eunoe.deploy.settings import Settings, read_settings
from eunoe.schemas.errors import Refused
from eunoe.streams.broker_adapter import OrdinaryBroker
from eunoe.streams.client import Connection
from eunoe.streams.settings import KafkaSettings
from tests.support.derived.settings_page import settings_rows

STACK = StackUrls(kafka="127.0.0.1:1", redis_url="redis://127.0.0.1:2", qdrant_url="http://127.0.0.1:3", epoch=1, pid=1)


def test_an_address_alone_is_an_ordinary_broker_with_idempotent_producers():
    kafka = Connection("broker:9092")._kafka
    assert kafka == KafkaSettings(bootstrap="broker:9092", idempotent=True, adapter=OrdinaryBroker())
    assert kafka.adapter.consumer_class is AIOKafkaConsumer


def test_one_setting_chooses_the_adapter(monkeypatch: pytest.MonkeyPatch):
    assert Settings(kafka="broker:9092").kafka_settings.adapter == OrdinaryBroker()
    monkeypatch.setenv("EUNOE_KAFKA", "broker:9092")
    monkeypatch.setenv("EUNOE_BROKER__EMBEDDED", "true")
    adapter = read_settings().kafka_settings.adapter
    assert adapter == TansuAdapter()
    assert adapter.consumer_class is TansuConsumer


def test_the_environment_cannot_set_an_adapter(monkeypatch: pytest.MonkeyPatch):
    assert "EUNOE_BROKER__EMBEDDED" in (names := [name for name, *_ in settings_rows()])
    assert not [name for name in names if "ADAPTER" in name]
    monkeypatch.setenv("EUNOE_BROKER__ADAPTER", "x")
    with pytest.raises(Refused, match="adapter"):
        read_settings()


def test_a_child_process_gets_the_same_broker_settings(monkeypatch: pytest.MonkeyPatch):
    settings = on_stack(Settings(), STACK)
    assert settings.kafka_settings.adapter == TansuAdapter()
    for name, value in environment(settings).items():
        monkeypatch.setenv(name, value)
    assert read_settings().kafka_settings == settings.kafka_settings


def test_changed_settings_keep_the_adapter():
    changed = with_changes(on_stack(Settings(), STACK), {"link.associative": "5"})
    assert changed.kafka_settings == on_stack(Settings(), STACK).kafka_settings


def test_the_kafka_plane_knows_no_kind_of_broker():
    streams = Path(__file__).parents[4] / "streams"
    found = [
        path.name for path in streams.rglob("*.py") if re.search("tansu|embedded", path.read_text(), re.IGNORECASE)
    ]
    assert found == []


async def test_a_member_of_the_first_generation_of_the_embedded_broker_leaves_its_group():
    client, subscription = AIOKafkaClient(bootstrap_servers="127.0.0.1:1"), SubscriptionState()
    consumer = AIOKafkaConsumer(bootstrap_servers="127.0.0.1:1", group_id="g")
    assert consumer._coordinator is None
    TansuAdapter().before_leave(consumer)
    subscription.subscribe({"t"})
    consumer._coordinator = coordinator = GroupCoordinator(client, subscription, group_id="g")
    assert coordinator.generation < 0, "no member yet"
    for generation, after in ((0, 1), (7, 7)):
        coordinator.generation = generation
        TansuAdapter().before_leave(consumer)
        assert coordinator.generation == after
    coordinator.generation = -1
    await consumer.stop()
    await client.close()
