"""Connection settings of the Kafka clients: one frozen object for all of them."""

import ssl
from enum import StrEnum
from functools import lru_cache
from typing import Annotated, Any, Self

from aiokafka.partitioner import murmur2
from pydantic import ConfigDict, Field, SecretStr, SkipValidation, model_validator

from eunoe.schemas.base import Tier, Value
from eunoe.schemas.errors import Refused
from eunoe.streams.broken_connections import refuse_broken_connections
from eunoe.streams.broker_adapter import BrokerAdapter, OrdinaryBroker
from eunoe.streams.topics import DEAD_LETTER_HEADROOM, DEFAULT_MAX_BYTES

LARGEST_RECORD = DEFAULT_MAX_BYTES + DEAD_LETTER_HEADROOM
"""Largest record of any topic, in bytes."""

_CACHED_KEY_BYTES = 500


class Security(StrEnum):
    """Protocol between client and broker."""

    PLAINTEXT = "PLAINTEXT"
    SSL = "SSL"
    SASL_PLAINTEXT = "SASL_PLAINTEXT"
    SASL_SSL = "SASL_SSL"


class SaslMechanism(StrEnum):
    """Authentication mechanism of SASL."""

    PLAIN = "PLAIN"
    SCRAM_SHA_256 = "SCRAM-SHA-256"
    SCRAM_SHA_512 = "SCRAM-SHA-512"


class TraceSettings(Value):
    """The traces of a process; see `eunoe.streams.tracing`."""

    endpoint: Annotated[str | None, Tier.SET] = Field(default=None, pattern=r"^https?://[^@\s]+$")
    """Address of a collector that takes OTLP over HTTP, ``http://127.0.0.1:4318``; unset: no traces."""
    share: Annotated[float, Tier.TUNE] = Field(default=1.0, ge=0, le=1)
    """Share of the traces that begin here which is recorded; what a caller has decided of its own counts."""
    secret: Annotated[SecretStr | None, Tier.SET] = None
    """Keys the hashes by which spans name conversations, the same for all processes; unset: they name none."""


class KafkaOptions(Value):
    """Connection, timeouts and limits; times in milliseconds. All of it may come from the environment."""

    bootstrap: str = "127.0.0.1:9092"
    """Bootstrap servers, ``host:port``; several with commas."""
    security_protocol: Annotated[Security, Tier.SET] = Security.PLAINTEXT
    """PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL."""
    sasl_mechanism: Annotated[SaslMechanism, Tier.SET] = SaslMechanism.PLAIN
    """PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512."""
    sasl_username: Annotated[str | None, Tier.SET] = None
    """User name for SASL."""
    sasl_password: Annotated[SecretStr | None, Tier.SET] = None
    """Password for SASL."""
    ssl_cafile: Annotated[str | None, Tier.SET] = None
    """PEM file of certificate authorities; unset: those of the system."""
    ssl_certfile: Annotated[str | None, Tier.SET] = None
    """PEM file of the client's certificate."""
    ssl_keyfile: Annotated[str | None, Tier.SET] = None
    """PEM file of the client's private key."""
    fetch_wait_ms: Annotated[int, Tier.TUNE] = Field(default=500, ge=1)
    """Longest wait of a fetch for records, at the broker, which answers as soon as it has some."""
    session_timeout_ms: int = Field(default=10_000, ge=1_000)
    """Silence after which a group member counts as dead and loses its partitions."""
    heartbeat_interval_ms: int = Field(default=1_000, ge=100)
    """Interval of heartbeats, which tell a member of a rebalance; at most half of the session timeout."""
    rebalance_timeout_ms: int = Field(default=60_000, ge=1_000)
    """Longest wait of a rebalance for a member; half of it is for finishing records in work."""
    request_timeout_ms: int = Field(default=30_000, ge=1_000)
    """Longest wait for an answer, after which a broker counts as unavailable."""
    idempotent: bool = True
    """Whether producers are idempotent; false for a broker without support."""
    linger_ms: int = Field(default=0, ge=0)
    """Time that a producer gathers records before it sends a batch; while one is on its way, it gathers them anyway."""
    max_request_bytes: int = Field(default=LARGEST_RECORD + 65_536, ge=LARGEST_RECORD)
    """Largest request of a producer."""
    max_poll_records: int = Field(default=500, ge=1)
    """Most records that a consumer takes from one poll."""
    commit_interval_ms: int = Field(default=1_000, ge=50)
    """Interval between commits of offsets."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        for server in self.bootstrap.split(","):
            host, colon, port = server.strip().rpartition(":")
            if not (host and colon and port.isdecimal()) or "@" in server:
                shown = "a server with a login" if "@" in server else repr(server.strip())
                raise ValueError(f"bootstrap must be host:port,host:port; {shown} is not")
        if self.security_protocol.value.startswith("SASL") and not (self.sasl_username and self.sasl_password):
            raise ValueError(f"{self.security_protocol} needs sasl_username and sasl_password")
        if self.heartbeat_interval_ms * 2 > self.session_timeout_ms:
            raise ValueError("heartbeat_interval_ms must be at most half of session_timeout_ms")
        if self.fetch_wait_ms >= self.request_timeout_ms:
            raise ValueError("fetch_wait_ms must be under request_timeout_ms")
        return self

    @property
    def server(self) -> str:
        """The brokers' name in messages about their faults."""
        return f"Kafka at {self.bootstrap}"

    @property
    def servers(self) -> list[str]:
        """The bootstrap servers, one by one."""
        return [server.strip() for server in self.bootstrap.split(",")]


class KafkaSettings(KafkaOptions):
    """The options together with the adapter for the kind of broker; only code sets the adapter."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    adapter: SkipValidation[BrokerAdapter] = Field(default=OrdinaryBroker(), exclude=True)
    """Adapts the consumers to the broker."""


def client_options(kafka: KafkaOptions) -> dict[str, Any]:
    """The keyword arguments of every aiokafka client, with an SSL context where the protocol needs one."""
    refuse_broken_connections()
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


def _ssl_context(kafka: KafkaOptions) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=kafka.ssl_cafile)
    except (OSError, ValueError) as error:
        raise Refused(f"EUNOE_BROKER__SSL_CAFILE: {_unreadable(kafka.ssl_cafile, error)}") from None
    if kafka.ssl_certfile:
        try:
            context.load_cert_chain(kafka.ssl_certfile, kafka.ssl_keyfile, _no_passphrase)
        except (OSError, ValueError) as error:
            files = f"{kafka.ssl_certfile}, {kafka.ssl_keyfile}" if kafka.ssl_keyfile else kafka.ssl_certfile
            settings = "EUNOE_BROKER__SSL_CERTFILE, EUNOE_BROKER__SSL_KEYFILE"
            raise Refused(f"{settings}: {_unreadable(files, error)}") from None
    return context


def _no_passphrase() -> str:
    """Refuse an encrypted key: OpenSSL would ask at the terminal."""
    raise ValueError("the private key is encrypted; use one without a passphrase")


def _unreadable(path: str | None, error: Exception) -> str:
    reason = (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__
    return f"{path} cannot be used: {reason}"


def partition_of(key: bytes, partitions: int) -> int:
    """The partition of a key among ``partitions``: murmur2, positive, modulo, as the Java client does by default."""
    hashed = _short_hash(key) if len(key) <= _CACHED_KEY_BYTES else int(murmur2(key))
    return (hashed & 0x7FFFFFFF) % partitions


# cached: it is computed in Python, and each message of a conversation asks for it
@lru_cache(maxsize=2_048)
def _short_hash(key: bytes) -> int:
    return int(murmur2(key))
