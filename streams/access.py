"""Finds out why no Kafka broker lets a client in, or what right a user lacks, and says what to set or grant."""

import logging
import ssl
from collections.abc import Iterator
from typing import Any, Final

from aiokafka.conn import AIOKafkaConnection
from aiokafka.errors import (
    AuthenticationFailedError,
    AuthenticationMethodNotSupported,
    ClusterAuthorizationFailedError,
    GroupAuthorizationFailedError,
    IllegalSaslStateError,
    KafkaError,
    SaslAuthenticationFailed,
    TopicAuthorizationFailedError,
    UnsupportedSaslMechanismError,
    for_code,
)

from eunoe.schemas.errors import Misconfigured, Unavailable
from eunoe.streams.settings import KafkaSettings, Security, client_options

_LOGIN: Final = (
    AuthenticationFailedError,
    AuthenticationMethodNotSupported,
    IllegalSaslStateError,
    SaslAuthenticationFailed,
    UnsupportedSaslMechanismError,
)
_REPEATED: Final = ('Unable connect to "', "Unable to request metadata from")


class _Repeated(logging.Filter):
    """Drops what aiokafka logs about each bootstrap server, because the exception says it."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether to log the record."""
        return not str(record.msg).startswith(_REPEATED)


logging.getLogger("aiokafka").addFilter(_Repeated())


def why_denied(kafka: KafkaSettings, fault: BaseException, right: str = "Read") -> Misconfigured | None:
    """The exception for a right that Kafka's ACLs deny, with what to grant; `None` where ``fault`` is another one.

    ``right`` is the operation on a topic that was denied. The fault of a topic or a group has its name.
    """
    if isinstance(fault, TopicAuthorizationFailedError):
        wanted = f"{right} on topic {_named(fault)}"
    elif isinstance(fault, GroupAuthorizationFailedError):
        wanted = f"Read on group {_named(fault)}"
    elif isinstance(fault, ClusterAuthorizationFailedError):
        wanted = "Write on the topics, or IdempotentWrite on the cluster"
    else:
        return None
    denied = f"{kafka.server} denies {_user(kafka)} access ({type(fault).__name__})"
    return Misconfigured(f"{denied}: grant {wanted}", kafka.server)


def grant(code: int, right: str) -> str:
    """Advice for an error code of a broker that denies ``right`` on a topic or a group; '' for any other code."""
    is_denied = for_code(code) in (TopicAuthorizationFailedError, GroupAuthorizationFailedError)
    return f"(grant {right})" if is_denied else ""


def _named(fault: KafkaError) -> str:
    """The names that an exception of aiokafka has: one as a text, or several."""
    names = fault.args[0] if fault.args else "?"
    return names if isinstance(names, str) else ", ".join(sorted(names))


def how_to_see_topics(kafka: KafkaSettings) -> str:
    """Advice where the broker does not name a topic; it hides those that a user may not see."""
    if kafka.security_protocol is Security.PLAINTEXT:
        return "run `eunoe topics create`"
    return f"run `eunoe topics create`, or grant {_user(kafka)} Describe: Kafka hides topics from those without it"


def _user(kafka: KafkaSettings) -> str:
    return f"user {kafka.sasl_username}" if kafka.sasl_username else "this client"


async def why_unavailable(kafka: KafkaSettings, fault: Exception) -> Unavailable:
    """The exception for a client that could not connect; `Misconfigured` where all brokers refuse the settings.

    It connects to each bootstrap server once more, to learn what ``fault`` does not say.
    """
    found = [await _try_server(kafka, server) for server in kafka.servers]
    refusals = [one for one in found if isinstance(one, Misconfigured)]
    if refusals and len(refusals) == len(found):
        return refusals[0]
    reasons = [one for one in found if one is not None]
    if len(reasons) == len(found):
        return reasons[0]
    asks = "it lets clients connect and gives no metadata; does it ask for a login (EUNOE_BROKER__SECURITY_PROTOCOL)?"
    return Unavailable(f"no answer from {kafka.server}: {type(fault).__name__}: {asks}", kafka.server)


async def _try_server(kafka: KafkaSettings, server: str) -> Unavailable | None:
    """The reason why a server does not let a client in; `None` where it does."""
    host, _, port = server.rpartition(":")
    options = client_options(kafka)
    del options["bootstrap_servers"]
    connection: Any = AIOKafkaConnection(host.strip("[]"), int(port), **options)
    try:
        await connection.connect()
    except (KafkaError, OSError, TimeoutError) as fault:
        return _reason(kafka, server, fault)
    finally:
        connection.close()
    return None


def _reason(kafka: KafkaSettings, server: str, fault: Exception) -> Unavailable:
    where = f"Kafka at {server}"
    causes = list(_causes(fault))
    if any(isinstance(cause, _LOGIN) for cause in causes):
        login = "EUNOE_BROKER__SASL_USERNAME, EUNOE_BROKER__SASL_PASSWORD and EUNOE_BROKER__SASL_MECHANISM"
        asked = f"user {kafka.sasl_username}, {kafka.sasl_mechanism.value}"
        return Misconfigured(f"{where} refuses the login ({asked}): set {login}", kafka.server)
    for cause in causes:
        if isinstance(cause, ssl.SSLError):
            return Misconfigured(f"{where}: {_tls_advice(cause)}", kafka.server)
    text = str(fault) or type(fault).__name__
    closed = not isinstance(fault, OSError | TimeoutError) or isinstance(fault, ConnectionResetError | BrokenPipeError)
    hint = ": it closed the connection; does EUNOE_BROKER__SECURITY_PROTOCOL fit this port?" if closed else ""
    return Unavailable(f"no answer from {where} ({kafka.security_protocol.value}): {text:.200}{hint}", kafka.server)


def _tls_advice(fault: ssl.SSLError) -> str:
    if isinstance(fault, ssl.SSLCertVerificationError):
        return f"certificate not trusted ({fault.verify_message}): set EUNOE_BROKER__SSL_CAFILE"
    reason = fault.reason or str(fault)
    if "WRONG_VERSION" in reason or "RECORD_LAYER" in reason or "PACKET_LENGTH" in reason:
        plain = f"{Security.PLAINTEXT.value} or {Security.SASL_PLAINTEXT.value}"
        return f"no TLS at this port ({reason}): set EUNOE_BROKER__SECURITY_PROTOCOL to {plain}, or use the TLS port"
    return (
        f"TLS refused ({reason}): it may ask for a certificate of the client, or for another one;"
        " set EUNOE_BROKER__SSL_CERTFILE and EUNOE_BROKER__SSL_KEYFILE"
    )


def _causes(fault: BaseException) -> Iterator[BaseException]:
    """An exception and what caused it, without cycles."""
    seen: list[BaseException] = []
    left: list[BaseException | None] = [fault]
    while left:
        one = left.pop(0)
        if one is None or one in seen:
            continue
        seen.append(one)
        yield one
        left += [one.__cause__, one.__context__]
