"""Another model behind the name of an embedder is told: by a worker that runs, and by the doctor."""

import logging
from contextlib import AsyncExitStack
from pathlib import Path

import numpy as np
import pytest
from pydantic import SecretStr

from eunoe.deploy.clients.models import open_embedder
from eunoe.deploy.clients.shared import open_redis, store_keys
from eunoe.deploy.doctor.embedder import check_embedder
from eunoe.deploy.doctor.findings import Findings, Level
from eunoe.deploy.observability.health import HealthState, Phase
from eunoe.deploy.process.embedder_watch import EmbedderWatch
from eunoe.deploy.settings import Settings
from eunoe.schemas.errors import Unavailable
from eunoe.schemas.model_ports import Vectors
from eunoe.workers.stores.records.embedder_probe import RedisEmbedderProbe, changed_model
from eunoe.workers.stores.records.generations import forget_generation
from tests.support.model_server import server
from tests.support.model_server.server import ModelServer, ServerSettings
from tests.support.session import SessionServers

LENGTH = 64
_word_vector = server.word_vector


def noisy(text: str, dimensions: int) -> list[float]:
    """The same model in another batch, on another processor."""
    noise = np.random.default_rng(1).normal(0, 0.02, dimensions)
    return list(np.asarray(_word_vector(text, dimensions)) + noise)


def retrained(text: str, dimensions: int) -> list[float]:
    """Another model under the same name, with vectors of the same length."""
    return _word_vector(text.upper().replace(" ", " x"), dimensions)


@pytest.mark.broker
async def test_another_model_behind_the_name_is_told_and_noise_is_not(
    servers: SessionServers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    prefix = f"embedder-{tmp_path.name}".replace("_", "-")[:40]
    embedding = f"endpoint:words:{LENGTH}"
    settings = Settings(redis_url=SecretStr(servers.redis_url), prefix=prefix, embedding=embedding)
    health = HealthState(phase=Phase.RUNNING)
    caplog.set_level(logging.WARNING, "eunoe.deploy.process.embedder_watch")
    async with AsyncExitStack() as closing:
        model = await closing.enter_async_context(ModelServer(ServerSettings(dimensions=LENGTH)))
        environment = {"OPENAI_BASE_URL": model.base_url, "OPENAI_API_KEY": "none"}
        redis = await closing.enter_async_context(open_redis(settings))
        closing.push_async_callback(forget_generation, redis, store_keys(settings))
        embedder = await open_embedder(settings, environment, closing)
        watch = EmbedderWatch(embedder, RedisEmbedderProbe(redis, store_keys(settings)), health)

        async def told() -> tuple[bool, list[Level]]:
            await watch.look()
            findings = Findings("embedder")
            await check_embedder(settings, environment, findings)
            return health.report().ready, [one.level for one in findings.found]

        assert await told() == (True, [Level.OK])
        monkeypatch.setattr(server, "word_vector", noisy)
        assert await told() == (True, [Level.OK])
        monkeypatch.setattr(server, "word_vector", retrained)
        assert await told() == (False, [Level.OK, Level.FAULT])
        assert "another model answers under the name of EUNOE_EMBEDDING" in caplog.messages[-1]
        assert "eunoe rebuild --into v2" in health.report().why[0]
        monkeypatch.setattr(server, "word_vector", _word_vector)
        assert await told() == (True, [Level.OK])


async def test_an_endpoint_that_is_away_is_left_to_those_who_need_it() -> None:
    class Away:
        name, dimensions = "away", LENGTH

        async def embed(self, texts: object) -> Vectors:
            raise Unavailable("no answer")

    class Nowhere(RedisEmbedderProbe):
        def __init__(self) -> None:
            pass

    class Failing(Away):
        async def embed(self, texts: object) -> Vectors:
            return np.eye(1, LENGTH, dtype=np.float32)  # the text got no vector: this one is not to be kept

    health = HealthState(phase=Phase.RUNNING)
    for embedder in (Away(), Failing()):
        await EmbedderWatch(embedder, Nowhere(), health).look()
    assert health.report().ready


@pytest.mark.parametrize(
    ("first", "now"),
    [
        pytest.param([0.6, 0.8, 0.0], [1.0, 0.0, 0.0], id="a text that got no vector now"),
        pytest.param([1.0, 0.0, 0.0], [0.6, 0.8, 0.0], id="a text that got no vector then"),
        pytest.param([0.6, 0.8, 0.0], [0.0, 0.0, 0.0], id="nothing"),
        pytest.param([0.6, 0.8, 0.0], [0.6, 0.8], id="another length, which is told elsewhere"),
        pytest.param([0.6, 0.8, 0.0], [1.2, 1.6, 0.0], id="not of unit length"),
    ],
)
def test_what_tells_nothing_of_the_model_is_no_alarm(first: list[float], now: list[float]) -> None:
    assert changed_model(np.asarray(first, np.float32), np.asarray(now, np.float32)) is None
