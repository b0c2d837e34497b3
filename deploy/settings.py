"""All settings, read once from the environment (``EUNOE_*``) and passed on."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, SecretStr, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

from eunoe.deploy.local.tansu.adapter import TansuAdapter
from eunoe.schemas.base import Tier
from eunoe.schemas.errors import Refused
from eunoe.schemas.versions import describe
from eunoe.streams.broker_adapter import BrokerAdapter, OrdinaryBroker
from eunoe.streams.settings import KafkaOptions, KafkaSettings
from eunoe.streams.topics import TopicNames
from eunoe.workers.models.metering import Prices
from eunoe.workers.registry import StageSettings
from eunoe.workers.runner.decider import RunnerSettings
from eunoe.workers.runner.failure_limit import FailureLimit
from eunoe.workers.stores.generations import FIRST

NO_SERVERS = (
    "no servers: start them with `eunoe up` in this directory, or set EUNOE_KAFKA, EUNOE_REDIS_URL and EUNOE_QDRANT_URL"
)


class Language(StrEnum):
    """The language model of the stages."""

    AUTO = "auto"
    """The endpoint where ``OPENAI_BASE_URL`` is set, else offline: a key alone spends no money."""
    OFFLINE = "offline"
    OPENAI = "openai"


class BrokerSettings(KafkaOptions):
    """The options of the Kafka clients, and the kind of broker."""

    embedded: bool = False
    """Whether the broker is that of `eunoe up`, for which the clients have workarounds. Not for any other broker."""

    @property
    def adapter(self) -> BrokerAdapter:
        """The adapter for this kind of broker."""
        return TansuAdapter() if self.embedded else OrdinaryBroker()


class Settings(StageSettings, BaseSettings):
    """All settings, ``EUNOE_KAFKA``, ``EUNOE_INTAKE__IDLE_SECONDS`` …: in capitals, ``__`` before a section's field."""

    model_config = SettingsConfigDict(
        env_prefix="EUNOE_", env_nested_delimiter="__", frozen=True, extra="ignore", populate_by_name=True
    )

    # servers
    kafka: Annotated[str | None, Tier.SET] = Field(
        default=None, description="Kafka bootstrap servers, host:port,host:port"
    )
    broker: BrokerSettings = Field(
        default=BrokerSettings(), description="TLS, SASL, timeouts: EUNOE_BROKER__SASL_USERNAME …"
    )
    redis_url: Annotated[str | None, Tier.SET] = Field(
        default=None, description="redis://, redis+cluster:// or redis+sentinel:// URL; rediss… over TLS"
    )
    qdrant_url: Annotated[str | None, Tier.SET] = Field(
        default=None, description="http:// or https:// URL of Qdrant's REST API"
    )
    qdrant_api_key: Annotated[SecretStr | None, Tier.SET] = Field(default=None, description="Qdrant's API key")

    # names
    prefix: Annotated[str, Tier.SET] = Field(
        default="eunoe", pattern=r"^[A-Za-z0-9_-]{1,40}$", description="Prefix of all names"
    )
    generation: str | None = Field(
        default=None,
        pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,39}$",
        description="Generation of the memory; unset: the live one",
    )
    partitions: Annotated[int, Tier.SET] = Field(
        default=12, ge=1, le=1000, description="Partitions of every topic: the most workers a stage can use"
    )
    replication: Annotated[int, Tier.SET] = Field(default=1, ge=1, description="Replicas of every topic")
    epoch: int = Field(default=0, ge=0, description="Counts the log's beginnings; the embedded stack sets it")
    log: int | None = Field(
        default=None,
        ge=0,
        le=1_000_000,
        description="Number of the log that clients produce into, for those without Redis (eunoe topics repartition"
        " makes another); unset: the live generation's",
    )

    # models
    language: Annotated[Language, Tier.TUNE] = Field(default=Language.AUTO, description="auto, offline or openai")
    model: Annotated[str, Tier.SET] = Field(default="gpt-4o-mini", description="The chat model at OPENAI_BASE_URL")
    embedding: Annotated[str, Tier.SET] = Field(
        default="wordllama", description="wordllama, fastembed:MODEL, or endpoint:MODEL:DIMENSIONS"
    )
    compression: Annotated[Literal["offline", "llmlingua"], Tier.TUNE] = Field(
        default="offline", description="offline, or llmlingua (an extra)"
    )
    model_in_flight: Annotated[int, Tier.TUNE] = Field(
        default=256, ge=1, description="Model calls at once, per process"
    )
    model_timeout_seconds: Annotated[float, Tier.TUNE] = Field(
        default=60.0, gt=0, description="A call that takes longer is made again"
    )
    model_prompt_price: Annotated[float, Tier.TUNE] = Field(
        default=0.0, ge=0, description="Dollars per million prompt tokens; 0: unknown, and no cost is told"
    )
    model_completion_price: Annotated[float, Tier.TUNE] = Field(
        default=0.0, ge=0, description="Dollars per million tokens of answers"
    )
    answer_days: Annotated[float | None, Tier.TUNE] = Field(
        default=None, description="Days that recorded answers are kept; unset: for ever"
    )

    # the process
    slots: Annotated[int, Tier.TUNE] = Field(
        default=256, ge=1, description="Conversations that a stage handles at once, per process"
    )
    shutdown_seconds: Annotated[float, Tier.TUNE] = Field(
        default=20.0, gt=0, description="One deadline for the whole shutdown"
    )
    patience_seconds: Annotated[float, Tier.TUNE] = Field(
        default=600.0, gt=0, description="How long a server may be away before a worker gives up"
    )
    attempts: Annotated[int, Tier.TUNE] = Field(
        default=3, ge=1, description="Tries of an event that fails, before it becomes a dead letter"
    )
    max_failed_share: Annotated[float, Tier.TUNE] = Field(
        default=0.25,
        ge=0,
        le=1,
        description="A stage that fails at more than this share of its last 200 events stops (exit code 78); 1: never",
    )

    stalled_seconds: Annotated[float, Tier.TUNE] = Field(
        default=600.0, gt=0, description="A stage that has work and does none of it for this long is not alive"
    )
    health: Annotated[str | None, Tier.SET] = Field(
        default=None, description="HOST:PORT (or PORT, on loopback) of a worker's /live, /ready and /metrics"
    )

    meter_file: Path | None = Field(
        default=None, description="A file that a worker writes its counters to, as JSON, each second and at its end"
    )

    @property
    def kafka_settings(self) -> KafkaSettings:
        """The settings of the connection to Kafka; raises `Refused` where no servers are set."""
        if self.kafka is None:
            raise Refused(NO_SERVERS)
        try:
            options = self.broker.model_dump(exclude={"embedded"})
            return KafkaSettings.model_validate(options | {"bootstrap": self.kafka, "adapter": self.broker.adapter})
        except ValidationError as error:
            raise Refused(f"EUNOE_KAFKA: {describe(error)}") from None

    @property
    def names(self) -> TopicNames:
        """The names of topics and groups."""
        return TopicNames(prefix=self.prefix, generation=self.generation or FIRST, log=self.log or 0)

    @property
    def log_epoch(self) -> int:
        """The epoch of positions: new records of a later log are behind all records that were copied into it."""
        return self.epoch + (self.log or 0)

    @property
    def prices(self) -> Prices:
        """The prices of the chat model."""
        return Prices(self.model_prompt_price, self.model_completion_price)

    @property
    def stages(self) -> StageSettings:
        """The settings of the stages."""
        return StageSettings.model_validate({name: getattr(self, name) for name in StageSettings.model_fields})

    @property
    def runner(self) -> RunnerSettings:
        """The limits of retries and failures."""
        return RunnerSettings(
            attempts=self.attempts, retry_limit_s=self.patience_seconds, failures=FailureLimit(self.max_failed_share)
        )


def read_settings() -> Settings:
    """The settings of the environment; raises `Refused` with the wrong ones named, without their values."""
    try:
        return Settings()
    except ValidationError as error:
        raise Refused(f"settings: {describe(error)}") from None
