"""The sections of the settings: model, broker, gateway, data keys, cold store, tools of agents."""

import re
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final

from pydantic import AfterValidator, Field, SecretStr

from eunoe.deploy.local.tansu.adapter import TansuAdapter
from eunoe.schemas.base import Tier, Value
from eunoe.streams.broker_adapter import BrokerAdapter, OrdinaryBroker
from eunoe.streams.settings import KafkaOptions
from eunoe.workers.models.questions.metering import ASKING_STAGES


class Language(StrEnum):
    """The language model of the stages."""

    AUTO = "auto"
    """The endpoint where ``OPENAI_BASE_URL`` is set, else offline: a key alone spends no money."""
    OFFLINE = "offline"
    OPENAI = "openai"


class LogFormat(StrEnum):
    """The form of log messages."""

    TEXT = "text"
    JSON = "json"


class ModelOptions(Value):
    """The settings of the chat model that a stage may override; `None` leaves the general one."""

    model: str | None = None
    temperature: float | None = Field(default=None, ge=0, le=2)
    seed: int | None = None
    reasoning_effort: str | None = None
    thinking_tokens: int | None = Field(default=None, ge=0)
    max_output: int | None = Field(default=None, ge=64)
    context_window: int | None = Field(default=None, ge=512)
    timeout_seconds: float | None = Field(default=None, gt=0)
    language: str | None = Field(default=None, max_length=60)


def named_stages(models: dict[str, ModelOptions]) -> dict[str, ModelOptions]:
    """The options by stage; raises ``ValueError`` for a stage that asks no model."""
    unknown = sorted(models.keys() - set(ASKING_STAGES))
    if unknown:
        raise ValueError(f"no stage {', '.join(unknown)} asks a model; use {', '.join(ASKING_STAGES)}")
    return models


class BrokerSettings(KafkaOptions):
    """The options of the Kafka clients, and the kind of broker."""

    embedded: bool = False
    """Whether the broker is that of `eunoe up`, for which the clients have workarounds. Not for any other broker."""

    @property
    def adapter(self) -> BrokerAdapter:
        """The adapter for this kind of broker."""
        return TansuAdapter() if self.embedded else OrdinaryBroker()


KEYS_FILE = Path(".eunoe/keys.json")
"""Default file of API keys, in the data directory of `eunoe up`."""


_ORIGIN: Final = re.compile(r"[a-z][a-z0-9+.-]*://[^/?#@*\s]+")
_USUAL_PORTS: Final = (("https:", ":443"), ("http:", ":80"))


def browser_origins(text: str) -> str:
    """The text, origins with commas between them; raises ``ValueError`` for one that no browser sends."""
    for number, one in enumerate(filter(None, map(str.strip, text.split(","))), 1):
        usual = any(one.startswith(scheme) and one.endswith(port) for scheme, port in _USUAL_PORTS)
        if one != "null" and (not _ORIGIN.fullmatch(one) or one != one.lower() or usual):
            raise ValueError(
                f"no browser sends origin {number} of these: write it like https://chat.example or http://localhost:5173,"
                " in small letters, without a path, a slash at its end or the usual port; '*' is none"
            )
    return text


