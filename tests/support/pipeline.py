"""The pipeline as people run it: commands in processes of their own, about the same servers and names."""

import asyncio
from asyncio.subprocess import Process
from base64 import b64encode
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from pydantic import SecretStr

from eunoe.deploy.clients.connect import connected_settings
from eunoe.deploy.clients.shared import open_publisher, open_redis, open_store, store_keys
from eunoe.deploy.datasets.load import read_events
from eunoe.deploy.demo.play import produce
from eunoe.deploy.inspect.view import ConversationView, remembered_session, view_conversation
from eunoe.deploy.settings import Settings
from eunoe.deploy.settings.sections import KeySettings
from eunoe.schemas.ports import ActiveConversation
from eunoe.streams.admin import create_topics
from eunoe.streams.reader import read_all
from eunoe.streams.record import Record
from eunoe.streams.topics import Topic
from eunoe.workers.stores.positions.redis_log_positions import RedisActivityList
from eunoe.workers.stores.records.generations import forget_generation
from tests.support import command, given
from tests.support.command import Finished, until
from tests.support.session import SessionServers, variables

PARTITIONS = 4
KEK = b64encode(bytes(range(32))).decode()
"""The operator's key of sealed pipelines."""


@dataclass(frozen=True)
class Pipeline:
    """Commands in ``cwd`` on servers that run, under a prefix."""

    cwd: Path
    base: Settings
    """What its commands read."""
    variables: Mapping[str, str]
    """The environment of its commands."""

    @property
    def settings(self) -> Settings:
        """What its commands read."""
        return self.base

    async def eunoe(self, *words: str, timeout_s: float = 200, **more: str) -> Finished:
        """Run a command to its end."""
        return await command.eunoe(*words, cwd=self.cwd, timeout_s=timeout_s, **self.variables, **more)

    async def demo(self, **more: str) -> Finished:
        """Run the demo to its end."""
        return await self.eunoe("demo", "--json", "--attach", timeout_s=200, **more)

    @asynccontextmanager
    async def up(self, **more: str) -> AsyncIterator[Process]:
        """All stages at work; gives the process that people stop."""
        await self._create_topics()
        async with command.running("worker", "all", cwd=self.cwd, **self.variables, **more) as process:
            yield process

    @asynccontextmanager
    async def servers(self) -> AsyncIterator[None]:
        """Servers with topics, and no stage."""
        await self._create_topics()
        yield

    async def _create_topics(self) -> None:
        settings = self.settings
        await create_topics(settings.kafka_settings, settings.names, settings.partitions, settings.replication)

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
        """Produce these events, as `eunoe produce` does, without the seconds that a process takes to start."""
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

    async def listed(self, generation: str = "v1") -> list[ActiveConversation]:
        """The conversations that the gateway lists, each with the time at which it was last active."""
        settings = self.settings.model_copy(update={"generation": generation})
        async with open_redis(settings) as redis:
            return await RedisActivityList(redis, store_keys(settings)).active("default", 100)

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
                return view is not None and view.open_lines == 0 and view.remembered == view.head.closed > 0

            await until(all_there)
        return await self.shown(name)

    async def answered(self, asks: int) -> None:
        """Wait for the replies to so many asks: one may come after the memory of its session, and costs a call, too."""

        async def all_there() -> bool:
            return len(await self.records(Topic.REPLIES)) == asks

        await until(all_there)

    async def lose_everything(self) -> None:
        """Let the state store forget all that it has of this pipeline."""
        settings = self.settings
        async with open_redis(settings) as redis:
            await forget_generation(redis, store_keys(settings))


class StandalonePipeline(Pipeline):
    """Commands in a directory whose `eunoe up` starts the servers, and which find them by its notice."""

    @property
    def settings(self) -> Settings:
        return connected_settings(self.cwd / ".eunoe")

    async def demo(self, **more: str) -> Finished:
        """Run the demo to its end, on servers of its own."""
        return await self.eunoe("demo", "--json", timeout_s=200, **more)

    @asynccontextmanager
    async def up(self, **more: str) -> AsyncIterator[Process]:
        async with command.running("up", cwd=self.cwd, **self.variables, **more) as process:
            yield process

    @asynccontextmanager
    async def servers(self) -> AsyncIterator[None]:
        async with command.running("up", "--no-workers", cwd=self.cwd, **self.variables):
            yield


def shared_pipeline(cwd: Path, servers: SessionServers, partitions: int = PARTITIONS) -> Pipeline:
    """A pipeline on the servers of the session, with a prefix of its own."""
    settings = servers.settings(partitions)
    return Pipeline(cwd, settings, variables(settings))


def sealed_pipeline(pipeline: Pipeline) -> Pipeline:
    """The same pipeline with a key store, and a ledger of erasures, in its directory."""
    store, ledger = str(pipeline.cwd / "keys.sqlite"), str(pipeline.cwd / "ledger.sqlite")
    keys = KeySettings(store=SecretStr(store), kek=SecretStr(KEK))
    settings = pipeline.base.model_copy(update={"keys": keys, "erasures": SecretStr(ledger)})
    own = {"EUNOE_KEYS__STORE": store, "EUNOE_KEYS__KEK": KEK, "EUNOE_ERASURES": ledger}
    return Pipeline(pipeline.cwd, settings, {**pipeline.variables, **own})


def standalone_pipeline(cwd: Path, servers: SessionServers) -> Pipeline:
    """A pipeline that starts servers of its own; on given servers the same as `shared_pipeline`."""
    if given.are_given():
        return shared_pipeline(cwd, servers)
    return StandalonePipeline(cwd, Settings(), {"EUNOE_PARTITIONS": str(PARTITIONS)})


@contextmanager
def pipeline_at_work(cwd: Path, servers: SessionServers) -> Iterator[Pipeline]:
    """A pipeline on the servers of the session whose worker runs all stages, for several tests with their own loops."""
    pipeline = shared_pipeline(cwd, servers)
    asyncio.run(pipeline._create_topics())
    with command.running_beside("worker", "all", cwd=cwd, log=cwd / "worker.log", **pipeline.variables):
        yield pipeline
