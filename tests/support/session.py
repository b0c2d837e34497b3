"""The servers that the tests of one process share; every test keeps to a prefix of its own there."""

import os
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from eunoe.deploy.clients.connect import environment, on_stack
from eunoe.deploy.local.notice import StackUrls
from eunoe.deploy.settings import Settings
from tests.support import given, servers, tansu


@dataclass
class SessionServers:
    """The given servers, else embedded ones; each of those starts when it is first asked for."""

    directory: Path
    """For the data and logs of embedded servers."""
    _closing: ExitStack = field(default_factory=ExitStack)

    @cached_property
    def kafka(self) -> str:
        """The broker, as ``host:port``."""
        return self._closing.enter_context(tansu.broker())

    @cached_property
    def redis_url(self) -> str:
        return self._closing.enter_context(servers.redis_url(self.directory / "valkey"))

    @cached_property
    def qdrant_url(self) -> str:
        return self._closing.enter_context(servers.qdrant_url(self.directory / "qdrant"))

    def settings(self, partitions: int) -> Settings:
        """All three servers, under a prefix that no other test has."""
        settings = Settings(prefix=given.own_prefix(), partitions=partitions)
        if given.are_given():
            return settings
        urls = StackUrls(
            kafka=self.kafka, redis_url=self.redis_url, qdrant_url=self.qdrant_url, epoch=1, pid=os.getpid()
        )
        return on_stack(settings, urls)

    def close(self) -> None:
        """End the embedded servers."""
        self._closing.close()


def variables(settings: Settings) -> Mapping[str, str]:
    """The environment that gives a command the servers, the prefix and the partitions of ``settings``."""
    found = given.variables() if given.are_given() else environment(settings)
    return {**found, "EUNOE_PREFIX": settings.prefix, "EUNOE_PARTITIONS": str(settings.partitions)}
