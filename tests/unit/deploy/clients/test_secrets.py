"""Secrets in settings and addresses: handed to clients, and printed by nobody."""

import logging
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from openai import APIConnectionError
from pydantic import BaseModel, SecretStr

from eunoe.deploy.clients.bootstrap import open_qdrant
from eunoe.deploy.clients.connect import environment, on_stack
from eunoe.deploy.clients.models import open_embedder, open_language
from eunoe.deploy.clients.redis import open_redis_url
from eunoe.deploy.clients.shared import open_publisher, open_store
from eunoe.deploy.exits import code_of
from eunoe.deploy.local.notice import StackUrls
from eunoe.deploy.local.ports import free_port
from eunoe.deploy.settings import Settings, read_settings
from eunoe.schemas.errors import EunoeError, Refused, Unavailable
from eunoe.schemas.redact import without_login
from eunoe.streams.admin import list_topics
from eunoe.streams.settings import KafkaSettings
from eunoe.workers.models.endpoint.client import Endpoint, fault_of
from eunoe.workers.stores.records.answers import MemoryAnswers

SECRET = "hunter2"


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis://:hunter2@host:6379/0", "redis://host:6379/0"),
        ("redis://ann:hunter2@host/0?password=hunter2", "redis://host/0"),
        ("rediss://ann:hun/ter2@host:1", "rediss://host:1"),
        ("https://ann:hunter2@model.example/v1?key=hunter2#hunter2", "https://model.example/v1"),
        ("ann:hunter2@host:9092", "host:9092"),
        ("http://host:6333", "http://host:6333"),
        ("", ""),
    ],
)
def test_an_address_is_shown_without_user_password_and_query(url: str, shown: str) -> None:
    assert without_login(url) == shown


def fields(model: type[BaseModel], before: str = "EUNOE_") -> Iterator[tuple[str, Any]]:
    """Every setting: the name of its variable, and its type."""
    for name, field in model.model_fields.items():
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            yield from fields(kind, f"{before}{name.upper()}__")
        else:
            yield before + name.upper(), kind


NAMES = sorted(name for name, _ in fields(Settings))


@pytest.mark.parametrize("name", NAMES)
def test_no_setting_repeats_a_wrong_value(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, f"https://ann:{SECRET}@host:6333/{SECRET}?password={SECRET}")
    said = ""
    try:
        read_settings()
    except Refused as error:
        said = str(error)
    assert SECRET not in said


@pytest.mark.parametrize("name", ["EUNOE_REDIS_URL", "EUNOE_QDRANT_URL", "EUNOE_QDRANT_API_KEY"])
def test_settings_are_printed_without_secrets(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, f"https://ann:{SECRET}@host:6333")
    assert SECRET not in repr(read_settings()) + str(read_settings())


@pytest.mark.parametrize("kafka", [f"ann:{SECRET}@host", f"ann:{SECRET}@host:9092"])
def test_the_address_of_a_broker_has_no_login(kafka: str) -> None:
    with pytest.raises(Refused, match="a server with a login") as caught:
        _ = Settings(kafka=kafka).kafka_settings
    assert SECRET not in str(caught.value)


SECRETS = (
    "EUNOE_REDIS_URL", "EUNOE_QDRANT_API_KEY", "EUNOE_BROKER__SASL_PASSWORD", "EUNOE_MCP__KEY", "EUNOE_TRACES__SECRET",
    "EUNOE_KEYS__STORE", "EUNOE_KEYS__KEK",
    "EUNOE_ERASURES",
)  # fmt: skip


def test_settings_with_secrets_have_a_type_that_hides_them() -> None:
    found = {name for name, kind in fields(Settings) if "SecretStr" in str(kind)}
    assert found == set(SECRETS)
    said = ("PASSWORD", "KEY", "SECRET", "TOKEN")
    names = {name for name, kind in fields(Settings) if kind is not int and any(w in name.split("_") for w in said)}
    assert names <= found, "a setting with such a name is a SecretStr"


def test_a_child_process_gets_the_secrets_of_the_stack() -> None:
    urls = StackUrls(
        kafka="127.0.0.1:1", redis_url=f"redis://:{SECRET}@h:1/0", qdrant_url="http://h:2", qdrant_api_key="k2",
        epoch=1, pid=1,
    )  # fmt: skip
    assert SECRET not in repr(urls)
    assert "k2" not in repr(urls)
    settings = on_stack(Settings(qdrant_api_key=SecretStr("of another server")), urls)
    found = environment(settings)
    assert (found["EUNOE_REDIS_URL"], found["EUNOE_QDRANT_API_KEY"]) == (urls.redis_url, "k2")
    assert SECRET not in repr(settings)


