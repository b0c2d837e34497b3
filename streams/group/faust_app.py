"""The app of a group's member, on Faust, without what Faust does beside consuming."""

import logging
import warnings
from collections.abc import Iterable
from typing import Any

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import faust
    from faust.app.base import BootStrategy
    from faust.sensors import Monitor
    from faust.tables.manager import TableManager
    from faust.transport.drivers import aiokafka as driver
    from faust.types import TransportT
    from mode import Service

from eunoe.streams.group.faust_consumer import GroupConsumer, Owner
from eunoe.streams.settings import KafkaSettings


class _Transport(driver.Transport):
    Consumer = GroupConsumer


class _Boot(BootStrategy):
    enable_web = False
    enable_kafka_producer = False


class _SilentMonitor(Monitor):
    """Faust's statistics without their task, which computes them each second for nobody."""

    logger = logging.getLogger("faust.sensors")  # or its start and stop stand in the log as eunoe's

    @Service.task
    async def _sampler(self) -> None:
        """Do nothing."""


class _NoTables(TableManager):
    """Faust's manager of tables, without its second of waiting for some to be declared before it joins the group."""

    logger = logging.getLogger("faust.tables")  # mode takes the one of Faust's own class for one to replace

    async def on_start(self) -> None:
        """Go on at once: there are no tables."""
        await self._update_channels()
        await self.recovery.start()


class GroupApp(faust.App):
    """A Faust app that reports its crash and leaves the file system alone."""

    logger = logging.getLogger("faust.app")
    BootStrategy = _Boot
    owner: Owner

    def _new_transport(self) -> TransportT:
        return _Transport(self.conf.broker_consumer, self)

    def _create_directories(self) -> None:
        """Do nothing: there are no tables."""

    def _crash(self, reason: BaseException) -> None:
        super()._crash(reason)
        self.owner.crashed(reason)


def open_group(group: str, topics: Iterable[str], owner: Owner) -> GroupApp:
    """A member of a consumer group that reads these topics for its owner; not started yet."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        app = GroupApp(group, monitor=_SilentMonitor(), TableManager=_NoTables, **_settings(owner.kafka))
        app.owner = owner
        # the subscription; nothing is ever put into this channel
        app.topics.add(app.topic(*topics, key_type=bytes, value_type=bytes, acks=False, allow_empty=True))
        app.finalize()
    return app


def _settings(kafka: KafkaSettings) -> dict[str, Any]:
    return {
        "broker": "kafka://" + ";".join(kafka.servers),
        "broker_commit_interval": kafka.commit_interval_ms / 1000,
        "broker_request_timeout": kafka.request_timeout_ms / 1000,
        "broker_session_timeout": kafka.session_timeout_ms / 1000,
        "broker_rebalance_timeout": kafka.rebalance_timeout_ms / 1000,
        "broker_max_poll_records": kafka.max_poll_records,
        "table_standby_replicas": 0,
        "topic_disable_leader": True,
        "topic_allow_declare": False,
        "web_enabled": False,
        "key_serializer": "raw",
        "value_serializer": "raw",
    }
