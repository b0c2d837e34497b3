"""The pipeline on servers that ask for logins and certificates, and the words for wrong ones."""

import asyncio
import re
import secrets
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import orjson
import pytest
from redis import Redis

from tests.support import command, tansu
from tests.support.command import Finished, until
from tests.support.kafka.cluster import KafkaCluster, KafkaSecurity
from tests.support.secured import Certificates, tls_port
from tests.support.servers import local_qdrant, valkey

pytestmark = [pytest.mark.broker, pytest.mark.slow, pytest.mark.timeout(900)]

USER, PASSWORD, WRONG = "eunoe-worker", "p@ss/w:rd#1", "hunter2"
PREFIX = f"secured-{secrets.token_hex(3)}"
ENCODED = "p%40ss%2Fw%3Ard%231"


@dataclass(frozen=True)
class Secured:
    """The variables that let commands in, and the certificates."""

    variables: Mapping[str, str]
    certificates: Certificates
    cwd: Path

    async def eunoe(self, *words: str, **changed: str) -> Finished:
        """Run a command to its end, with some variables changed."""
        return await command.eunoe(*words, cwd=self.cwd, **{**self.variables, **changed})


@asynccontextmanager
async def stores(directory: Path, certificates: Certificates) -> AsyncIterator[dict[str, str]]:
    """Redis behind TLS with an ACL user for the keys of the prefix, Qdrant with a key: their variables."""
    key = secrets.token_urlsafe(8)
    with valkey(directory / "valkey") as server, local_qdrant(directory / "qdrant", key) as qdrant:
        with Redis(port=server.port) as admin:
            allowed = ("+@all", "-@dangerous", f"~{PREFIX}*", f">{PASSWORD}")
            admin.execute_command("ACL", "SETUSER", USER, "on", *allowed)
            admin.config_set("requirepass", "of the administrator")
        async with tls_port(certificates, server.port) as port:
            login, query = f"{USER}:{ENCODED}", f"ssl_ca_certs={certificates.authority}"
            yield {
                "EUNOE_REDIS_URL": f"rediss://{login}@localhost:{port}/0?{query}",
                "EUNOE_QDRANT_URL": qdrant.url,
                "EUNOE_QDRANT_API_KEY": key,
                "EUNOE_PREFIX": PREFIX,
                "EUNOE_PARTITIONS": "2",
                "EUNOE_INTAKE__IDLE_SECONDS": "3600",
            }


def wrong_stores(variables: Mapping[str, str], certificates: Certificates) -> dict[str, tuple[dict[str, str], str]]:
    """For Redis: name → changed variables, and the words of the line."""
    url = variables["EUNOE_REDIS_URL"]
    return {
        "password": ({"EUNOE_REDIS_URL": url.replace(ENCODED, WRONG)}, "refuses the login.*EUNOE_REDIS_URL"),
        "no login": ({"EUNOE_REDIS_URL": url.replace(f"{USER}:{ENCODED}@", "")}, "refuses the login"),
        "authority": (
            {"EUNOE_REDIS_URL": url.replace(str(certificates.authority), str(certificates.stranger))},
            "certificate that is not trusted.*ssl_ca_certs",
        ),
        "database": ({"EUNOE_REDIS_URL": url.replace("/0?", "/99?")}, "no such database.*EUNOE_REDIS_URL"),
        "keys": ({"EUNOE_PREFIX": "another"}, "does not let this user do everything"),
    }


def check_refused(done: Finished, words: str) -> None:
    """One line with these words, the exit code of wrong settings, and no secret; a wait would be another line."""
    lines = [line for line in done.err.splitlines() if line.strip()]
    assert done.code == 2, done.err
    assert len(lines) == 1, done.err
    assert lines[0].startswith("eunoe: ")
    assert not any(secret in done.err + done.out for secret in (WRONG, PASSWORD, ENCODED))
    assert re.search(words, lines[0]), lines[0]


async def refused(secured: Secured, words: str, *commands: str, **changed: str) -> None:
    """Each command is refused; they run at once."""
    for done in await asyncio.gather(*(secured.eunoe(*line.split(), **changed) for line in commands)):
        check_refused(done, words)


async def converse(secured: Secured, name: str) -> None:
    """Utterances, an ask, the end of the session, and what is remembered of it; the worker runs."""
    said = [("Mina", "I moved to Lyon in March."), ("Jonas", "Lyon has two rivers.")]
    at = "2026-03-01T09:30:00Z"
    events: list[dict[str, str]] = [
        {"type": "utterance", "utterance_id": f"{name}-{number}", "speaker": speaker, "text": text}
        for number, (speaker, text) in enumerate(said)
    ]
    events.append({"type": "session_ended"})
    file = secured.cwd / "events.jsonl"
    lines = [{"conversation_id": name, "at": at, **event} for event in events]
    file.write_bytes(b"".join(orjson.dumps(line) + b"\n" for line in lines))
    done = await secured.eunoe("produce", str(file))
    assert done.code == 0, done.err

    async def remembered() -> bool:
        shown = await secured.eunoe("show", name, "--json")
        return shown.code == 0 and shown.json["remembered_sessions"] == 1

    await until(remembered, 90)
    done = await secured.eunoe("ask", name, "Where did Mina move?", "--json")
    assert done.code == 0, done.err
    assert "Lyon" in done.json["text"]
    done = await secured.eunoe("state", name)
    assert done.code == 0, done.out + done.err


