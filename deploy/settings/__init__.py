"""All settings, read once from the environment (``EUNOE_*``) and passed on."""

import os
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field, SecretStr, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict, SettingsError

from eunoe.deploy.settings.embedders import FORMS, EmbedderKind
from eunoe.deploy.settings.names import misspelt
from eunoe.deploy.settings.sections import (
    BrokerSettings,
    ColdSettings,
    GatewaySettings,
    KeySettings,
    Language,
    LogFormat,
    McpSettings,
    ModelOptions,
    named_stages,
)
from eunoe.schemas.base import Tier
from eunoe.schemas.errors import Refused
from eunoe.schemas.versions import WHOLE, describe
from eunoe.streams.settings import KafkaSettings, TraceSettings
from eunoe.streams.topics import TopicNames
from eunoe.workers.models.questions.metering import Prices
from eunoe.workers.registry import StageSettings
from eunoe.workers.runner.decider import RunnerSettings
from eunoe.workers.runner.failure_limit import FailureLimit
from eunoe.workers.stores.positions.redis_positions import ReplicaWait
from eunoe.workers.stores.records.generations import FIRST

_HOUR_MS = 3_600_000

NO_SERVERS = (
    "no servers: start them with `eunoe up` in this directory, or set EUNOE_KAFKA, EUNOE_REDIS_URL and EUNOE_QDRANT_URL"
)


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
    redis_url: Annotated[SecretStr | None, Tier.SET] = Field(
        default=None, description="redis://, redis+cluster:// or redis+sentinel:// URL; rediss… over TLS"
    )
    redis_wait_replicas: Annotated[int, Tier.TUNE] = Field(
        default=0,
        ge=0,
        le=100,
        description="Replicas of Redis that must have a record's writes before it is acknowledged (WAIT); 0: none",
    )
    redis_wait_ms: Annotated[int, Tier.TUNE] = Field(
        default=1000, ge=1, le=5000, description="How long to wait for them before the writes are tried again"
    )
    qdrant_url: Annotated[str | None, Tier.SET] = Field(
        default=None, repr=False, description="http:// or https:// URL of Qdrant's REST API"
    )
    qdrant_api_key: Annotated[SecretStr | None, Tier.SET] = Field(default=None, description="Qdrant's API key")

    erasures: Annotated[SecretStr | None, Tier.SET] = Field(
        default=None,
        description="The ledger of erasures: a file (one machine) or the URL of a Redis of its own; kept apart from"
        " all backups",
    )

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
    embedding: Annotated[str, Tier.SET] = Field(default=EmbedderKind.WORDLLAMA.value, description=FORMS)
    compression: Annotated[str, Tier.TUNE] = Field(
        default="offline",
        pattern=r"^(offline|llmlingua|llmlingua:.+)$",
        description="offline, or llmlingua (an extra), or llmlingua:MODEL",
    )
    model_in_flight: Annotated[int, Tier.TUNE] = Field(
        default=256, ge=1, description="The most model calls at once, per process; fewer while answers come late"
    )
    model_timeout_seconds: Annotated[float, Tier.TUNE] = Field(
        default=60.0, gt=0, description="A call that takes longer is made again, for half as much at once"
    )
    model_decision_seconds: Annotated[float, Tier.TUNE] = Field(
        default=120.0,
        gt=0,
        description="Seconds in flight that the model may take for one decision about memory, retries included; then"
        " it is made offline",
    )
    model_reply_seconds: Annotated[float, Tier.TUNE] = Field(
        default=20.0, gt=0, description="The same for a reply; a model that thinks first needs more"
    )
    model_temperature: Annotated[float | None, Tier.TUNE] = Field(
        default=0.0, ge=0, le=2, description="Temperature of the chat model"
    )
    model_seed: Annotated[int | None, Tier.TUNE] = Field(default=None, description="Seed of the chat model")
    model_reasoning_effort: Annotated[str | None, Tier.TUNE] = Field(
        default=None, description="Reasoning effort that is asked of the chat model: low, medium, high …"
    )
    model_thinking_tokens: Annotated[int, Tier.TUNE] = Field(
        default=0, ge=0, description="Tokens for a reasoning model's thoughts, beside those of its answers"
    )
    model_max_output: Annotated[int | None, Tier.TUNE] = Field(
        default=None, ge=64, description="The most tokens of an answer; unset: learned from the endpoint"
    )
    model_context_window: Annotated[int | None, Tier.TUNE] = Field(
        default=None, ge=512, description="The most tokens of prompt and answer; unset: learned from the endpoint"
    )
    model_language: Annotated[str | None, Tier.TUNE] = Field(
        default=None, max_length=60, description="Language of memories and replies; unset: that of the dialogue"
    )
    models: Annotated[dict[str, ModelOptions], Tier.TUNE, AfterValidator(named_stages)] = Field(
        default={},
        description='Other values for single stages, as JSON: `{"respond": {"model": "gpt-4o", "temperature": 0.7}}`;'
        " names: model, temperature, seed, reasoning_effort, thinking_tokens, max_output, context_window,"
        " timeout_seconds, language",
    )
    model_prompt_price: Annotated[float, Tier.TUNE] = Field(
        default=0.0, ge=0, description="Dollars per million prompt tokens; 0: unknown, and no cost is told"
    )
    model_completion_price: Annotated[float, Tier.TUNE] = Field(
        default=0.0, ge=0, description="Dollars per million tokens of answers"
    )
    answer_days: Annotated[float | None, Tier.TUNE] = Field(
        default=None,
        ge=0.01,
        le=36_500,
        description="Days that Redis keeps a recorded answer; unset: for ever. Topic `answers` keeps the last of each"
        " question all the same",
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
        description="A stage that fails at more than this share of the conversations among its last 200 events stops"
        " (exit code 78); 1: never",
    )

    stalled_seconds: Annotated[float, Tier.TUNE] = Field(
        default=600.0, gt=0, description="A stage that has work and does none of it for this long is not alive"
    )
    health: Annotated[str | None, Tier.SET] = Field(
        default=None, description="HOST:PORT (or PORT, on loopback) of a worker's /live, /ready and /metrics"
    )

    log_format: Annotated[LogFormat, Tier.SET] = Field(
        default=LogFormat.TEXT, description="text, or json: a line of JSON for each message, on stderr"
    )
    traces: TraceSettings = Field(default=TraceSettings(), description="Traces: EUNOE_TRACES__ENDPOINT …")

    gateway: GatewaySettings = Field(
        default=GatewaySettings(), description="The HTTP gateway: EUNOE_GATEWAY__ADDRESS …"
    )

    keys: KeySettings = Field(default=KeySettings(), description="Encryption of stored text: EUNOE_KEYS__STORE …")

    cold: ColdSettings = Field(default=ColdSettings(), description="Idle conversations: EUNOE_COLD__STORE …")

    mcp: McpSettings = Field(
        default=McpSettings(), description="The gateway that `eunoe mcp` talks to: EUNOE_MCP__URL …"
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
            raise Refused("EUNOE_KAFKA: " + describe(error).removeprefix(f"{WHOLE}: ")) from None

    @property
    def names(self) -> TopicNames:
        """The names of topics and groups."""
        door_ms = round(self.keys.door_hours * _HOUR_MS) if reveal(self.keys.store) else None
        return TopicNames(self.prefix, self.generation or FIRST, self.log or 0, door_ms)

    @property
    def log_epoch(self) -> int:
        """The epoch of positions: new records of a later log are behind all records that were copied into it."""
        return self.epoch + (self.log or 0)

    @property
    def prices(self) -> Prices:
        """The prices of the chat model."""
        return Prices(self.model_prompt_price, self.model_completion_price)

    def model_options(self, stage: str | None) -> ModelOptions:
        """The settings of the chat model, or those of the model of one stage."""
        general = ModelOptions.model_construct(
            model=self.model,
            temperature=self.model_temperature,
            seed=self.model_seed,
            reasoning_effort=self.model_reasoning_effort,
            thinking_tokens=self.model_thinking_tokens,
            max_output=self.model_max_output,
            context_window=self.model_context_window,
            timeout_seconds=self.model_timeout_seconds,
            language=self.model_language,
        )
        own = self.models.get(stage) if stage else None
        return general if own is None else general.model_copy(update=own.model_dump(exclude_none=True))

    @property
    def stages(self) -> StageSettings:
        """The settings of the stages."""
        return StageSettings.model_validate({name: getattr(self, name) for name in StageSettings.model_fields})

    @property
    def redis_wait(self) -> ReplicaWait:
        """The replicas to wait for before an acknowledgement."""
        return ReplicaWait(self.redis_wait_replicas, self.redis_wait_ms)

    @property
    def runner(self) -> RunnerSettings:
        """The limits of retries and failures."""
        return RunnerSettings(
            attempts=self.attempts, retry_limit_s=self.patience_seconds, failures=FailureLimit(self.max_failed_share)
        )


def reveal(secret: SecretStr | None) -> str | None:
    """The text of a secret setting, to hand to a client or a child process."""
    return None if secret is None else secret.get_secret_value()


def read_settings() -> Settings:
    """The settings of the environment; raises `Refused` with wrong and misspelt ones named, without their values."""
    if found := misspelt(map(str.upper, os.environ), Settings):
        meant = ", ".join(f"{name} (did you mean {likely}?)" for name, likely in found.items())
        raise Refused(f"settings: there is no {meant}")
    try:
        return Settings()
    except ValidationError as error:
        raise Refused(f"settings: {describe(error)}") from None
    except SettingsError as error:  # its text names the field and never the value
        raise Refused(f"settings: {error}; it must be JSON") from None
