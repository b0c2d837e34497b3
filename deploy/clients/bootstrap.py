"""Builds the clients of a process, each once, and closes them in reverse order."""

import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from eunoe.deploy.clients.models import open_compressor, open_embedder, open_language
from eunoe.deploy.clients.shared import open_publisher, open_redis, store_keys
from eunoe.deploy.settings import NO_SERVERS, Settings
from eunoe.schemas.errors import Refused
from eunoe.streams.publisher import KafkaPublisher
from eunoe.workers.models.metering import Usage
from eunoe.workers.models.openai import OpenAIModel
from eunoe.workers.models.recording import RecordedModel
from eunoe.workers.runner.outbox import Sender
from eunoe.workers.stage import Dependencies
from eunoe.workers.stores.answers import LoggedAnswers, RedisAnswers, WriteOnlyAnswers
from eunoe.workers.stores.connection import RedisClient
from eunoe.workers.stores.keys import Keys
from eunoe.workers.stores.qdrant import QdrantIndex
from eunoe.workers.stores.qdrant_rest import QdrantRest
from eunoe.workers.stores.redis import RedisLogPositions, RedisStore, RedisTransplants

DAY_S = 86_400


@dataclass(frozen=True, slots=True)
class Clients:
    """The clients of a worker process."""

    dependencies: Dependencies
    store: RedisStore
    log_positions: RedisLogPositions
    publisher: KafkaPublisher
    answers: RedisAnswers
    """Recorded answers, by the hash of their request."""
    index: QdrantIndex
    redis: RedisClient
    keys: Keys

    @property
    def transplants(self) -> RedisTransplants:
        """Export and import of whole conversations."""
        return RedisTransplants(self.store, self.redis, self.keys)

    @property
    def usage(self) -> Usage:
        """Calls and tokens of the language model in this process; zeros without one."""
        language = self.dependencies.language
        model = language.model if isinstance(language, RecordedModel) else language
        return model.usage if isinstance(model, OpenAIModel) else Usage()

    @property
    def sender(self) -> Sender:
        """The sender of outboxes over these clients."""
        return Sender(self.store, self.dependencies.index, self.log_positions, self.publisher, answers=self.answers)


@asynccontextmanager
async def open_qdrant(settings: Settings) -> AsyncIterator[QdrantRest]:
    """A Qdrant client, closed at the end; raises `Refused` without a usable URL."""
    if settings.qdrant_url is None:
        raise Refused(NO_SERVERS)
    key = settings.qdrant_api_key.get_secret_value() if settings.qdrant_api_key else None
    try:
        client = QdrantRest(settings.qdrant_url, api_key=key)
    except ValueError as error:
        raise Refused(f"EUNOE_QDRANT_URL: {error}") from None
    try:
        yield client
    finally:
        await client.close()


@asynccontextmanager
async def open_clients(settings: Settings, *, ask_again: bool = False) -> AsyncIterator[Clients]:
    """All clients of a worker process, closed at the end.

    With ``ask_again`` recorded answers are not used. Raises `Refused` for unusable settings, `Unavailable` when a
    server does not answer.
    """
    keys = store_keys(settings)
    async with AsyncExitStack() as closing:
        redis = await closing.enter_async_context(open_redis(settings))
        answers = RedisAnswers(
            redis, keys, ttl_s=None if settings.answer_days is None else int(settings.answer_days * DAY_S)
        )
        embedder = await open_embedder(settings, os.environ, closing)
        index = QdrantIndex(await closing.enter_async_context(open_qdrant(settings)), keys)
        await index.prepare(embedder.name, embedder.dimensions)
        store = RedisStore(redis, keys)
        publisher = await closing.enter_async_context(open_publisher(settings))
        logged = LoggedAnswers(answers, publisher)
        recorded = WriteOnlyAnswers(logged) if ask_again else logged
        dependencies = Dependencies(
            store=store,
            index=index,
            embedder=embedder,
            compressor=await open_compressor(settings, closing),
            language=await open_language(settings, os.environ, recorded, closing),
            settings=settings.stages,
        )
        yield Clients(dependencies, store, RedisLogPositions(redis, keys), publisher, answers, index, redis, keys)
