"""The pipeline as people run it, in a directory of its own: on embedded servers, or on the given ones.

On given servers every pipeline has a prefix of its own, `eunoe worker` stands in the place of `eunoe up`, and the
commands are told of the servers by their environment.
"""

from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from eunoe.deploy.clients.connect import connected_settings
from eunoe.deploy.clients.shared import open_publisher, open_redis, open_store, store_keys
from eunoe.deploy.datasets.load import read_events
from eunoe.deploy.demo.play import produce
from eunoe.deploy.inspect.view import ConversationView, remembered_session, view_conversation
from eunoe.deploy.settings import Settings
from eunoe.streams.admin import create_topics
from eunoe.streams.reader import read_all
from eunoe.streams.record import Record
from eunoe.streams.topics import Topic
from eunoe.workers.stores.redis import forget_generation
from tests.support import command, given
from tests.support.command import Finished, until

PARTITIONS = 4


def _variables() -> Mapping[str, str]:
    own = {"EUNOE_PREFIX": given.own_prefix(), **given.variables()} if given.are_given() else {}
    return {**own, "EUNOE_PARTITIONS": str(PARTITIONS)}


@dataclass(frozen=True)
class Pipeline:
    """Commands in ``cwd``, all about the same servers and names."""

    cwd: Path
    variables: Mapping[str, str] = field(default_factory=_variables)

    @property
    def settings(self) -> Settings:
        """What its commands read."""
        if not given.are_given():
            return connected_settings(self.cwd / ".eunoe")
        return Settings(prefix=self.variables["EUNOE_PREFIX"], partitions=PARTITIONS)

    async def eunoe(self, *words: str, timeout_s: float = 200, **more: str) -> Finished:
        """Run a command to its end."""
        return await command.eunoe(*words, cwd=self.cwd, timeout_s=timeout_s, **self.variables, **more)

    async def demo(self, **more: str) -> Finished:
        """Run the demo to its end."""
        attach = ["--attach"] if given.are_given() else []
        return await self.eunoe("demo", "--json", *attach, timeout_s=200, **more)

    @asynccontextmanager
    async def up(self, **more: str) -> AsyncIterator[Process]:
        """All stages at work; gives the process that people stop."""
        words = ("worker", "all") if given.are_given() else ("up",)
        await self._create_topics()
        async with command.running(*words, cwd=self.cwd, **self.variables, **more) as process:
            yield process

    @asynccontextmanager
    async def servers(self) -> AsyncIterator[None]:
        """Servers with topics, and no stage."""
        await self._create_topics()
        if given.are_given():
            yield
            return
        async with command.running("up", "--no-workers", cwd=self.cwd, **self.variables):
            yield

    async def _create_topics(self) -> None:
        if given.are_given():
            settings = self.settings
            await create_topics(settings.kafka_settings, settings.names, PARTITIONS, settings.replication)

    @asynccontextmanager
    async def worker(self, *stages: str) -> AsyncIterator[Process]:
        """A worker process of these stages."""
        async with command.running("worker", *stages, cwd=self.cwd, **self.variables) as process:
            yield process

    @property
    def conversations(self) -> tuple[str, str]:
        """For a client: the brokers, and the topic that it writes to."""
        settings = self.settings
        return settings.kafka_settings.bootstrap, settings.names.name(Topic.CONVERSATIONS)

    async def records(self, topic: Topic) -> list[Record]:
        """All that a topic holds now."""
        settings = self.settings
        return [record async for record in read_all(settings.kafka_settings, settings.names, topic)]

    async def produce(self, *lines: str) -> None:
        """Say these events, as `eunoe produce` does, without the seconds that a process takes to start."""
        path = self.cwd / "events.jsonl"
        path.write_text("".join(lines))
        async with open_publisher(self.settings) as publisher:
            await produce(publisher, read_events(path), lambda _done: None)

    async def shown(self, name: str) -> ConversationView:
        """What `eunoe show` shows, without the seconds that a process takes to start."""
        async with open_store(self.settings) as store:
            view = await view_conversation(store, f"default/{name}")
        assert view is not None
        return view

    async def remembered(self, sessions: int, name: str) -> ConversationView:
        """The same, once this many sessions are remembered."""
        async with open_store(self.settings) as store:

            async def there() -> bool:
                return await remembered_session(store, f"default/{name}") == sessions

            await until(there)
        return await self.shown(name)

    async def everything_remembered(self, name: str) -> ConversationView:
        """The same, once every session that was opened is closed and remembered."""
        async with open_store(self.settings) as store:

            async def all_there() -> bool:
                view = await view_conversation(store, f"default/{name}")
                return view is not None and view.open_lines == 0 and view.remembered == view.head.session > 0

            await until(all_there)
        return await self.shown(name)

    async def lose_everything(self) -> None:
        """Let the state store forget all that it has of this pipeline."""
        settings = self.settings
        async with open_redis(settings) as redis:
            await forget_generation(redis, store_keys(settings))