class GatewaySettings(Value):
    """Address, credentials and limits of the gateway; times in seconds."""

    address: Annotated[str, Tier.SET] = "127.0.0.1:8700"
    """HOST:PORT (or PORT, on loopback) that serves clients; port 0: any free one."""
    keys: Annotated[Path, Tier.SET] = KEYS_FILE
    """File of API keys, which `eunoe keys` writes; read again when it changes."""
    jwks: Annotated[str | None, Tier.SET] = None
    """File or https URL of the JWKS by which tokens (JWT) are checked; unset: API keys alone."""
    jwks_seconds: Annotated[float, Tier.TUNE] = Field(default=300.0, gt=0)
    """Age at which the JWKS is read again: so long a key that was withdrawn there is believed at most."""
    jwks_max_seconds: float = Field(default=3600.0, gt=0)
    """Age up to which its keys are believed while it cannot be read."""
    jwt_issuer: Annotated[str | None, Tier.SET] = None
    """Required ``iss`` of tokens."""
    jwt_audience: Annotated[str | None, Tier.SET] = None
    """Required ``aud`` of tokens."""
    jwt_algorithms: Annotated[str, Tier.SET] = "ES256,RS256,EdDSA"
    """Algorithms of signatures that are accepted, with commas."""
    jwt_tenant_claim: Annotated[str, Tier.SET] = "tenant"
    """Claim of a token that names the tenant."""
    cors_origins: Annotated[str, Tier.SET, AfterValidator(browser_origins)] = ""
    """Origins of web pages that may call the gateway, exactly as browsers send them, with commas."""
    rate: Annotated[float, Tier.TUNE] = Field(default=200.0, gt=0)
    """Requests a second that a key may make on average; twenty lines of a batch count as one."""
    burst: Annotated[int, Tier.TUNE] = Field(default=1000, ge=100)
    """Requests that a key may make at once."""
    body_bytes: int = Field(default=262_144, ge=65_536)
    """Largest body of a request."""
    batch_bytes: int = Field(default=4_194_304, ge=65_536)
    """Largest body of a batch."""
    batch_lines: int = Field(default=1_000, ge=1)
    """Most lines of a batch."""
    body_seconds: float = Field(default=20.0, gt=0)
    """Time that a client may take to send the headers of a request, and then its body."""
    wait_seconds: Annotated[float, Tier.TUNE] = Field(default=30.0, gt=0)
    """Time that an ask or a recall waits for its answer where the request names none."""
    max_wait_seconds: float = Field(default=120.0, gt=0)
    """Longest wait that a request may name."""
    streams: Annotated[int, Tier.TUNE] = Field(default=10_000, ge=1)
    """Open streams of one process; as many requests may wait for an answer or a session."""
    streams_per_caller: Annotated[int, Tier.TUNE] = Field(default=5_000, ge=1)
    """Open streams of one key in one process; as many of its requests may wait."""
    streams_per_tenant: Annotated[int, Tier.TUNE] = Field(default=8_000, ge=1)
    """Open streams of one tenant, by all its keys, in one process; as many of its requests may wait."""
    ping_seconds: float = Field(default=15.0, gt=0)
    """Interval of the comments that keep a silent stream open."""
    send_seconds: float = Field(default=30.0, gt=0)
    """Time in which a client must take 64 KiB of what waits for it, or all; else its connection is dropped."""
    kafka_seconds: float = Field(default=10.0, gt=0)
    """Time after which a broker that does not answer counts as away."""
    redis_seconds: float = Field(default=2.0, gt=0)
    """Time after which a Redis that does not answer counts as away."""
    shutdown_seconds: float = Field(default=15.0, gt=0)
    """Time that open requests have to end after SIGTERM."""


class KeySettings(Value):
    """The store of data keys, with which stored text is sealed."""

    store: Annotated[SecretStr | None, Tier.SET] = None
    """File, or redis:// URL of a Redis of their own; unset or empty: new text is stored plain. Unset, `eunoe up` has
    its own."""
    kek: Annotated[SecretStr | None, Tier.SET] = None
    """The operator's key that wraps them: 32 bytes in base64, or several as VERSION:KEY, of which the highest wraps."""
    kek_file: Annotated[Path | None, Tier.SET] = None
    """File with the same, in place of it."""
    door_hours: Annotated[float, Tier.TUNE] = Field(default=24.0, ge=1.0, le=8760.0)
    """Hours for which `conversations` is kept, whose records topic `log` has; more than intake is ever behind."""


class ColdSettings(Value):
    """The store of conversations that are idle: their state leaves Redis, and comes back with their next event."""

    store: Annotated[str | None, Tier.SET] = None
    """A folder that all processes see, or s3://BUCKET/FOLDER, gs://, az:// (pip install 'eunoe[cold]'); unset or empty:
    all stay in Redis. Unset, `eunoe up` has a folder of its own."""
    after_days: Annotated[float, Tier.TUNE] = Field(default=30.0, gt=0)
    """Days without an utterance, by the log's time, after which a conversation is idle."""
    settle_seconds: Annotated[float, Tier.LEAVE] = Field(default=600.0, ge=1.0)
    """Seconds without any event, asks included, before an idle conversation leaves Redis; more than an ask takes."""
    sweep_seconds: Annotated[float, Tier.LEAVE] = Field(default=30.0, gt=0)
    """Seconds between two looks for idle conversations."""


class McpSettings(Value):
    """The gateway that `eunoe mcp` talks to."""

    url: Annotated[str | None, Tier.SET] = None
    """Its address; unset: the gateway of `eunoe up` in the data directory."""
    key: Annotated[SecretStr | None, Tier.SET] = None
    """A key of `eunoe keys create`, or a token; unset: the key of `eunoe up`."""
    conversation: Annotated[str | None, Tier.SET] = None
    """The conversation that tools use where a call names none."""
