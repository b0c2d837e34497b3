"""Builds the clients of a process, each once, and closes them in reverse order."""

import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from urllib.parse import urlsplit

from eunoe.deploy.clients.data_keys import open_data_keys
from eunoe.deploy.clients.models import check_endpoint_of_stack, open_compressor, open_embedder, open_language
from eunoe.deploy.clients.shared import open_publisher, open_redis, state_store, store_keys
from eunoe.deploy.settings import NO_SERVERS, Settings, reveal
from eunoe.schemas.errors import Refused
from eunoe.streams.publisher import KafkaPublisher
from eunoe.workers.derive.index_guard import GuardedIndex, IndexGuard
from eunoe.workers.models.endpoint.language_model import OpenAIModel
from eunoe.workers.models.questions.metering import Usage
from eunoe.workers.models.questions.recording import RecordedModel
from eunoe.workers.registry import STAGES
from eunoe.workers.runner.outbox import Sender
from eunoe.workers.stage import Dependencies
from eunoe.workers.stores.cold.erased_snapshots import ErasedSnapshots
from eunoe.workers.stores.data_keys.cached import CachedKeys
from eunoe.workers.stores.positions.redis_log_positions import RedisLogPositions
from eunoe.workers.stores.positions.redis_positions import RedisHandledPositions
from eunoe.workers.stores.records.answers import LoggedAnswers, RedisAnswers, WriteOnlyAnswers
from eunoe.workers.stores.records.index_record import RedisIndexRecord
from eunoe.workers.stores.records.profiles import RedisProfiles
from eunoe.workers.stores.redis.connection import RedisClient, RedisConnection
from eunoe.workers.stores.redis.keys import Keys
from eunoe.workers.stores.state.redis_store import RedisStore
from eunoe.workers.stores.state.transplants import RedisTransplants
from eunoe.workers.stores.vectors.qdrant import QdrantIndex
from eunoe.workers.stores.vectors.qdrant_rest import QdrantRest

DAY_S = 86_400


@dataclass(frozen=True, slots=True)
class Clients:
    """The clients of a worker process."""

    dependencies: Dependencies
    store: RedisStore
    log_positions: RedisLogPositions
    handled_positions: RedisHandledPositions
    publisher: KafkaPublisher
    answers: RedisAnswers
    """Recorded answers, by the hash of their request."""
    index: QdrantIndex
    guard: IndexGuard
    """Lets searches wait while the index lacks points."""
    index_record: RedisIndexRecord
    redis: RedisClient
    keys: Keys
    data_keys: CachedKeys | None = None
    """The keys that stored text is sealed with; `None`: it is plain."""

    @property
    def transplants(self) -> RedisTransplants:
        """Export and import of whole conversations."""
        return RedisTransplants(self.store, self.redis, self.keys)

    @property
    def erased_snapshots(self) -> ErasedSnapshots:
        """The notes of snapshots that may come late into the cold store."""
        return ErasedSnapshots(RedisConnection(self.redis), self.keys, self.store.cold)

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
    client = QdrantRest(usable_qdrant_url(settings), api_key=reveal(settings.qdrant_api_key))
    try:
        yield client
    finally:
        await client.close()


def usable_qdrant_url(settings: Settings) -> str:
    """The URL of Qdrant; raises `Refused` where it is none, without quoting it: it may have a password."""
    url = settings.qdrant_url
    if url is None:
        raise Refused(NO_SERVERS)
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise Refused("EUNOE_QDRANT_URL: use http://HOST:PORT or https://HOST:PORT, port 6333 of the REST API")
    return url


def _answers(settings: Settings, redis: RedisClient, keys: Keys, data_keys: CachedKeys | None) -> RedisAnswers:
    """The recorded answers, with the time that they are kept."""
    ttl_s = None if settings.answer_days is None else int(settings.answer_days * DAY_S)
    return RedisAnswers(redis, keys, ttl_s=ttl_s, data_keys=data_keys)


@asynccontextmanager
async def open_clients(
    settings: Settings, *, ask_again: bool = False, ask_refused: bool = False, thaws: bool = True
) -> AsyncIterator[Clients]:
    """All clients of a worker process, closed at the end.

    With ``ask_again`` recorded answers are not used, with ``ask_refused`` records that no answer was valid. Without
    ``thaws`` conversations in the cold store are read there. Raises `Refused` for unusable settings, `Unavailable` when
    a server does not answer.
    """
    check_endpoint_of_stack(settings, os.environ)
    keys = store_keys(settings)
    async with AsyncExitStack() as closing:
        data_keys = await closing.enter_async_context(open_data_keys(settings))
        redis = await closing.enter_async_context(open_redis(settings))
        await RedisConnection(redis).check_undivided(settings.prefix)
        answers = _answers(settings, redis, keys, data_keys)
        embedder = await open_embedder(settings, os.environ, closing)
        index = QdrantIndex(await closing.enter_async_context(open_qdrant(settings)), keys)
        store = state_store(settings, redis, keys, data_keys, thaws=thaws)
        record = RedisIndexRecord(redis, keys)
        reader = state_store(settings, redis, keys, data_keys)
        guard = IndexGuard(index, record, reader, embedder, STAGES, keys.collection)
        await guard.open()
        publisher = await closing.enter_async_context(open_publisher(settings, data_keys))
        logged = LoggedAnswers(answers, publisher)
        recorded = WriteOnlyAnswers(logged) if ask_again else logged
        dependencies = Dependencies(
            store=store,
            index=GuardedIndex(index, guard),
            embedder=embedder,
            compressor=await open_compressor(settings, closing),
            language=await open_language(
                settings,
                os.environ,
                recorded,
                closing,
                RedisProfiles(redis, settings.prefix),
                asks_refused=ask_refused,
            ),
            settings=settings.stages,
        )
        positions, handled = RedisLogPositions(redis, keys), RedisHandledPositions(redis, keys, settings.redis_wait)
        yield Clients(
            dependencies, store, positions, handled, publisher, answers, index, guard, record, redis, keys, data_keys
        )