PORT = free_port()
BROKEN: dict[str, Settings] = {
    "kafka": Settings(kafka=f"127.0.0.1:{PORT}"),
    "kafka with a login": Settings(kafka=f"ann:{SECRET}@127.0.0.1"),
    "redis": Settings(redis_url=SecretStr(f"redis://ann:{SECRET}@127.0.0.1:{PORT}/0")),
    "redis, password in the query": Settings(redis_url=SecretStr(f"redis://127.0.0.1:{PORT}/0?password={SECRET}")),
    "redis cluster": Settings(redis_url=SecretStr(f"redis+cluster://ann:{SECRET}@127.0.0.1:{PORT}/")),
    "redis, wrong scheme": Settings(redis_url=SecretStr(f"http://ann:{SECRET}@127.0.0.1:{PORT}/0")),
    "redis, wrong port": Settings(redis_url=SecretStr(f"redis://ann:{SECRET}@127.0.0.1:{SECRET}/0")),
    "redis, unescaped": Settings(redis_url=SecretStr(f"redis://ann:{SECRET}/{SECRET}@127.0.0.1:{PORT}/0")),
    "redis, no file": Settings(redis_url=SecretStr(f"rediss://:{SECRET}@127.0.0.1:{PORT}/0?ssl_ca_certs=/none")),
    "qdrant": Settings(qdrant_url=f"http://ann:{SECRET}@127.0.0.1:{PORT}", qdrant_api_key=SecretStr(SECRET)),
    "qdrant, no URL": Settings(qdrant_url=f"ann:{SECRET}@127.0.0.1"),
    "qdrant, wrong port": Settings(qdrant_url=f"http://ann:{SECRET}@127.0.0.1:{SECRET}"),
}
"""Servers that cannot be reached, with a password at every place of their addresses."""


async def reach(settings: Settings) -> None:
    """Use the one server of the settings."""
    if settings.kafka is not None:
        await list_topics(settings.kafka_settings, settings.names)
    elif settings.redis_url is not None:
        async with open_store(settings) as store:
            await store.conversations()
    else:
        from eunoe.deploy.clients.shared import store_keys  # noqa: PLC0415
        from eunoe.workers.stores.vectors.qdrant import QdrantIndex  # noqa: PLC0415

        async with open_qdrant(settings) as client:
            await QdrantIndex(client, store_keys(settings)).prepare("e", 2)


@pytest.mark.parametrize("name", BROKEN)
async def test_a_server_that_is_not_there_is_named_without_its_login(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    with pytest.raises(EunoeError) as caught:
        await reach(BROKEN[name])
    assert SECRET not in str(caught.value)
    assert SECRET not in getattr(caught.value, "server", ""), "a label of /metrics"
    assert "\n" not in str(caught.value)
    assert code_of(caught.value) in (2, 69)
    assert SECRET not in caplog.text


async def test_the_publisher_names_a_broker_that_is_not_there_once(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(Unavailable, match=f"127.0.0.1:{PORT}"):
        async with open_publisher(BROKEN["kafka"]):
            pass
    assert "Unable connect" not in caplog.text, "said once, by the exception"


MODEL_URL = f"http://ann:{SECRET}@127.0.0.1:{PORT}/v1?key={SECRET}"


def endpoint_faults() -> Iterator[Callable[[Endpoint], Exception]]:
    import httpx2  # noqa: PLC0415

    request = httpx2.Request("POST", MODEL_URL)
    yield lambda at: fault_of(APIConnectionError(request=request), at, 0.0)
    yield lambda at: fault_of(ValueError("no JSON"), at, 0.0)


def test_an_endpoint_is_named_without_its_login() -> None:
    at = Endpoint(model="m", base_url=MODEL_URL, key=SECRET)
    assert at.server == f"m at http://127.0.0.1:{PORT}/v1"
    assert SECRET not in repr(at)
    for fault in endpoint_faults():
        assert SECRET not in str(fault(at))


async def test_models_that_do_not_answer_are_named_without_their_login(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "eunoe")
    settings = Settings(embedding="endpoint:e:3", model_timeout_seconds=1)
    variables = {"OPENAI_BASE_URL": MODEL_URL, "OPENAI_API_KEY": SECRET}
    async with AsyncExitStack() as closing:
        embedder = await open_embedder(settings, variables, closing)
        language = await open_language(settings, variables, MemoryAnswers(), closing)
        assert language is not None
        assert SECRET not in repr(embedder) + repr(language)
    assert SECRET not in caplog.text


async def test_a_key_file_that_is_missing_is_named(tmp_path: Path) -> None:
    kafka = KafkaSettings(bootstrap="127.0.0.1:1", security_protocol="SSL", ssl_cafile=str(tmp_path / "none.pem"))
    with pytest.raises(Refused, match=r"EUNOE_BROKER__SSL_CAFILE: .*none\.pem cannot be used: No such file"):
        await list_topics(kafka, Settings().names)
    (tmp_path / "bad.pem").write_text("no certificate")
    kafka = KafkaSettings(bootstrap="127.0.0.1:1", security_protocol="SSL", ssl_certfile=str(tmp_path / "bad.pem"))
    with pytest.raises(Refused, match="EUNOE_BROKER__SSL_CERTFILE"):
        await list_topics(kafka, Settings().names)
    with pytest.raises(Refused, match="ssl_ca_certs: there is no file /none"):
        async with open_redis_url("rediss://h/0?ssl_ca_certs=/none"):
            pass
