"""How to reach the brokers: one frozen settings object for every client."""

import ssl
from enum import StrEnum
from typing import Annotated, Any, Self

from aiokafka.partitioner import murmur2
from pydantic import Field, SecretStr, model_validator

from eunoe.schemas.base import Tier, Value
from eunoe.streams.topics import DEAD_LETTER_HEADROOM, DEFAULT_MAX_BYTES

LARGEST_RECORD = DEFAULT_MAX_BYTES + DEAD_LETTER_HEADROOM
"""Bytes: no topic takes more."""


class Security(StrEnum):
    """How a client talks to a broker."""

    PLAINTEXT = "PLAINTEXT"
    SSL = "SSL"
    SASL_PLAINTEXT = "SASL_PLAINTEXT"
    SASL_SSL = "SASL_SSL"


class SaslMechanism(StrEnum):
    """How a client proves who it is."""

    PLAIN = "PLAIN"
    SCRAM_SHA_256 = "SCRAM-SHA-256"
    SCRAM_SHA_512 = "SCRAM-SHA-512"


class KafkaSettings(Value):
    """Connection, timeouts and limits; times in milliseconds."""

    bootstrap: str = "127.0.0.1:9092"
    """``host:port``, several with commas."""
    security_protocol: Annotated[Security, Tier.SET] = Security.PLAINTEXT
    """PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL."""
    sasl_mechanism: Annotated[SaslMechanism, Tier.SET] = SaslMechanism.PLAIN
    """PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512."""
    sasl_username: Annotated[str | None, Tier.SET] = None
    """Who the client is."""
    sasl_password: Annotated[SecretStr | None, Tier.SET] = None
    """Its password."""
    ssl_cafile: Annotated[str | None, Tier.SET] = None
    """None: the certificate authorities of the system."""
    ssl_certfile: Annotated[str | None, Tier.SET] = None
    """The client's certificate, a PEM file."""
    ssl_keyfile: Annotated[str | None, Tier.SET] = None
    """Its key, a PEM file."""
    fetch_wait_ms: Annotated[int, Tier.TUNE] = Field(default=20, ge=1)
    """How long a broker may hold an empty fetch: 500 for Apache Kafka, which answers as soon as there is data; 1 for
    the embedded broker, which answers a waiting fetch late."""
    fetch_rest_ms: int = Field(default=0, ge=0)
    """How long a consumer rests at least between two fetches: 0 for Apache Kafka; 20 for the embedded broker."""
    session_timeout_ms: int = Field(default=10_000, ge=1_000)
    """After this silence a member is dead, and its partitions move."""
    heartbeat_interval_ms: int = Field(default=3_000, ge=100)
    """How often a member says that it lives; at most half of the session timeout."""
    rebalance_timeout_ms: int = Field(default=60_000, ge=1_000)
    """How long a rebalance waits for a member; half of it is for finishing what is started."""
    request_timeout_ms: int = Field(default=30_000, ge=1_000)
    """After this time without an answer a broker is away."""
    idempotent: bool = True
    """False for the embedded broker: it has no idempotent producer."""
    dense: bool = False
    """True for the embedded broker: its offsets have no holes; where one is seen a record is still on its way. Not
    for brokers with transactions or compaction."""
    linger_ms: int = Field(default=2, ge=0)
    """How long a producer gathers before it sends."""
    max_request_bytes: int = Field(default=LARGEST_RECORD + 65_536, ge=LARGEST_RECORD)
    """The largest request of a producer."""
    max_poll_records: int = Field(default=500, ge=1)
    """Records that a consumer takes at once."""
    commit_interval_ms: int = Field(default=1_000, ge=50)
    """How often handled positions are committed."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        for server in self.bootstrap.split(","):
            host, colon, port = server.strip().rpartition(":")
            if not (host and colon and port.isdecimal()):
                raise ValueError(f"bootstrap must be host:port,host:port; {server.strip()!r} is not")
        if self.security_protocol.value.startswith("SASL") and not (self.sasl_username and self.sasl_password):
            raise ValueError(f"{self.security_protocol} needs sasl_username and sasl_password")
        if self.heartbeat_interval_ms * 2 > self.session_timeout_ms:
            raise ValueError("heartbeat_interval_ms must be at most half of session_timeout_ms")
        if self.fetch_wait_ms >= self.request_timeout_ms:
            raise ValueError("fetch_wait_ms must be under request_timeout_ms")
        return self

    @property
    def server(self) -> str:
        """What a fault of the brokers names."""
        return f"Kafka at {self.bootstrap}"

    @property
    def servers(self) -> list[str]:
        """The bootstrap servers, one by one."""
        return [server.strip() for server in self.bootstrap.split(",")]


def client_options(kafka: KafkaSettings) -> dict[str, Any]:
    """The keyword arguments that every aiokafka client takes, with an SSL context where the protocol asks for one."""
    options: dict[str, Any] = {
        "bootstrap_servers": kafka.servers,
        "client_id": "eunoe",
        "request_timeout_ms": kafka.request_timeout_ms,
        "security_protocol": kafka.security_protocol.value,
    }
    if kafka.security_protocol in (Security.SSL, Security.SASL_SSL):
        options["ssl_context"] = _ssl_context(kafka)
    if kafka.sasl_password and kafka.security_protocol in (Security.SASL_PLAINTEXT, Security.SASL_SSL):
        options["sasl_mechanism"] = kafka.sasl_mechanism.value
        options["sasl_plain_username"] = kafka.sasl_username
        options["sasl_plain_password"] = kafka.sasl_password.get_secret_value()
    return options


def _ssl_context(kafka: KafkaSettings) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=kafka.ssl_cafile)
    if kafka.ssl_certfile:
        context.load_cert_chain(kafka.ssl_certfile, kafka.ssl_keyfile)
    return context


def partition_of(key: bytes, partitions: int) -> int:
    """The partition of a key among ``partitions``: murmur2, positive, modulo, as the Java client does by default."""
    return (int(murmur2(key)) & 0x7FFFFFFF) % partitions