@pytest.mark.embedded("tells the workers that their broker is the embedded one")
async def test_redis_with_acl_and_tls_and_qdrant_with_a_key_serve_the_pipeline(tmp_path: Path) -> None:
    certificates = Certificates.make(tmp_path / "certificates")
    async with AsyncExitStack() as closing:
        found = await closing.enter_async_context(stores(tmp_path, certificates))
        kafka = closing.enter_context(tansu.broker())
        broker = {"EUNOE_KAFKA": kafka, "EUNOE_BROKER__EMBEDDED": "true", "EUNOE_BROKER__IDEMPOTENT": "false"}
        secured = Secured({**found, **broker}, certificates, tmp_path)
        assert (await secured.eunoe("topics", "create")).code == 0
        async with command.running("worker", "all", cwd=tmp_path, **secured.variables):
            await converse(secured, "mina")
        wrong = wrong_stores(found, certificates)
        await asyncio.gather(*(refused(secured, words, "worker all", **changed) for changed, words in wrong.values()))
        changed, words = wrong["password"]
        await refused(secured, words, "ask mina hello", "topics create", "show mina", **changed)
        for key in (WRONG, ""):
            changed = {"EUNOE_QDRANT_API_KEY": key}
            await refused(secured, "refuses the API key.*EUNOE_QDRANT_API_KEY", "worker all", "state mina", **changed)


@dataclass(frozen=True)
class Listeners:
    """Ways into one broker."""

    sasl: Secured
    """By user and password, over TLS."""
    certified: Secured
    """By a client's certificate."""
    anonymous: Secured
    """To the port that asks for a certificate, without one."""


@asynccontextmanager
async def secured_kafka(directory: Path) -> AsyncIterator[Listeners]:
    """A broker of Apache Kafka that asks for logins, with the stores that do so too."""
    certificates = Certificates.make(directory / "certificates")
    security = KafkaSecurity(certificates.server, certificates.authority, USER, PASSWORD)
    authority = {"EUNOE_BROKER__SSL_CAFILE": str(certificates.authority)}
    login = {
        "EUNOE_BROKER__SECURITY_PROTOCOL": "SASL_SSL",
        "EUNOE_BROKER__SASL_MECHANISM": "SCRAM-SHA-512",
        "EUNOE_BROKER__SASL_USERNAME": USER,
        "EUNOE_BROKER__SASL_PASSWORD": PASSWORD,
        **authority,
    }
    client = {
        "EUNOE_BROKER__SSL_CERTFILE": str(certificates.client),
        "EUNOE_BROKER__SSL_KEYFILE": str(certificates.client_key),
    }
    async with KafkaCluster(security=security) as kafka, stores(directory, certificates) as found:
        tls = {"EUNOE_KAFKA": kafka.tls_bootstrap, "EUNOE_BROKER__SECURITY_PROTOCOL": "SSL", **authority}
        yield Listeners(
            Secured({**found, "EUNOE_KAFKA": kafka.sasl_bootstrap, **login}, certificates, directory),
            Secured({**found, **tls, **client}, certificates, directory),
            Secured({**found, **tls}, certificates, directory),
        )


WRONG_PASSWORD = {"EUNOE_BROKER__SASL_PASSWORD": WRONG}
WRONG_LOGIN = "refuses the login.*EUNOE_BROKER__SASL_PASSWORD"


@pytest.mark.needs("secured-broker")
async def test_kafka_with_sasl_and_tls_serves_the_pipeline(tmp_path: Path) -> None:
    async with secured_kafka(tmp_path) as listeners:
        assert (await listeners.sasl.eunoe("topics", "create")).code == 0
        async with command.running("worker", "all", cwd=tmp_path, **listeners.sasl.variables):
            await converse(listeners.sasl, "mina")
            done = await listeners.certified.eunoe("ask", "mina", "Where did Mina move?", "--json")
            assert done.code == 0, done.err
            assert "Lyon" in done.json["text"]
        await refused(listeners.sasl, WRONG_LOGIN, "worker all", **WRONG_PASSWORD)


KAFKA_COMMANDS = ("topics create", "worker all", "ask mina hello")


@pytest.mark.needs("secured-broker")
async def test_wrong_logins_and_certificates_of_kafka_are_named(tmp_path: Path) -> None:
    async with secured_kafka(tmp_path) as listeners:
        assert (await listeners.certified.eunoe("topics", "create")).code == 0
        async with command.running("worker", "all", cwd=tmp_path, **listeners.certified.variables):
            await converse(listeners.certified, "jonas")
        await refused(listeners.sasl, WRONG_LOGIN, *KAFKA_COMMANDS, **WRONG_PASSWORD)
        plain = {"EUNOE_BROKER__SASL_MECHANISM": "PLAIN"}
        await refused(listeners.sasl, "refuses the login.*EUNOE_BROKER__SASL_MECHANISM", "topics create", **plain)
        stranger = {"EUNOE_BROKER__SSL_CAFILE": str(listeners.sasl.certificates.stranger)}
        await refused(listeners.sasl, "certificate not trusted.*EUNOE_BROKER__SSL_CAFILE", *KAFKA_COMMANDS, **stranger)
        await refused(listeners.certified, "certificate not trusted", "topics create", **stranger)
        await refused(listeners.anonymous, "EUNOE_BROKER__SSL_CERTFILE", *KAFKA_COMMANDS)
